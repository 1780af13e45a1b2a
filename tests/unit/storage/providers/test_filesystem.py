"""What goes wrong with chunk files, and how the filesystem provider says so."""

import errno
import os
from pathlib import Path

import pytest

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    MailboxFullError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.limits import KIB, MIB
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.providers.files import chunk_files
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider, FilesystemProviderConfig
from headrace.testing.disk import DiskConfig, SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem

ROOT = "/chunks"


class InlineWork:
    """Performs blocking work at once; ``before`` is awaited first."""

    before = None

    async def run(self, fn, *args):
        if self.before is not None:
            await self.before(fn)
        return fn(*args)


def on_disk(config=None):
    disk = SimulatedDisk(SeededEntropy(1), config)
    files = SimulatedFilesystem(disk)
    files.mkdir(ROOT)
    return disk, FilesystemChunkProvider(ROOT, files, ChunkThreads.shared(InlineWork()))


async def test_a_full_disk_refuses_a_create_and_leaves_no_file():
    _, provider = on_disk(DiskConfig(capacity_bytes=10_000))
    with pytest.raises(StorageFullError):
        await provider.create("a/c", [b"x" * 8000, b"y" * 8000])
    with pytest.raises(NoSuchChunkError):
        await provider.info("a/c")
    await provider.create("a/c", [b"x" * 8000])


async def test_a_full_disk_refuses_an_append_and_leaves_the_file_as_it_was():
    _, provider = on_disk(DiskConfig(capacity_bytes=20_000))
    await provider.create("a/c", [b"x" * 8000])
    with pytest.raises(StorageFullError):
        await provider.append("a/c", 8000, [b"y" * 5000, b"z" * 15_000])
    assert (await provider.info("a/c")).length == 8000
    await provider.append("a/c", 8000, [b"y"])
    assert await provider.read("a/c", 0, 8001) == b"x" * 8000 + b"y"


@pytest.mark.parametrize("operation", ["open", "pwritev", "fsync", "close", "fsync_directory"])
async def test_a_failing_disk_makes_the_outcome_of_a_create_unknown(operation):
    disk, provider = on_disk()
    disk.fail(operation)
    with pytest.raises(StorageWriteError):
        await provider.create("a/c", [b"x"])
    disk.heal()
    await provider.create("b/c", [b"x"])


@pytest.mark.parametrize("operation", ["open", "pwritev", "fdatasync", "size", "close"])
async def test_a_failing_disk_makes_the_outcome_of_an_append_unknown(operation):
    disk, provider = on_disk()
    await provider.create("c", [b"x"])
    disk.fail(operation)
    with pytest.raises(StorageWriteError):
        await provider.append("c", 1, [b"y"])


async def test_a_failed_sync_of_the_directory_is_repeated_by_the_next_create():
    disk, provider = on_disk()
    disk.fail("fsync_directory")
    with pytest.raises(StorageWriteError):
        await provider.create("a/b/c", [b"x"])
    disk.heal()
    await provider.create("a/b/d", [b"y"])
    disk.lose_power()
    disk.restore_power()
    again = FilesystemChunkProvider(ROOT, SimulatedFilesystem(disk), ChunkThreads.shared(InlineWork()))
    assert await again.read("a/b/d", 0, 1) == b"y"


@pytest.mark.parametrize("operation", ["open", "pread_into"])
async def test_a_failing_disk_fails_a_read_that_may_be_repeated(operation):
    disk, provider = on_disk()
    await provider.create("c", [b"x"])
    disk.fail(operation)
    with pytest.raises(StorageReadError):
        await provider.read("c", 0, 1)
    disk.heal()
    assert await provider.read("c", 0, 1) == b"x"


async def test_a_failing_disk_fails_info_list_and_delete():
    disk, provider = on_disk()
    await provider.create("c", [b"x"])
    disk.fail("stat_size")
    with pytest.raises(StorageReadError):
        await provider.info("c")
    disk.heal()
    disk.fail("listdir")
    with pytest.raises(StorageReadError):
        async for _ in provider.list():
            pass
    disk.heal()
    disk.fail("unlink")
    with pytest.raises(StorageWriteError):
        await provider.delete("c")
    assert (await provider.info("c")).name == "c"


@pytest.mark.parametrize(("operation", "error"), [("fdatasync", errno.EIO), ("pwritev", errno.ENOSPC)])
async def test_what_failed_before_a_file_was_closed_is_what_an_append_says(operation, error):
    disk, provider = on_disk()
    await provider.create("c", [b"x"])
    disk.fail(operation, error=error)
    disk.fail("close")
    kind = StorageFullError if error == errno.ENOSPC else StorageWriteError
    with pytest.raises(kind) as caught:
        await provider.append("c", 1, [b"y"])
    assert caught.value.__cause__.errno == error
    assert caught.value.__cause__.__context__ is None


