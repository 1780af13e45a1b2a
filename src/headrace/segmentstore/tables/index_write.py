"""Writes entries of a table to its index, in steps of neighbouring keys."""

from __future__ import annotations

from array import array
from typing import Final

from headrace.segmentstore.tables.index_access import TableIndex
from headrace.segmentstore.tables.index_note import IndexNote, decode_note, encode_note
from headrace.segmentstore.tables.locations import ABSENT, REMOVED, sum_bytes
from headrace.segmentstore.tables.unindexed import UnindexedEntries

_STEP_KEYS: Final = 2048
"""Keys of one durable write: neighbours, so that many steps change few pages more than one would, and none
keeps the loop for long.
"""


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
    keys, locations = entries.sorted_items()
    size = index.key_bytes
    done = 0
    while True:
        step = min(_STEP_KEYS, index.keys_at_once)
        some = keys[done : done + step]
        wanted = b"".join(some)
        before = await index.lookup(wanted)
        values = array("q", locations[done : done + step])
        live_bytes += sum_bytes(values) - sum_bytes(before)
        if REMOVED in values:
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
            await index.update(wanted, values, encode_note(IndexNote(index_end, live_bytes)))
        if is_last:
            return
