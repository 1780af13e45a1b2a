"""A log on a machine that starts no more threads fails, typed, and ends."""

import asyncio

import pytest

from headrace.errors import WalWriteError
from headrace.runtime import blocking
from headrace.wal import FileWal, WalConfig
from tests.unit.wal.world import History, append_some

CONFIG = WalConfig(frame_bytes_max=512, frames_max=6, segment_file_bytes=1 << 20, zero_ahead_bytes=0)


@pytest.fixture
def refused(monkeypatch):
    """Names of threads that do not start begin with one of these."""
    prefixes = []
    start = blocking.start_thread

    def start_some(name, target):
        if name.startswith(tuple(prefixes)):
            raise RuntimeError("can't start new thread")
        return start(name, target)

    monkeypatch.setattr(blocking, "start_thread", start_some)
    return prefixes


async def test_appends_fail_and_the_log_closes(tmp_path, refused):
    wal, history = FileWal(str(tmp_path / "log"), CONFIG), History()
    await wal.open()
    refused.append("wal-log")
    await append_some(wal, history, [b"a", b"b", b"c"])
    assert [type(error) for error in history.errors] == [WalWriteError] * 3
    async with asyncio.timeout(10):
        await wal.close()
    refused.clear()
    wal = FileWal(str(tmp_path / "log"), CONFIG)
    await wal.open()
    assert list(wal.records()) == []
    await wal.close()


async def test_an_open_fails_and_the_log_closes(tmp_path, refused):
    refused.append("wal-")
    wal = FileWal(str(tmp_path / "log"), CONFIG)
    with pytest.raises(WalWriteError):
        await wal.open()
    async with asyncio.timeout(10):
        await wal.close()