async def test_what_failed_before_a_file_was_closed_is_what_a_create_says():
    disk, provider = on_disk()
    disk.fail("pwritev", error=errno.ENOSPC)
    disk.fail("close")
    with pytest.raises(StorageFullError):
        await provider.create("c", [b"x"])
    with pytest.raises(NoSuchChunkError):
        await provider.info("c")


async def test_an_append_to_a_file_of_another_length_is_refused_even_if_it_cannot_be_closed():
    disk, provider = on_disk()
    await provider.create("c", [b"x"])
    disk.fail("close")
    with pytest.raises(ChunkOffsetError):
        await provider.append("c", 2, [b"y"])


async def test_a_file_that_cannot_be_closed_has_been_read_all_the_same():
    disk, provider = on_disk()
    await provider.create("c", [b"x"])
    disk.fail("close")
    assert await provider.read("c", 0, 1) == b"x"
    disk.fail("pread_into")
    disk.fail("close")
    with pytest.raises(StorageReadError):
        await provider.read("c", 0, 1)


# ---- descriptors of the loop


@pytest.fixture
async def local(tmp_path):
    pool = BlockingPool(2, "chunks")
    provider = FilesystemChunkProvider(
        str(tmp_path),
        OsFilesystem(),
        ChunkThreads.shared(pool),
        FilesystemProviderConfig(descriptors_max=3, read_at_once_bytes_max=100),
    )
    yield provider
    await provider.close()
    pool.close()
    await pool.wait_closed()


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_warm_reads_stay_on_the_loop_up_to_their_bound(tmp_path):
    class CountedWork(InlineWork):
        calls = 0

        async def run(self, fn, *args):
            self.calls += 1
            return await super().run(fn, *args)

    work = CountedWork()
    config = FilesystemProviderConfig(read_at_once_bytes_max=100)
    provider = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(work), config)
    await provider.create("c", [b"x" * 1000])
    for size, calls in [(100, 2), (100, 2), (101, 3), (1, 3)]:
        assert await provider.read("c", 0, size) == b"x" * size
        assert work.calls == calls
    await provider.close()


async def test_a_read_beyond_the_end_of_an_open_file_is_refused(local):
    await local.create("c", [b"x" * 50])
    await local.read("c", 0, 50)
    with pytest.raises(ChunkOffsetError) as caught:
        await local.read("c", 40, 20)
    assert caught.value.actual == 50


async def test_bytes_appended_after_a_file_was_opened_are_read(local):
    await local.create("c", [b"x"])
    await local.read("c", 0, 1)
    await local.append("c", 1, [b"y"])
    assert await local.read("c", 0, 2) == b"xy"


async def test_who_was_handed_an_open_file_sees_when_it_is_closed(local):
    for name in "abc":
        await local.create(name, [name.encode() * 10])
        await local.read(name, 0, 10)
    files = {name: local.open_file(name) for name in "abc"}
    for name, file in files.items():
        assert os.pread(file.descriptor, 20, 0) == name.encode() * 10
    local.read_at_once("a", 0, memoryview(bytearray(1)))  # the one used last
    await local.create("d", [b"d"])
    await local.read("d", 0, 1)
    assert [name for name, file in files.items() if file.descriptor < 0] == ["b"]
    assert local.open_file("b") is None
    await local.delete("c")
    await local.close()
    assert [file.descriptor for file in files.values()] == [-1, -1, -1]


async def test_a_deleted_file_is_not_read_through_an_open_descriptor(local):
    await local.create("c", [b"x"])
    await local.read("c", 0, 1)
    await local.delete("c")
    with pytest.raises(NoSuchChunkError):
        await local.read("c", 0, 1)


async def test_a_file_opened_while_it_is_deleted_is_not_read_afterwards(tmp_path):
    work = InlineWork()
    provider = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(work))
    await provider.create("c", [b"x"])

    async def read_first(fn):
        if fn.call[0] is chunk_files.delete_file:
            work.before = None
            assert await provider.read("c", 0, 1) == b"x"

    work.before = read_first
    await provider.delete("c")
    with pytest.raises(NoSuchChunkError):
        await provider.read("c", 0, 1)


async def test_descriptors_are_bounded_and_given_back(local):
    before = open_descriptors()
    for number in range(20):
        await local.create(f"c{number}", [b"x"])
        await local.read(f"c{number}", 0, 1)
    assert open_descriptors() <= before + 3
    await local.close()
    assert open_descriptors() <= before


