"""A clean stop leaves a log of which the next start reads nearly nothing; a stop that cannot is soon over."""

import asyncio
import dataclasses

import pytest

from headrace.errors import ContainerOfflineError, StorageWriteError, WalWriteError
from headrace.limits import KIB, MIB
from headrace.runtime.filesystem import OsFilesystem
from headrace.wal.config import WalConfig
from headrace.wal.file.file_wal import FileWal
from headrace.wal.memory import MemoryWal
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

NAMES = ("s/a", "s/b", "s/c", "s/d")


class CountingFiles(OsFilesystem):
    """Counts what is read of log files."""

    bytes_read = 0

    def pread_into(self, fd, buffer, offset):
        self.bytes_read += len(buffer)
        return super().pread_into(fd, buffer, offset)


class Stopping(Bench):
    """Starts on a log in files; ``settings`` are those of the storage writer."""

    def __init__(self, path=None, **settings):
        super().__init__()
        writer = dataclasses.replace(self.config.storage_writer, **{"stop_flush_s": 20.0} | settings)
        self.config = dataclasses.replace(self.config, storage_writer=writer)
        self.files = CountingFiles()
        if path is not None:
            self.make_wal = lambda *_: FileWal(str(path), WalConfig(frames_max=24), filesystem=self.files)

    def recovered(self):
        return self.container.statistics()["durable_log"].recovered_operations


async def live(bench, size=64 * KIB):
    """Create, append, delete and evict, so that a stop has rows of the catalogue to remove."""
    container = bench.container
    for name in NAMES:
        await container.create(name, {})
        for _ in range(20):
            await append(container, name, bytes(size))
    await bench.evict(*NAMES)
    for name in NAMES:
        await append(container, name, b"again")
    await container.delete(await container.resolve("s/d"))
    await container.create("s/scratch", {})
    await append(container, "s/scratch", bytes(size))
    await container.delete(await container.resolve("s/scratch"))


@pytest.mark.slow
@pytest.mark.real_loop
async def test_the_start_after_a_clean_stop_reads_a_checkpoint_and_nothing_else(tmp_path):
    bench = Stopping(tmp_path / "log")
    await bench.start()
    await live(bench)
    await bench.stop()
    bench.container, bench.files.bytes_read = None, 0
    container = await bench.start()
    assert bench.recovered() <= 3, "a checkpoint of one part"
    assert bench.files.bytes_read < 1 * MIB
    for name in NAMES[:3]:
        assert (await read_all(container, name))[-5:] == b"again"
    assert container.find_segment("s/d") is None
    await bench.stop()


@pytest.mark.slow
@pytest.mark.real_loop
async def test_a_container_that_did_nothing_writes_nothing_when_it_stops(tmp_path):
    bench = Stopping(tmp_path / "log")
    await bench.start()
    await live(bench)
    await bench.stop()
    bench.container = None
    container = await bench.start()
    await until(lambda: container.log.is_truncated)
    await bench.stop()
    assert container.log._wal.statistics().frames_written == 0


async def test_a_stop_is_over_in_its_time_although_storage_is_away_and_nothing_is_lost():
    bench = Stopping(stop_flush_s=0.2)
    container = await bench.start()
    await live(bench, 1 * KIB)

    async def fail(*_):
        raise StorageWriteError("storage is away")

    create, bench.chunks.create = bench.chunks.create, fail
    await container.create("s/new", {})
    await append(container, "s/new", b"kept")
    async with asyncio.timeout(60):
        await bench.stop()
    bench.chunks.create = create
    bench.container = None
    container = await bench.start()
    assert await read_all(container, "s/new") == b"kept"
    await bench.stop()


async def test_a_stop_does_not_wait_for_a_log_that_fails_meanwhile():
    bench = Stopping(stop_flush_s=1e6, flush_age_s=1e9)  # nothing is stored before it stops
    container = await bench.start()
    await live(bench, 1 * KIB)

    async def fail_log(*_):
        container.log.fail(WalWriteError("the disk is gone"))
        raise StorageWriteError("storage is away")

    bench.chunks.create = fail_log
    await container.create("s/new", {})
    await append(container, "s/new", b"kept")
    async with asyncio.timeout(60):
        await container.stop()
    assert [type(error) for error in bench.failures] == [WalWriteError]
    await bench.stopping


async def test_requests_are_refused_while_a_container_stops_and_its_own_catalogue_still_works():
    bench = Stopping()
    container = await bench.start()
    await live(bench, 1 * KIB)
    segment = container.find_segment("s/a")
    rows = container.segment_statistics().catalogue_rows
    assert rows >= 4
    stopping = asyncio.ensure_future(container.stop())
    await until(lambda: container.tiers.term.is_finishing)
    for refused in (
        container.append(segment, b"x"),
        container.read(segment, 0, 1, wait=False),
        container.resolve("s/a"),
        container.create("s/e", {}),
    ):
        with pytest.raises(ContainerOfflineError):
            await refused
    await stopping
    assert container.log.is_truncated
    bench.container = None
    container = await bench.start()
    assert container.state.retired == [] or not container.state.retired
    await bench.stop()


async def test_two_stops_at_once_and_one_after_them_all_return():
    bench = Stopping()
    container = await bench.start()
    await live(bench, 1 * KIB)
    async with asyncio.timeout(120):
        await asyncio.gather(container.stop(), container.stop())
        await container.stop()
    assert not bench.failures


async def test_a_fenced_owner_stops_at_once():
    bench = Stopping(stop_flush_s=1e6)
    container = await bench.start()
    await live(bench, 1 * KIB)
    successor = MemoryWal(bench.logs, "c0")
    await successor.open()
    async with asyncio.timeout(120):
        await container.stop()
    await successor.close()
