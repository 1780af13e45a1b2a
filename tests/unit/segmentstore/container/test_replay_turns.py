"""A log is replayed in portions: others run in between, but no two containers replay at once."""

import asyncio
import contextlib
import dataclasses
import itertools

import pytest

from headrace.errors import ClosedError
from headrace.limits import KIB, MIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.hosting.assignment import ContainerAssignment
from headrace.segmentstore.hosting.registry import ContainerRegistry
from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryWal
from tests.given_containers import give_all
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until


class Process:
    """Containers with logs of their own on one cache. Nothing is stored unless ``stores`` says so."""

    def __init__(self, *, replay_operations=20, cache_bytes=32 * MIB, stores=False):
        self.bench = Bench(active_segments_max=1000)
        self.config = dataclasses.replace(self.bench.config, replay_operations=replay_operations)
        if not stores:
            writer = StorageWriterConfig(flush_bytes=1 << 40, flush_age_s=1e6, stop_flush_s=0.0)
            self.config = dataclasses.replace(self.config, storage_writer=writer)
        self.cache = BlockCache(CacheConfig(bytes_max=cache_bytes, arena_bytes=1 * MIB))
        self.failures = []

    def again(self, **settings):
        """The same logs and chunks in another process."""
        other = Process(replay_operations=self.config.replay_operations, **settings)
        other.bench = self.bench
        return other

    def make(self, number=0, make_wal=MemoryWal, cache=None):
        components = ContainerComponents(
            wal=make_wal(self.bench.logs, f"c{number}", WalConfig(frames_max=24)),
            chunks=self.bench.chunks,
            cache=self.cache if cache is None else cache,
            clock=SystemClock(),
            entropy=SeededEntropy(1),
        )
        return SegmentContainer(number, components, self.config, lambda _, error: self.failures.append(error))

    @contextlib.asynccontextmanager
    async def fill(self, number=0):
        """A container that leaves in its log what is done with it; it ends as by a crash."""
        container = self.make(number, cache=BlockCache(CacheConfig(bytes_max=64 * MIB)))
        await container.start()
        yield container
        container.log.processor.close()
        await container.stop()
        self.failures.clear()


async def watch(starting, look):
    """Answer what ``look`` answers in each turn of the loop that others get until the start is over."""
    seen = [look()]
    while not starting.done():
        await asyncio.sleep(0)
        seen.append(look())
    await starting
    return seen


def steps(seen):
    """By how much a number grew from turn to turn."""
    return [after - before for before, after in itertools.pairwise(seen)]


@pytest.mark.slow
async def test_others_have_a_turn_behind_a_bounded_number_of_operations():
    process = Process(replay_operations=20)
    async with process.fill() as container:
        await container.create("s/a", {})
        await asyncio.gather(*(append(container, "s/a", b"x" * 10) for _ in range(1000)))
    container = process.make()
    grown = steps(await watch(asyncio.ensure_future(container.start()), lambda: container.state.sequence))
    assert sum(each > 0 for each in grown) >= 1000 // 20
    assert max(grown[1:]) <= 20 + 5, "the first checkpoint sets it; a few more are logged by the start itself"
    assert await read_all(container, "s/a") == b"x" * 10_000
    await container.stop()


async def test_others_have_a_turn_behind_a_bounded_number_of_bytes():
    process = Process(replay_operations=500)
    async with process.fill() as container:
        await container.create("s/a", {})
        for number in range(20):
            await append(container, "s/a", bytes([number]) * (1 * MIB - 10 * KIB))
    container = process.make()

    def look():
        segment = container.state.by_name.get("s/a")
        return 0 if segment is None else segment.durable_length

    grown = steps(await watch(asyncio.ensure_future(container.start()), look))
    assert sum(grown) == 20 * (1 * MIB - 10 * KIB)
    assert max(grown) <= 5 * MIB
    await container.stop()


async def test_a_large_checkpoint_becomes_the_state_in_portions():
    process = Process(replay_operations=20)
    async with process.fill() as container:
        await asyncio.gather(*(container.create(f"s/{number}", {}) for number in range(400)))
        await container.log.write_checkpoint()  # makes the rows: the next one begins at once
        between = asyncio.ensure_future(container.log.write_checkpoint())
        await asyncio.sleep(0)  # it has begun
        appends = [append(container, f"s/{number}", b"y") for number in range(200)]
        await asyncio.gather(between, *appends)
        newest = container.log._truncation.newest
        await container.log._wal.truncate(newest.begin_address)
    container = process.make()
    seen = await watch(
        asyncio.ensure_future(container.start()),
        lambda: (len(container.state.by_id), container.state.sequence),
    )
    segments, sequences = zip(*seen, strict=True)
    assert max(segments) > 400
    assert max(steps(segments)) <= 20
    assert max(steps([found for found in sequences if found])) <= 20 + 5
    container.check()
    assert await read_all(container, "s/7") == b"y"
    assert await read_all(container, "s/399") == b""
    await container.stop()


async def fill_some(process, *numbers, size=100):
    for number in numbers:
        async with process.fill(number) as container:
            await container.create(f"s/{number}", {})
            for _ in range(50):
                await append(container, f"s/{number}", b"x" * size)


