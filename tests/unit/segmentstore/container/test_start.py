"""Between the first step of a start and its last: whatever ends it there leaves nothing behind."""

import asyncio
import contextlib
import dataclasses
import threading

import pytest

from headrace.errors import ClosedError, DataCorruptionError, HeadraceError, StorageFullError
from headrace.limits import MIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.wal.config import WalConfig
from headrace.wal.file.file_wal import FileWal
from headrace.wal.memory import MemoryWal
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

CONTENT = b"x" * 5000


class Process:
    """One cache for all containers that start on one log, as in a process."""

    def __init__(self, path=None):
        self.bench = Bench()
        # Others have a turn behind each operation that is replayed.
        self.bench.config = dataclasses.replace(self.bench.config, replay_operations=1)
        self.cache = BlockCache(CacheConfig(bytes_max=32 * MIB))
        self.path = path
        self.failures = []

    def make(self, wal=None):
        if wal is None:
            config = WalConfig(frames_max=4)
            wal = FileWal(str(self.path), config) if self.path else MemoryWal(self.bench.logs, "c0", config)
        components = ContainerComponents(
            wal=wal, chunks=self.bench.chunks, cache=self.cache, clock=SystemClock(), entropy=SeededEntropy(1)
        )
        return SegmentContainer(
            0, components, self.bench.config, lambda _, error: self.failures.append(error)
        )

    async def prepare(self):
        """A log with something that has to be in the cache after recovery, and a stale scratch segment."""
        container = self.make()
        await container.start()
        await container.create("s/a", {})
        await append(container, "s/a", CONTENT)
        container.tiers.supervisor.spawn("storage writer", fail())  # a crash: nothing is stored or cut
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await container.stop()
        self.failures.clear()

    async def prove(self):
        """Nothing is left in the cache, and the next start finds everything."""
        assert self.cache.statistics().used_bytes == 0
        self.cache.check()
        container = self.make()
        await container.start()
        assert await read_all(container, "s/a") == CONTENT
        await container.stop()
        assert self.cache.statistics().used_bytes == 0


async def fail():
    raise StorageFullError("as if killed")


@pytest.mark.slow
@pytest.mark.real_loop
@pytest.mark.parametrize("in_files", [False, True])
async def test_a_start_that_is_cancelled_at_any_turn_leaves_nothing_behind(tmp_path, in_files):
    process = Process(tmp_path / "log" if in_files else None)
    await process.prepare()
    threads = threading.active_count()
    turns, began = 0, False
    while not began:
        container = process.make()
        starting = asyncio.ensure_future(container.start())
        for _ in range(turns):
            await asyncio.sleep(0.0005 if in_files else 0)
        began = starting.done()
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        async with asyncio.timeout(120):
            await container.stop()
        turns += 1
        if turns % 5 == 0 or began:
            await process.prove()
        assert process.cache.statistics().used_bytes == 0
    assert turns >= 2  # how many in files depends on who else uses the machine
    assert not process.failures
    assert threading.active_count() == threads


class WatchedWal(MemoryWal):
    """Counts who reads it back."""

    readers = 0

    async def records(self):
        self.readers += 1
        try:
            async for record in super().records():
                yield record
        finally:
            self.readers -= 1


ENDS = {"stop": ClosedError, "fail": StorageFullError}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["cancel", *ENDS])
async def test_a_start_that_ends_at_any_turn_of_its_replay_leaves_nothing_behind(end):
    process = Process()
    await process.prepare()
    turns, began, in_replay, told = int(end == "stop"), False, 0, 0  # who has ended cannot be started
    while not began:
        wal = WatchedWal(process.bench.logs, "c0", WalConfig(frames_max=4))
        container = process.make(wal)
        starting = asyncio.ensure_future(container.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        began = starting.done()
        in_replay += (replays := wal.readers)
        if end == "cancel":
            starting.cancel()
        elif end == "fail" and not began:
            container.tiers.supervisor.spawn("a part", fail())
        if end == "fail":
            await asyncio.wait([starting])  # it hears of it
        async with asyncio.timeout(120):
            await container.stop()
            await asyncio.wait([starting])
        if replays:
            told += starting.cancelled() if end == "cancel" else type(starting.exception()) is ENDS[end]
        assert began or starting.cancelled() or isinstance(starting.exception(), HeadraceError | type(None))
        assert not wal.readers
        assert not process.cache.replay_lock.locked()
        assert process.cache.statistics().used_bytes == process.cache.containers == 0
        turns += 1
        if turns % 5 == 0 or began:
            await process.prove()
    assert in_replay >= 5
    assert told >= in_replay - 2 * (end == "fail")  # a task fails one turn later
    assert end == "fail" or not process.failures


async def test_a_start_that_meets_damage_after_its_bytes_are_in_the_cache_gives_them_back():
    process = Process()
    await process.prepare()

    class Damaged(MemoryWal):
        async def records(self):
            async for record in super().records():
                yield record
            raise DataCorruptionError("record 9 is damaged")

    container = process.make(Damaged(process.bench.logs, "c0", WalConfig(frames_max=4)))
    with pytest.raises(DataCorruptionError) as caught:
        await container.start()
    assert caught.value.__cause__ is not caught.value
    await container.stop()
    await process.prove()


async def test_of_two_starts_at_once_in_one_process_the_newer_one_runs_and_the_other_ends():
    process = Process()
    await process.prepare()
    first, second = process.make(), process.make()
    results = await asyncio.gather(first.start(), second.start(), return_exceptions=True)
    assert results[1] is None or isinstance(results[1], HeadraceError)
    running = [one for one, result in zip((first, second), results, strict=True) if result is None]
    winner = running[-1]
    await winner.create("s/b", {})
    for container in (first, second):
        await container.stop()
    await process.prove()


async def test_a_container_that_never_started_can_be_stopped():
    process = Process()
    await process.prepare()
    for _ in range(3):
        container = process.make()
        await container.stop()
        await container.stop()
    await process.prove()
