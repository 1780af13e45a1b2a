"""Logs and chunks made for tests, without a container."""

import asyncio
from array import array
from pathlib import Path

from crc32c import crc32c

from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FIRST, FRAME_HEADER, LAST, WHOLE
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.storage.chunks.segment_layout import Chunk, SegmentLayout, put_chunk_row
from headrace.storage.metadata import rows as r
from headrace.wal.config import WalConfig
from headrace.wal.file.file_wal import FileWal

CONFIG = WalConfig(segment_file_bytes=4 << 20, frame_bytes_max=256 << 10, zero_ahead_bytes=0)
BLOCK = 8
INCARNATION = "0123abcd"
BEGINNING = (ops.CheckpointBegin(1, 0, 1), ops.CheckpointEnd(2, 1, 0, 0))


async def make_log(directory, operations, *, operations_per_frame=1000, spanning=()):
    """Write whole operations into frames, so many into each; then those that span two frames each."""
    wal = FileWal(str(directory), CONFIG)
    await wal.open()
    pending = []
    for operation in operations:
        pending.append((WHOLE, b"".join(map(bytes, codec.encode(operation)))))
        if len(pending) == operations_per_frame:
            await _write(wal, pending)
            pending = []
    if pending:
        await _write(wal, pending)
    for operation in spanning:
        data = b"".join(map(bytes, codec.encode(operation)))
        await _write(wal, [(FIRST, data[:5])])
        await _write(wal, [(LAST, data[5:])])
    await wal.close()


async def _write(wal, entries):
    frame = wal.acquire_frame()
    at = FRAME_HEADER.size
    for flags, data in entries:
        ENTRY_HEADER.pack_into(frame.view, at, len(data), flags)
        at += ENTRY_HEADER.size
        frame.view[at : at + len(data)] = data
        at += len(data)
    FRAME_HEADER.pack_into(frame.view, 0, 1, 0, 0, at - FRAME_HEADER.size, 7)
    frame.length = at
    written = asyncio.get_running_loop().create_future()
    wal.append(frame, lambda _, error: written.set_result(error))
    assert await written is None
    wal.release_frame(frame)


def checkpoint(*rows, storage_rows=None):
    """The operations with which a log begins that was cut: 1 to 3 are a whole metadata checkpoint."""
    storage_rows = storage_rows or {}
    part = ops.CheckpointPart(2, 1, rows, storage_rows)
    return ops.CheckpointBegin(1, 0, 1), part, ops.CheckpointEnd(3, 1, len(rows), len(storage_rows))


def chunk_of(name, content):
    """A chunk as a writer would leave it: full groups of checksums in rows of their own."""
    sums = array("I", [crc32c(content[at : at + BLOCK]) for at in range(0, len(content), BLOCK)])
    full = len(content) // BLOCK // r.CHECKSUM_GROUP_BLOCKS * r.CHECKSUM_GROUP_BLOCKS
    groups = {
        r.checksum_key(name, index // r.CHECKSUM_GROUP_BLOCKS): r.encode_checksum_row(
            sums[index : index + r.CHECKSUM_GROUP_BLOCKS]
        )
        for index in range(0, full, r.CHECKSUM_GROUP_BLOCKS)
    }
    return Chunk(name, 1, len(content), BLOCK, sums[full:]), groups


def store_segment(files, storage_name, *contents, **fields):
    """Write one chunk for each of ``contents``; return the layout and the rows that a writer would commit."""
    layout = SegmentLayout(storage_name, 1, 1 << 20, **fields)
    chunks, rows = [], {}
    for number, content in enumerate(contents):
        name = f"{storage_name}.E-1-O-{layout.length}.{INCARNATION}{number:024x}"
        chunk, groups = chunk_of(name, content)
        rows |= groups
        chunks.append(chunk)
        layout.length += len(content)
        write_chunk(files, name, content)
    if chunks:
        layout.chunk_count, layout.first_chunk, layout.last = len(chunks), chunks[0].name, chunks[-1]
    layout.put_segment_row(rows)
    names = [chunk.name for chunk in chunks]
    for chunk, following in zip(chunks, [*names[1:], ""][: len(names)], strict=True):
        put_chunk_row(rows, chunk, following)
    return layout, rows


def write_chunk(files, name, content):
    path = Path(files.path(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
