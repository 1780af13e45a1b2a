"""What hangs in one kind of thread holds up nothing of another kind, and what was given up is never done."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path

import pytest

from headrace.errors import NoSuchChunkError, StorageReadError, StorageWriteError
from headrace.limits import MIB
from headrace.runtime.blocking import BlockingPool, SystemThreads
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.append_plan import AppendPiece
from headrace.storage.chunks.chunk_io import ChunkIO
from headrace.storage.chunks.read_plan import ReadPiece
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.files.chunk_threads import ChunkThreads, perform
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider


class HangingFilesystem(OsFilesystem):
    """A mounted file system whose server answers the calls in ``hangs`` only after ``heal``."""

    def __init__(self):
        self.hangs = set()
        self.calls = []
        self._healed = threading.Event()

    def heal(self):
        self.hangs = set()
        self._healed.set()

    def _enter(self, name):
        self.calls.append(name)
        if name in self.hangs:
            assert self._healed.wait(120)

    def pwritev(self, fd, buffers, offset):
        self._enter("pwritev")
        return super().pwritev(fd, buffers, offset)

    def pread_into(self, fd, buffer, offset):
        self._enter("pread_into")
        return super().pread_into(fd, buffer, offset)

    def unlink(self, path):
        self._enter("unlink")
        super().unlink(path)


@pytest.fixture
async def disk(tmp_path):
    """Hanging files, and a provider over them with two threads of each kind but one for chores."""
    files = HangingFilesystem()
    threads = ChunkThreads.start(SystemThreads(), ChunkThreadsConfig(writes=2, reads=2))
    provider = FilesystemChunkProvider(str(tmp_path), files, threads)
    yield files, provider, threads
    files.heal()
    threads.close()
    await threads.wait_closed()
    await provider.close()


async def abandon(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition):
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - threads cannot set an asyncio.Event
            await asyncio.sleep(0.001)


async def test_reads_and_deletions_go_on_while_all_writes_hang(disk):
    files, provider, threads = disk
    await provider.create("stored", [b"x" * 100])
    await provider.create("garbage", [b"y"])
    files.hangs = {"pwritev"}
    hung = [asyncio.ensure_future(provider.append("stored", 100, [b"z"])) for _ in range(2)]
    hung += [asyncio.ensure_future(provider.create(f"c{number}", [b"z"])) for number in range(50)]
    await until(lambda: files.calls.count("pwritev") == 4)
    async with asyncio.timeout(120):
        assert await provider.read("stored", 0, 100) == b"x" * 100
        await provider.delete("garbage")
        with pytest.raises(NoSuchChunkError):
            await provider.info("garbage")
    assert threads.statistics()["writes"].pending == 52
    await abandon(*hung)


async def test_writes_and_deletions_go_on_while_all_reads_hang(disk):
    files, provider, _ = disk
    await provider.create("stored", [b"x" * 100])
    await provider.create("garbage", [b"y"])
    files.hangs = {"pread_into"}
    hung = [asyncio.ensure_future(provider.read("stored", 0, 100)) for _ in range(50)]
    await until(lambda: files.calls.count("pread_into") == 2)
    async with asyncio.timeout(120):
        await provider.append("stored", 100, [b"z"])
        await provider.create("new", [b"z"])
        await provider.delete("garbage")
    files.heal()
    assert await asyncio.gather(*hung) == [b"x" * 100] * 50


async def test_reads_and_writes_go_on_while_a_deletion_hangs(disk):
    files, provider, _ = disk
    await provider.create("stored", [b"x"])
    files.hangs = {"unlink"}
    hung = [asyncio.ensure_future(provider.delete(f"garbage{number}")) for number in range(50)]
    await until(lambda: "unlink" in files.calls)
    async with asyncio.timeout(120):
        await provider.append("stored", 1, [b"y"])
        assert await provider.read("stored", 0, 2) == b"xy"
    await abandon(*hung)


async def test_a_read_that_hangs_fails_in_time_and_says_so(disk):
    files, provider, _ = disk
    await provider.create("stored", [b"x"])
    io = ChunkIO(RetryingChunkProvider(provider, 0.05), parallel_max=8)
    files.hangs = {"pread_into", "pwritev"}
    piece = ReadPiece("stored", 0, 1, 0, 1, 64, [])
    for _ in range(5):  # the first two take the threads, the others wait for them
        with pytest.raises(StorageReadError, match=r"more than 0\.01 s"):
            await io.read([piece])
    with pytest.raises(StorageWriteError, match=r"more than 0\.05 s"):
        await io.write(AppendPiece("new", 0, 0, 1, is_new=True), [memoryview(b"z")])


async def test_writes_that_were_given_up_while_they_waited_never_happen(disk):
    files, provider, threads = disk
    files.hangs = {"pwritev"}
    tasks = [asyncio.ensure_future(provider.create(f"c{number}", [b"z"])) for number in range(100)]
    await until(lambda: files.calls.count("pwritev") == 2)
    await abandon(*tasks)
    files.heal()
    await until(lambda: threads.statistics()["writes"].pending == 0)
    assert files.calls.count("pwritev") == 2
    assert not [item async for page in provider.list() for item in page], "the two remove what they made"


async def test_a_read_that_waits_takes_no_memory_and_one_that_was_given_up_leaves_no_descriptor(disk):
    files, provider, threads = disk
    await provider.create("stored", [b"x" * 100])
    before = open_files()
    files.hangs = {"pread_into"}
    tasks = [asyncio.ensure_future(provider.read("stored", 0, 100)) for _ in range(20)]
    await until(lambda: files.calls.count("pread_into") == 2)
    await abandon(*tasks)
    files.heal()
    await until(lambda: threads.statistics()["reads"].pending == 0)
    await provider.close()
    assert open_files() == before


async def test_a_file_deleted_while_a_thread_reads_it_is_neither_kept_open_nor_read_again(disk):
    files, provider, _ = disk
    await provider.create("c", [b"x" * 1000])
    await provider.create("other", [b"y"])
    before = open_files()
    files.hangs = {"pread_into"}
    readings = [asyncio.ensure_future(provider.read(name, 0, 1)) for name in ("c", "other")]
    await until(lambda: files.calls.count("pread_into") == 2)
    await provider.delete("c")
    files.heal()
    assert await asyncio.gather(*readings) == [b"x", b"y"]
    assert open_files() == before + 1
    assert provider.open_file("c") is None
    assert provider.open_file("other") is not None
    with pytest.raises(NoSuchChunkError):
        await provider.read("c", 0, 1)
    await provider.create("c", [b"z"])
    assert await provider.read("c", 0, 1) == b"z"
    assert provider.open_file("c") is not None


async def test_a_read_that_ends_after_the_provider_was_closed_leaves_no_descriptor(disk):
    files, provider, _ = disk
    await provider.create("c", [b"x"])
    before = open_files()
    files.hangs = {"pread_into"}
    reading = asyncio.ensure_future(provider.read("c", 0, 1))
    await until(lambda: "pread_into" in files.calls)
    await provider.close()
    files.heal()
    assert await reading == b"x"
    assert await provider.read("c", 0, 1) == b"x"
    assert open_files() == before


@pytest.mark.slow
async def test_a_call_that_was_given_up_lets_go_of_its_arguments():
    pool = BlockingPool(1, "one")
    go = threading.Event()
    first = asyncio.ensure_future(perform(pool, go.wait))
    data = memoryview(bytearray(MIB))
    alive = weakref.ref(data)
    second = asyncio.ensure_future(perform(pool, len, data))
    del data
    await until(lambda: pool.statistics().pending == 2)
    assert alive() is not None
    await abandon(second)
    del second
    gc.collect()  # the traceback of the cancellation
    assert alive() is None
    go.set()
    await first
    pool.close()
    await pool.wait_closed()


async def test_checksums_are_made_in_the_thread_that_writes(disk):
    _, provider, _ = disk
    seen = []
    await provider.create("c", [b"x"], lambda: seen.append(threading.current_thread()))
    await provider.append("c", 1, [b"x"], lambda: seen.append(threading.current_thread()))
    assert len(seen) == 2
    assert threading.main_thread() not in seen
