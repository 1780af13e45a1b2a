"""Reads the log of a table segment through its container: exact ranges, and entry by entry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import KIB
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.tables.entry_format import LoggedEntry, decode_entries

#: Bytes read and decoded without a pause: some milliseconds of small entries.
SCAN_BYTES: Final = 256 * KIB


async def read_exactly(
    access: SegmentAccess, segment: SegmentState, offset: int, length: int, *, wait: bool = False
) -> bytes:
    """Return ``length`` bytes from ``offset``; with ``wait``, as soon as they are durable.

    Raises:
        SegmentTruncatedError: they are no longer there.
        DataCorruptionError: the segment does not have them.
    """
    pieces: list[bytes] = []
    while length > 0:
        result = await access.read(segment, offset, length, wait=wait)
        piece = result.to_bytes()
        if not piece:
            raise DataCorruptionError("durable bytes are missing", path=segment.name, offset=offset)
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def scan_log(
    access: SegmentAccess, segment: SegmentState, start: int, end: int, *, wait: bool = False
) -> AsyncIterator[tuple[list[LoggedEntry], bytes]]:
    """Yield the entries in ``[start, end)`` in order, some at a time, with the bytes they were decoded from.

    Both are boundaries of entries. Other work gets its turn between two steps.

    Raises:
        SegmentTruncatedError: the log was cut beyond the place that was reached.
        DataCorruptionError: the bytes are no sequence of entries.
    """
    rest = b""
    at = start
    while at < end:
        fresh = await read_exactly(access, segment, at, min(SCAN_BYTES, end - at), wait=wait)
        data = rest + fresh if rest else fresh
        begins = at - len(rest)
        at += len(fresh)
        entries, consumed = decode_entries(data, begins, segment.name)
        if entries:
            yield entries, data
        rest = data[consumed:]
        await asyncio.sleep(0)
    if rest:
        raise DataCorruptionError(
            f"the log ends inside an entry, {len(rest)} bytes after its beginning",
            path=segment.name,
            offset=at - len(rest),
        )
