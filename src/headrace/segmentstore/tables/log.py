"""Reads the log of a table segment through its container: exact ranges, few for many entries, and entry by
entry.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import DataCorruptionError, StorageReadError
from headrace.limits import KIB, MIB
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.contract import ContainerSegments
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import LoggedEntry, NoEntryError, decode_entries

#: Bytes read and decoded without a pause: some milliseconds of small entries.
SCAN_BYTES: Final = 256 * KIB

SCAN_ATTEMPTS: Final = 4
"""How often a scan tries to read the same byte: after each failure the container reads a quarter of it."""

#: Bytes between wanted ones that are cheaper to read than to leave out.
GAP_BYTES_MAX: Final = 4 * KIB

#: A span is closed when it would become longer than this, unless one entry alone is.
SPAN_BYTES_MAX: Final = 1 * MIB


@dataclass(slots=True)
class Span:
    """``length`` bytes from ``offset``, and which of the wanted entries are in them."""

    offset: int
    length: int
    members: list[int] = field(default_factory=list)


def plan_spans(wanted: Sequence[tuple[int, int]]) -> list[Span]:
    """Cover the wanted ``(offset, length)`` pairs with few reads, which cost more than some bytes; pairs may
    repeat but not overlap otherwise.
    """
    spans: list[Span] = []
    last: Span | None = None
    for number in sorted(range(len(wanted)), key=lambda number: wanted[number]):
        offset, length = wanted[number]
        end = offset + length
        if (
            last is None
            or offset - (last.offset + last.length) > GAP_BYTES_MAX
            or end - last.offset > SPAN_BYTES_MAX
        ):
            last = Span(offset, length)
            spans.append(last)
        last.length = max(last.length, end - last.offset)
        last.members.append(number)
    return spans


async def read_exactly(
    access: ContainerSegments,
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
    access: ContainerSegments,
    segment: SegmentState,
    start: int,
    end: int,
    *,
    wait: bool = False,
    step_bytes: int = SCAN_BYTES,
) -> AsyncIterator[tuple[list[LoggedEntry], bytes]]:
    """Yield the entries in ``[start, end)`` in order, some at a time, with the bytes they were decoded from.

    Both are boundaries of entries. The scan yields to the loop between two steps. A read that failed is
    retried from there: a scan that had to begin anew might never reach the end while storage is slow.

    Raises:
        StorageReadError: storage did not answer, ``SCAN_ATTEMPTS`` times in a row at the same place.
        SegmentTruncatedError: the log was truncated beyond the offset that was reached.
        NoEntryError: the bytes are no sequence of entries.
        DataCorruptionError: the segment does not have them, or storage is damaged.
    """
    rest = b""
    at = start
    budget = LoopBudget(SCAN_BYTES)
    while at < end:
        size = min(step_bytes, end - at)
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
