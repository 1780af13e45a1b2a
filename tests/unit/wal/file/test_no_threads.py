"""A log on a machine that starts no more threads, or has no memory, fails, typed, and ends."""

import asyncio
import errno
import math

import pytest

from headrace.errors import WalWriteError
from headrace.runtime import blocking
from headrace.wal import frame_memory, loop_writes
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal
from headrace.wal.file.truncation import Truncation
from headrace.wal.loop_writes import LoopWrites, LoopWritesConfig
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
    async with asyncio.timeout(120):
        await wal.close()
    refused.clear()
    wal = FileWal(str(tmp_path / "log"), CONFIG)
    await wal.open()
    assert [record async for record in wal.records()] == []
    await wal.close()


async def test_an_open_fails_and_the_log_closes(tmp_path, refused):
    refused.append("wal-")
    wal = FileWal(str(tmp_path / "log"), CONFIG)
    with pytest.raises(WalWriteError):
        await wal.open()
    async with asyncio.timeout(120):
        await wal.close()


@pytest.mark.parametrize("lacking", ["thread", "memory"])
async def test_a_log_whose_close_mark_cannot_be_made_vouches_otherwise_and_closes(
    tmp_path, refused, monkeypatch, lacking
):
    """Everything was written by the loop, so that no writer has started when the log closes."""
    history, marked = History(), []
    monkeypatch.setattr(loop_writes, "STALL_S", math.inf)  # a busy machine is slow
    writes = LoopWrites(LoopWritesConfig(mean_s_max=1.0))
    wal = FileWal(str(tmp_path / "log"), CONFIG, loop_writes=writes)
    await wal.open()
    for content in (b"a", b"b"):
        await append_some(wal, history, [content])
    assert len(history.acknowledged) == wal.statistics().loop_writes == 2
    write_mark = Truncation.write_durable_mark

    async def watch(truncation):
        await write_mark(truncation)
        marked.append(truncation._marked_durable_sequence)

    def refuse(_):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(Truncation, "write_durable_mark", watch)
    if lacking == "thread":
        refused.append("wal-log")
    else:
        monkeypatch.setattr(frame_memory.FrameMemory, "take", refuse)
    await wal.close()
    assert marked == [max(history.acknowledged)]
    refused.clear()
    wal = FileWal(str(tmp_path / "log"), CONFIG)
    await wal.open()
    assert [bytes(record.payload) async for record in wal.records()] == [b"a", b"b"]
    await wal.close()
