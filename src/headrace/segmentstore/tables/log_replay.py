"""Entries of a log, applied to what is known of the part before them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import DataCorruptionError
from headrace.segmentstore.tables.entry_format import REMOVAL, LoggedEntry
from headrace.segmentstore.tables.locations import REMOVED, is_copy, location_offset, pack_location
from headrace.segmentstore.tables.tree_keys import TreeKeys
from headrace.segmentstore.tables.unindexed import UnindexedEntries


def replay_entries(
    entries: Iterable[LoggedEntry],
    unindexed: UnindexedEntries,
    tree_keys: TreeKeys,
    segment: str,
    *,
    remember: bool,
) -> None:
    """Apply entries read from the log, in order; ``remember`` removals if there is an index that may have
    their keys.

    Raises:
        DataCorruptionError: a copy carries another version than the entry it claims to be a copy of, or a key
            has another length than the table demands.
    """
    of, known = tree_keys.of, unindexed.locations
    demanded = tree_keys.key_length
    for offset, end, key, value_length, version, _ in entries:
        if demanded and len(key) != demanded:
            raise DataCorruptionError(f"a key of {len(key)} bytes", path=segment, offset=offset)
        tree_key = of(key)
        if value_length == REMOVAL:
            unindexed.remove(tree_key, remember=remember)
            continue
        if version != offset:
            before = known.get(tree_key, REMOVED)
            if before != REMOVED and not is_copy(before) and location_offset(before) != version:
                raise DataCorruptionError(
                    f"a copy of key {key.hex()} claims version {version}, not {location_offset(before)}",
                    path=segment,
                    offset=offset,
                )
        unindexed.put(tree_key, pack_location(offset, end - offset, copy=version != offset))
