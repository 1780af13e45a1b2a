"""Reads the log of a table segment through its container: exact ranges, and entry by entry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from headrace.errors import DataCorruptionError, StorageReadError
from headrace.limits import KIB
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import LoggedEntry, NoEntryError, decode_entries

#: Bytes read and decoded without a pause: some milliseconds of small entries.
SCAN_BYTES: Final = 256 * KIB

SCAN_ATTEMPTS: Final = 4
"""How often a scan asks for the same byte: each time the container reads a quarter of what it tried."""


async def read_exactly(
    access: SegmentAccess,
    segment: SegmentState,
    offset: int,
    length: int,
    *,
    wait: bool = False,
    attempts: int = 1,
) -> bytes:
    """Return ``length`` bytes from ``offset``; with ``wait``, as soon as they are durable.

    Raises:
        StorageReadError: storage did not answer, ``attempts`` times in a row at the same place.
        SegmentTruncatedError: they are no longer there.
        DataCorruptionError: the segment does not have them.
    """
    pieces: list[bytes] = []
    failures = 0
    while length > 0:
        try:
            result = await access.read(segment, offset, length, wait=wait)
        except StorageReadError:
            failures += 1
            if failures >= attempts:
                raise
            continue
        failures = 0
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

    Both are boundaries of entries. Other work gets its turn between two steps. A read that failed is made
    again from there: a scan that had to begin anew might never reach the end while storage is slow.

    Raises:
        StorageReadError: storage did not answer, ``SCAN_ATTEMPTS`` times in a row at the same place.
        SegmentTruncatedError: the log was cut beyond the place that was reached.
        NoEntryError: the bytes are no sequence of entries.
        DataCorruptionError: the segment does not have them, or storage is damaged.
    """
    rest = b""
    at = start
    budget = LoopBudget(SCAN_BYTES)
    while at < end:
        size = min(SCAN_BYTES, end - at)
        await budget.spend(size)
        fresh = await read_exactly(access, segment, at, size, wait=wait, attempts=SCAN_ATTEMPTS)
        data = rest + fresh if rest else fresh
        begins = at - len(rest)
        at += len(fresh)
        entries, consumed = decode_entries(data, begins, segment.name)
        if entries:
            yield entries, data
        rest = data[consumed:]
    if rest:
        raise NoEntryError(
            f"the log ends inside an entry, {len(rest)} bytes after its beginning",
            path=segment.name,
            offset=at - len(rest),
        )