async def test_an_open_file_that_cannot_be_closed_is_no_reason_to_fail(local, monkeypatch):
    await local.create("c", [b"x"])
    assert await local.read("c", 0, 1) == b"x"

    def close(self, descriptor):
        os.close(descriptor)
        raise OSError(errno.EIO, "closing failed")

    monkeypatch.setattr(OsFilesystem, "close", close)
    await local.delete("c")
    with pytest.raises(NoSuchChunkError):
        await local.info("c")


async def test_files_of_others_below_the_root_are_left_alone(local, tmp_path):
    await local.create("a/c", [b"x"])
    (tmp_path / "README").write_text("hello")
    (tmp_path / "a" / "notes.txt").write_text("hello")
    (tmp_path / "a" / "%zz.chunk").write_text("hello")
    found = [item.name async for page in local.list() for item in page]
    assert found == ["a/c"]


@pytest.mark.parametrize("name", ["lost+found", ".snapshot"])
async def test_what_a_mounted_volume_brings_along_is_not_looked_into(local, tmp_path, monkeypatch, name):
    listdir = OsFilesystem.listdir

    def only_root_may(self, path):
        if path.endswith(name):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listdir(self, path)

    monkeypatch.setattr(OsFilesystem, "listdir", only_root_may)
    await local.create("a/c", [b"x"])
    (tmp_path / name).mkdir()
    assert [item.name async for page in local.list() for item in page] == ["a/c"]


async def test_a_directory_that_is_taken_away_is_not_made_again_where_it_was(local, tmp_path):
    """What is written where a file system was mounted is hidden once it is mounted again."""
    await local.create("a/first", [b"x"])
    (tmp_path / "a").rename(tmp_path / "away")
    with pytest.raises(StorageWriteError, match="mount its file system"):
        await local.create("a/second", [b"y"])
    assert not (tmp_path / "a").exists()
    await local.create("b/other", [b"z"])
    (tmp_path / "away").rename(tmp_path / "a")
    await local.create("a/second", [b"y"])
    assert await local.read("a/first", 0, 1) == b"x"


async def test_an_existing_file_is_never_overwritten_even_by_another_provider(local, tmp_path):
    pool = InlineWork()
    other = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(pool))
    await other.create("c", [b"theirs"])
    with pytest.raises(ChunkExistsError):
        await local.create("c", [b"ours"])
    assert await local.read("c", 0, 6) == b"theirs"


class WatchedFilesystem(OsFilesystem):
    """Notes what is asked of it, in order."""

    def __init__(self):
        self.calls = []

    def pwritev(self, fd, buffers, offset):
        self.calls.append(("write", offset, sum(map(len, buffers))))
        return super().pwritev(fd, buffers[:3], offset)  # short, as on a signal

    def start_writing_back(self, fd, offset, length):
        self.calls.append(("start", offset, length))
        super().start_writing_back(fd, offset, length)

    def fdatasync(self, fd):
        self.calls.append(("sync",))
        super().fdatasync(fd)


async def test_the_disk_works_on_a_large_write_while_the_rest_is_copied(tmp_path):
    files = WatchedFilesystem()
    provider = FilesystemChunkProvider(str(tmp_path), files, ChunkThreads.shared(InlineWork()))
    await provider.create("s/large", [b"head"])
    pieces = [bytes([number]) * (700 * KIB + number) for number in range(13)]
    files.calls.clear()
    await provider.append("s/large", 4, pieces, lambda: files.calls.append(("beside",)))
    assert (await provider.read("s/large", 0, 4 + sum(map(len, pieces)))) == b"head" + b"".join(pieces)
    begun = [call[1:] for call in files.calls if call[0] == "start"]
    position = 4
    for offset, length in begun:  # every byte, once, each part right after it was written
        assert offset == position
        position += length
    assert position == 4 + sum(map(len, pieces))
    assert files.calls[:2] == [
        ("write", 4, sum(map(len, pieces[:6]))),
        ("start", 4, sum(map(len, pieces[:3]))),
    ]
    assert files.calls[-2:] == [("beside",), ("sync",)]  # the checksums are made while the disk works
    files.calls.clear()
    await provider.append("s/large", position, [b"small"])
    assert [call[0] for call in files.calls] == ["write", "sync"]


# ---- what leaves the page cache


