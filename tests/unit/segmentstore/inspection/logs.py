"""Logs made for tests, without a container."""

import asyncio

from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FRAME_HEADER
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.wal.config import WalConfig
from headrace.wal.file.file_wal import FileWal

CONFIG = WalConfig(segment_file_bytes=4 << 20, frame_bytes_max=256 << 10, zero_ahead_bytes=0)
FIRST = (ops.CheckpointBegin(1, 0, 1), ops.CheckpointEnd(2, 1, 0, 0))


async def make_log(directory, operations, *, operations_per_frame=1000):
    """Write whole operations into frames, so many into each."""
    wal = FileWal(str(directory), CONFIG)
    await wal.open()
    pending = []
    for operation in operations:
        pending.append(b"".join(map(bytes, codec.encode(operation))))
        if len(pending) == operations_per_frame:
            await _write(wal, pending)
            pending = []
    if pending:
        await _write(wal, pending)
    await wal.close()


async def _write(wal, entries):
    frame = wal.acquire_frame()
    at = FRAME_HEADER.size
    for data in entries:
        ENTRY_HEADER.pack_into(frame.view, at, len(data), 3)
        at += ENTRY_HEADER.size
        frame.view[at : at + len(data)] = data
        at += len(data)
    FRAME_HEADER.pack_into(frame.view, 0, 1, 0, 0, at - FRAME_HEADER.size, 7)
    frame.length = at
    written = asyncio.get_running_loop().create_future()
    wal.append(frame, lambda _, error: written.set_result(error))
    assert await written is None
    wal.release_frame(frame)
