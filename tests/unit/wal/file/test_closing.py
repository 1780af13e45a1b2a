"""Whatever happens to an open or a close, in the end no descriptor and no thread is left."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from headrace.errors import WalWriteError
from headrace.runtime.filesystem import OsFilesystem
from headrace.wal import FileWal, WalConfig
from tests.unit.wal.world import History, append_some

CONFIG = WalConfig(frame_bytes_max=512, frames_max=6, segment_file_bytes=1 << 20, zero_ahead_bytes=0)


class GatedFilesystem(OsFilesystem):
    """Holds up each renaming of a file while ``gate`` is closed, and has closes fail that succeeded."""

    __slots__ = ("bad_closes", "gate", "renaming")

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.renaming = threading.Event()
        self.bad_closes = 0

    def rename(self, old, new):
        self.renaming.set()
        self.gate.wait(10)
        super().rename(old, new)

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
        await asyncio.to_thread(filesystem.renaming.wait, 10)
        opening.cancel()
        await asyncio.wait([opening])
        closing = asyncio.ensure_future(wal.close())
        await asyncio.sleep(0)
        filesystem.gate.set()
        await closing


@pytest.mark.parametrize("bad_closes", [1, 2, 3])
async def test_a_file_that_does_not_close_keeps_nothing_else_open(make_wal, filesystem, bad_closes):
    wal, history = make_wal(), History()
    await wal.open()
    await append_some(wal, history, [b"a", b"b"])
    await wal._run(int)  # nothing goes on in the background any more
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
        patch.setattr(wal._commit, "stop_waiting", lambda: {}["a mistake of a callback"])
        patch.setattr(wal._tail, "stop_waiting", lambda: told.append(True))
        with pytest.raises(KeyError):
            wal.stop_waiting()
    assert told == [True]
    await wal.close()