async def test_containers_replay_one_behind_the_other_but_open_their_logs_side_by_side():
    process = Process(replay_operations=1)
    await fill_some(process, 0, 1, 2)
    containers = [process.make(number) for number in range(3)]
    busy = [set(), set(), set()]
    starting = asyncio.gather(*(container.start() for container in containers))
    turn = 0
    last = [0, 0, 0]
    while not starting.done():
        await asyncio.sleep(0)
        turn += 1
        for number, container in enumerate(containers):
            if container.state.sequence != last[number]:
                last[number] = container.state.sequence
                if container.log._processor is None:
                    busy[number].add(turn)
                    assert all(other.state.epoch == 2 for other in containers), "all logs are open"
    await starting
    assert all(len(turns) >= 50 for turns in busy)
    assert max(busy[0]) < min(busy[1]), "in the order in which they came"
    assert max(busy[1]) < min(busy[2])
    for container in containers:
        await container.stop()


async def test_who_waits_for_its_turn_can_be_cancelled_and_those_behind_it_still_come():
    process = Process(replay_operations=1)
    await fill_some(process, 0, 1)
    await process.cache.replay_lock.acquire()
    given_up, patient = process.make(0), process.make(1)
    first, second = asyncio.ensure_future(given_up.start()), asyncio.ensure_future(patient.start())
    await until(lambda: patient.state.epoch == given_up.state.epoch == 2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await given_up.stop()
    assert process.cache.containers == 1
    process.cache.replay_lock.release()
    await second
    assert await read_all(patient, "s/1") == b"x" * 5000
    await patient.stop()
    assert process.cache.statistics().used_bytes == 0


async def test_two_containers_that_fit_only_one_behind_the_other_both_come_up():
    process = Process(replay_operations=1)
    await fill_some(process, 0, 1, size=100 * KIB)
    process = process.again(cache_bytes=8 * MIB, stores=True)
    registry = ContainerRegistry(2)
    assignment = ContainerAssignment(registry, lambda number, _: process.make(number), restart_delay_s=0.001)
    async with asyncio.timeout(120):
        await give_all(assignment, registry.container_count)
    assert registry.health()[0].restarts == 0, "the first one has the cache for itself"
    for container in registry.running():
        assert await read_all(container, f"s/{container.container_id}") == b"x" * (50 * 100 * KIB)
    await assignment.take_all()
    process.cache.check()
    assert process.cache.statistics().used_bytes == 0


@pytest.mark.slow
async def test_others_may_take_the_room_of_what_storage_holds_between_two_turns():
    process = Process(replay_operations=1, cache_bytes=4 * MIB, stores=True)
    async with process.fill() as container:
        await container.create("s/a", {})
        for number in range(30):
            await append(container, "s/a", bytes([number]) * (40 * KIB))
            if number % 5 == 4:
                await container.flush_storage()
        await append(container, "s/a", b"the end")
        length = container.find_segment("s/a").durable_length

    class Thief:
        def on_evicted(self, offset): ...

    container, cache = process.make(), process.cache
    thief = cache.register(Thief())
    starting = asyncio.ensure_future(container.start())
    while not starting.done():
        await asyncio.sleep(0)
        blocks = []
        while cache.free_bytes > 300 * KIB:
            blocks.append(cache.allocate_tail(thief, 0, BLOCK_BYTES, -1))
        cache.check()
        for block in blocks:
            cache.free(block)
    await starting
    assert cache.statistics().evicted_extents
    container.check()
    content = await read_all(container, "s/a")
    assert len(content) == length
    assert content == b"".join(bytes([number]) * (40 * KIB) for number in range(30)) + b"the end"
    assert not process.failures
    await container.stop()
    cache.unregister(thief)


async def leave_unstored(process, count):
    async with process.fill() as container:
        for number in range(count):
            await container.create(f"s/{number}", {})
            await append(container, f"s/{number}", b"x")


def count_checked(monkeypatch):
    """Answer a list that gets each segment of which it was asked whether anything is missing."""
    checked = []
    ask = ContainerReadIndex.first_uncovered
    monkeypatch.setattr(
        ContainerReadIndex, "first_uncovered", lambda self, each: checked.append(each) or ask(self, each)
    )
    return checked


async def test_others_have_a_turn_while_it_is_checked_that_every_byte_was_recovered(monkeypatch):
    process = Process(replay_operations=20)
    await leave_unstored(process, 200)
    checked = count_checked(monkeypatch)
    container = process.make()
    grown = steps(await watch(asyncio.ensure_future(container.start()), lambda: len(checked)))
    assert sum(grown) == 200 + 2, "the container's own are two"
    assert max(grown) == 20
    await container.stop()


async def test_a_start_that_is_ended_while_it_checks_what_was_recovered_calls_nothing_damaged(monkeypatch):
    process = Process(replay_operations=20)
    await leave_unstored(process, 200)
    checked = count_checked(monkeypatch)
    container = process.make()
    starting = asyncio.ensure_future(container.start())
    await until(lambda: checked)
    await container.stop()
    with pytest.raises(ClosedError):
        await starting
    assert len(checked) < 200
