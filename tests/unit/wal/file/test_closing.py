"""Whatever happens to an open or a close, in the end no descriptor and no thread is left."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from headrace.errors import ClosedError, StorageFullError, WalWriteError
from headrace.runtime.filesystem import OsFilesystem
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal
from headrace.wal.file.closing import Closing
from tests.unit.wal.world import History, append_some

CONFIG = WalConfig(frame_bytes_max=512, frames_max=6, segment_file_bytes=1 << 20, zero_ahead_bytes=0)


class GatedFilesystem(OsFilesystem):
    """Holds up each renaming of a file while ``gate`` is closed, each write while ``writes`` is, a listing
    of given number until ``list_on`` is set; has closes fail that succeeded and writes that did not.
    """

    __slots__ = (
        "bad_closes",
        "bad_write",
        "gate",
        "list_on",
        "listing",
        "listings_until_gate",
        "renaming",
        "writes",
        "writing",
    )

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.renaming = threading.Event()
        self.bad_closes = 0
        self.bad_write = None
        self.writes = threading.Event()
        self.writes.set()
        self.writing = threading.Event()
        self.listings_until_gate = 0
        self.listing = threading.Event()
        self.list_on = threading.Event()

    def listdir(self, path):
        self.listings_until_gate -= 1
        if self.listings_until_gate == 0:
            self.listing.set()
            self.list_on.wait(120)
        return super().listdir(path)

    def rename(self, old, new):
        self.renaming.set()
        self.gate.wait(120)
        super().rename(old, new)

    def pwrite(self, fd, data, offset):
        self.writing.set()
        self.writes.wait(120)
        if self.bad_write is not None:
            raise self.bad_write
        return super().pwrite(fd, data, offset)

    def close(self, fd):
        super().close(fd)
        if self.bad_closes:
            self.bad_closes -= 1
            raise OSError(errno.EIO, "close")


@pytest.fixture
def filesystem():
    return GatedFilesystem()


@pytest.fixture
def make_wal(tmp_path, filesystem):
    """Logs after whose end nothing may be left."""

    def left():
        files = []
        for link in Path("/proc/self/fd").iterdir():
            try:
                files.append(str(link.readlink()))
            except OSError:
                continue
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("wal-")]
        return threads, [file for file in files if file.startswith(str(tmp_path))]

    yield lambda: FileWal(str(tmp_path / "log"), CONFIG, filesystem=filesystem)
    assert left() == ([], [])


async def test_an_open_that_is_given_up_while_the_first_file_is_made(make_wal, filesystem):
    for _ in range(3):
        wal = make_wal()
        filesystem.gate.clear()
        filesystem.renaming.clear()
        opening = asyncio.ensure_future(wal.open())
        await asyncio.to_thread(filesystem.renaming.wait, 120)
        opening.cancel()
        await asyncio.wait([opening])
        closing = asyncio.ensure_future(wal.close())
        await asyncio.sleep(0)
        filesystem.gate.set()
        await closing


@pytest.mark.parametrize("listing", [1, 2])
async def test_an_open_goes_on_while_its_log_is_closed(make_wal, filesystem, listing):
    """It neither makes a file that nobody closes, nor claims that the log is open."""
    wal = make_wal()
    filesystem.listings_until_gate = listing
    opening = asyncio.ensure_future(wal.open())
    assert await asyncio.to_thread(filesystem.listing.wait, 120)
    closing = asyncio.ensure_future(wal.close())
    await asyncio.sleep(0)
    filesystem.list_on.set()
    await closing
    with pytest.raises((ClosedError, WalWriteError)):
        await opening


async def test_an_open_that_waits_for_the_lock_takes_nothing_once_its_log_is_closed(make_wal, tmp_path):
    wal, other = make_wal(), OsFilesystem()
    (tmp_path / "log").mkdir()
    lock = other.open(str(tmp_path / "log/owner"), os.O_RDWR | os.O_CREAT)
    assert other.lock(lock)
    opening = asyncio.ensure_future(wal.open())
    await wal._means.run(int)  # it has met the lock
    take, taken = wal._means.owner.take, []

    def take_late(*args):
        taken.append(args)
        return take(*args)

    wal._means.owner.take = take_late
    wal._opening.given_up = True  # as when it is closed between two of its attempts
    other.close(lock)
    with pytest.raises(ClosedError):
        await opening
    assert not taken
    await wal.close()


@pytest.mark.parametrize("bad_closes", [1, 2, 3])
async def test_a_file_that_does_not_close_keeps_nothing_else_open(make_wal, filesystem, bad_closes):
    wal, history = make_wal(), History()
    await wal.open()
    await append_some(wal, history, [b"a", b"b"])
    await wal._means.run(int)  # nothing goes on in the background any more
    filesystem.bad_closes = bad_closes
    with pytest.raises(WalWriteError):
        await wal.close()
    with pytest.raises(WalWriteError):  # everybody learns it
        await wal.close()


async def test_a_close_that_nobody_waits_for_any_more_comes_to_its_end(make_wal):
    wal, history = make_wal(), History()
    await wal.open()
    appending = asyncio.ensure_future(append_some(wal, history, [b"a"]))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(wal.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    await wal.close()
    await appending
    assert len(history.acknowledged) == 1


async def test_a_callback_that_raises_does_not_keep_a_record_waiting_for_its_file(make_wal, monkeypatch):
    wal, told = make_wal(), []
    await wal.open()
    with monkeypatch.context() as patch:
        patch.setattr(wal._log.commit, "stop_waiting", lambda: {}["a mistake of a callback"])
        patch.setattr(wal._log.tail, "stop_waiting", lambda: told.append(True))
        with pytest.raises(KeyError):
            wal.stop_waiting()
    assert told == [True]
    await wal.close()


async def test_a_close_mark_for_which_there_is_no_memory_keeps_nothing_open(make_wal, filesystem):
    wal, history = make_wal(), History()
    await wal.open()
    await append_some(wal, history, [b"a"])
    filesystem.bad_write = MemoryError()
    for _ in range(2):  # everybody learns it
        with pytest.raises(WalWriteError, match="MemoryError") as raised:
            await wal.close()
        assert raised.value.__cause__ is filesystem.bad_write


@pytest.mark.parametrize("mistake", [ZeroDivisionError, KeyboardInterrupt])
async def test_a_callback_that_raises_while_the_log_closes_keeps_nothing_open(make_wal, filesystem, mistake):
    wal, answers = make_wal(), []
    await wal.open()
    filesystem.bad_write = OSError(errno.ENOSPC, "full")

    def fail(_frame, error):
        answers.append(type(error))
        raise mistake

    wal.append(wal.acquire_frame(), fail)
    while not wal.statistics().space_waiting:
        assert not answers
        await asyncio.sleep(0.01)
    wal.append(wal.acquire_frame(), lambda _, error: answers.append(type(error)))
    if mistake is KeyboardInterrupt:  # on its way to whoever runs the loop
        with pytest.raises(KeyboardInterrupt):
            await Closing(wal._means, wal._opening, wal._log).run()
        return
    with pytest.raises(WalWriteError) as raised:
        await wal.close()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert answers == [StorageFullError] * 2


async def test_a_close_that_is_cancelled_itself_waits_for_its_writer_and_is_cancelled(make_wal, filesystem):
    """A descriptor that is closed under a writer may be somebody else's file when it writes."""
    wal, answers = make_wal(), []
    await wal.open()
    await wal._means.run(int)
    filesystem.writes.clear()
    filesystem.writing.clear()
    wal.append(wal.acquire_frame(), lambda _, error: answers.append(error))
    await asyncio.to_thread(filesystem.writing.wait, 120)
    closing = asyncio.ensure_future(wal.close())
    for _ in range(3):
        await asyncio.sleep(0.01)
        assert not wal._closing.done()
        wal._closing.cancel()
    filesystem.writes.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert answers == [None]
