"""A container to which little is written writes a checkpoint all the same: its log drops what is old."""

import asyncio
import dataclasses

import pytest

from headrace.errors import StorageWriteError
from headrace.limits import KIB
from headrace.wal.config import WalConfig
from headrace.wal.file.file_wal import FileWal
from headrace.wal.memory import MemoryWal
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

SECRET = b"to be forgotten"
INTERVAL_S = 5.0


def make_bench(interval_s=INTERVAL_S):
    bench = Bench()
    bench.config = dataclasses.replace(bench.config, checkpoint_interval_s=interval_s)
    return bench


class SeparationsCounted(MemoryWal):
    """Counts how often it is separated."""

    begun = 0

    async def separate(self):
        self.begun += 1


def counted(bench):
    statistics = bench.container.statistics()["durable_log"]
    return statistics.checkpoints, statistics.wal.frames_written


def has_secret(bench):
    return any(SECRET in payload for *_, payload in bench.logs.get_log("c0").records)


async def test_truncated_and_deleted_bytes_leave_the_log_of_a_quiet_container_in_a_bounded_time():
    bench = make_bench()
    container = await bench.start()
    for name in ("s/truncated", "s/deleted", "s/kept"):
        await container.create(name, {})
        await append(container, name, b"kept" if name == "s/kept" else SECRET)
    await container.truncate(await container.resolve("s/truncated"), len(SECRET))
    await container.delete(await container.resolve("s/deleted"))
    await asyncio.sleep(1)
    assert has_secret(bench)
    await asyncio.sleep(INTERVAL_S)
    assert not has_secret(bench)
    assert await read_all(container, "s/kept") == b"kept"
    await bench.stop()


@pytest.mark.slow
async def test_an_idle_container_comes_to_rest():
    bench = make_bench()
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", bytes(1000))
    await asyncio.sleep(4 * INTERVAL_S)
    before = counted(bench)
    await asyncio.sleep(8 * INTERVAL_S)
    assert counted(bench) == before
    assert container.log.is_truncated
    await bench.stop()


async def test_what_was_recovered_leaves_the_log_although_nothing_is_written():
    bench = make_bench()
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", SECRET)
    await asyncio.sleep(1)  # it is stored
    bench.container = None
    container = await bench.start()
    assert has_secret(bench)
    await asyncio.sleep(2 * INTERVAL_S)
    assert not has_secret(bench)
    assert await read_all(container, "s/a") == SECRET
    await bench.stop()


@pytest.mark.slow
async def test_while_storage_is_away_such_checkpoints_take_no_files_of_their_own():
    bench = make_bench(0.5)
    bench.make_wal = SeparationsCounted

    async def fail(*_):
        raise StorageWriteError("storage is away")

    container = await bench.start()
    create, bench.chunks.create = bench.chunks.create, fail
    await container.create("s/a", {})
    for _ in range(4):
        await append(container, "s/a", bytes(100))
        await asyncio.sleep(1)
    checkpoints, _ = counted(bench)
    assert checkpoints > 4
    assert container.log._wal.begun <= 1
    bench.chunks.create = create
    await until(lambda: container.log.is_truncated)
    await bench.stop()


@pytest.mark.real_loop
async def test_a_log_in_files_drops_the_file_too(tmp_path):
    bench = make_bench(0.05)
    bench.make_wal = lambda *_: FileWal(str(tmp_path / "log"), WalConfig(frames_max=24))
    container = await bench.start()
    await container.create("s/a", {})
    for _ in range(4):
        await append(container, "s/a", bytes(64 * KIB))
    await container.delete(await container.resolve("s/a"))
    await until(lambda: container.log.is_truncated)
    assert container.log._wal.statistics().log_bytes < 64 * KIB
    await bench.stop()