class ForgettingFilesystem(OsFilesystem):
    """Notes which pages it is told to forget."""

    def __init__(self):
        self.dropped = []
        self.fails = False

    def drop_cached(self, fd, offset, length):
        if self.fails:
            raise OSError("not here")
        path = Path(f"/proc/self/fd/{fd}").readlink()
        self.dropped.append((path.name.removesuffix(".chunk"), offset, length))
        super().drop_cached(fd, offset, length)


class ChoresLater(InlineWork):
    """Performs at once what is awaited; the rest when ``catch_up`` is called."""

    def __init__(self):
        self.later = []
        self.full = False

    def submit(self, fn, args, done):
        if self.full:
            raise MailboxFullError("full")
        self.later.append((fn, args, done))

    def catch_up(self):
        for fn, args, done in self.later:
            done(fn(*args), None)
        self.later.clear()


def forgetting(tmp_path, written_cache_bytes=64 * KIB):
    files, work = ForgettingFilesystem(), ChoresLater()
    config = FilesystemProviderConfig(written_cache_bytes=written_cache_bytes)
    return files, work, FilesystemChunkProvider(str(tmp_path), files, ChunkThreads.shared(work), config)


async def test_what_was_written_longest_ago_leaves_the_page_cache(tmp_path):
    files, work, provider = forgetting(tmp_path)
    contents = {f"s/{number}": bytes([number]) * (20 * KIB) for number in range(8)}
    for name, content in contents.items():
        await provider.create(name, [content])
        work.catch_up()
    assert files.dropped == [(str(number), 0, 20 * KIB) for number in range(5)]
    assert provider.statistics().bytes_dropped == 100 * KIB
    for name, content in contents.items():
        assert await provider.read(name, 0, 20 * KIB) == content


async def test_pages_of_a_chunk_that_grows_leave_from_its_beginning(tmp_path):
    files, work, provider = forgetting(tmp_path, 8 * MIB)
    await provider.create("c", [b"x" * 5000])
    for number in range(13):
        await provider.append("c", 5000 + number * MIB, [bytes([number]) * MIB])
        work.catch_up()
    position = 0
    for name, offset, length in files.dropped:
        assert (name, offset) == ("c", position)
        position += length
    assert 13 * MIB - 8 * MIB <= position <= 13 * MIB - 4 * MIB
    assert await provider.read("c", 4999, MIB + 2) == b"x" + bytes([0]) * MIB + bytes([1])


async def test_a_chunk_that_is_gone_and_a_failure_are_passed_over(tmp_path):
    files, work, provider = forgetting(tmp_path, 0)
    await provider.create("gone", [b"x" * 8192])
    await provider.create("fails", [b"y" * 8192])
    await provider.delete("gone")  # while the thread is on its way
    files.fails = True
    work.catch_up()
    assert provider.statistics().bytes_dropped == 0
    files.fails = False
    await provider.create("next", [b"z" * 8192])
    work.catch_up()
    assert files.dropped == [("fails", 0, 8192), ("next", 0, 8192)]


async def test_threads_that_have_no_room_leave_the_pages_to_the_system(tmp_path):
    files, work, provider = forgetting(tmp_path, 0)
    work.full = True
    await provider.create("a", [b"x" * 8192])
    work.full = False
    await provider.create("b", [b"y" * 8192])
    work.catch_up()
    assert files.dropped == [("b", 0, 8192)]


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the loop reads no files itself here")
async def test_a_file_whose_pages_are_leaving_is_not_lent(tmp_path):
    _, work, provider = forgetting(tmp_path, 16 * KIB)
    await provider.create("c", [b"x" * 12 * KIB])
    await provider.read("c", 0, 10)
    assert provider.open_file("c") is not None
    await provider.create("d", [b"y" * 12 * KIB])
    assert provider.open_file("c") is None, "what was verified may come from the disk again"
    work.catch_up()
    assert provider.open_file("c") is not None
    await provider.close()


async def test_listing_looks_into_few_directories_at_a_time():
    """Directories stay when their last chunk is gone: a million empty ones must not keep a thread."""
    disk, provider = on_disk()
    files = SimulatedFilesystem(disk)
    for number in range(1000):
        files.mkdir(f"{ROOT}/scope{number}")
    await provider.create("z/c", [b"x"])
    looks, most = 0, 0

    class Counting(SimulatedFilesystem):
        def listdir(self, path):
            nonlocal looks
            looks += 1
            return super().listdir(path)

    async def before(fn):
        nonlocal looks, most
        most, looks = max(most, looks), 0

    work = InlineWork()
    work.before = before
    counting = FilesystemChunkProvider(ROOT, Counting(disk), ChunkThreads.shared(work))
    assert [found.name async for page in counting.list() for found in page] == ["z/c"]
    assert max(most, looks) <= 300
