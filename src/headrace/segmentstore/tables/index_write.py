"""Writes entries of a table to its index, in steps of neighbouring keys."""

from __future__ import annotations

from array import array
from functools import partial
from typing import Final

from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.tables.index_access import TableIndex
from headrace.segmentstore.tables.index_note import IndexNote, decode_note, encode_note
from headrace.segmentstore.tables.locations import ABSENT, REMOVED, sum_bytes
from headrace.segmentstore.tables.unindexed import UnindexedEntries

_SORTED_AT_ONCE: Final = 4096
"""Keys sorted without a pause."""


async def write_index(
    index: TableIndex, entries: UnindexedEntries, begin: int, end: int, segment: str
) -> None:
    """Write all entries of the log below ``end`` that are not in the index. Each step leaves a true note.

    Nothing changes ``entries`` meanwhile. If there is no index yet, they are all from ``begin`` on, and the
    log is not truncated above it.

    Raises:
        DataCorruptionError: the index is damaged.
        StorageWriteError, StorageReadError, ThrottledError: some steps may be durable; retry with all of it.
        NoSuchSegmentError: the table was deleted.
    """
    root = await index.open()
    note = decode_note(root.note, segment) or IndexNote(begin, 0)
    live_bytes = note.live_bytes
    keys = await _sort(list(entries.locations))
    locations = entries.locations
    size = index.key_bytes
    done = 0
    while True:
        # Neighbours: many steps change few pages more than one would, and none keeps the loop for long.
        step = index.keys_at_once
        some = keys[done : done + step]
        wanted = b"".join(some)
        values = array("q", map(locations.__getitem__, some))
        if REMOVED in values:
            before = await index.lookup(wanted)
            # A page need not be written to remove what it does not have.
            pairs = [
                (key, ABSENT if value == REMOVED else value)
                for key, value, old in zip(some, values, before, strict=True)
                if value != REMOVED or old != ABSENT
            ]
            wanted = b"".join([key for key, _ in pairs])
            values = array("q", [value for _, value in pairs])
        assert len(wanted) == size * len(values)
        done += step
        is_last = done >= len(keys)
        index_end = end if is_last else note.index_end
        if values or is_last:
            added = live_bytes + sum_bytes(values)
            before = await index.update(wanted, values, partial(_note, index_end, added))
            live_bytes = added - sum_bytes(before)
        if is_last:
            return


async def _sort(keys: list[bytes]) -> list[bytes]:
    """Return keys in ascending order. Yields to the loop between parts; the last pass merges these."""
    budget = LoopBudget(_SORTED_AT_ONCE)
    ordered: list[bytes] = []
    for begin in range(0, len(keys), _SORTED_AT_ONCE):
        await budget.spend(_SORTED_AT_ONCE)
        ordered += sorted(keys[begin : begin + _SORTED_AT_ONCE])
    ordered.sort()
    return ordered


def _note(index_end: int, added_bytes: int, before: array[int]) -> bytes:
    return encode_note(IndexNote(index_end, added_bytes - sum_bytes(before)))
