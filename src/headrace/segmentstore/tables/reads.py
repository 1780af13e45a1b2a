"""Answers gets of tables from what is in memory, the index and the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.errors import AnswerTooLargeError, DataCorruptionError, SegmentTruncatedError
from headrace.limits import TABLE_BATCH_BYTES_MAX, TABLE_ITEM_BYTES, TABLE_KEY_BYTES_MAX
from headrace.model.tables import TableEntry
from headrace.segmentstore.contract import ContainerSegments
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, decode_entry
from headrace.segmentstore.tables.locations import (
    REMOVED,
    UNKNOWN,
    is_copy,
    location_bytes,
    location_offset,
)
from headrace.segmentstore.tables.log import plan_spans, read_exactly
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.open_tables import OpenTables
from headrace.segmentstore.tables.request_limits import check_key, key_length_of

_KEYS_AT_ONCE_MAX: Final = 16
"""Keys that are looked up without a task."""

_HEAD_BYTES: Final = ENTRY_HEADER_BYTES + TABLE_KEY_BYTES_MAX
"""Bytes of an entry that have its key, however long that is."""


class TableReads:
    """Reads of keys that the caller knows. Answers what is durable."""

    def __init__(self, access: ContainerSegments, config: TablesConfig, tables: OpenTables) -> None:
        self._access = access
        self._config = config
        self._tables = tables

    async def get(
        self, segment: str, keys: Sequence[bytes], bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> list[TableEntry | None]:
        """Return the entry of each key, in order; None for keys that do not exist.

        Each was the newest durable one at some moment of this call.

        Raises:
            AnswerTooLargeError: keys and values together exceed ``bytes_max``, as far as their sizes are
                known without reading them: to a thousandth. Nothing was read.
            DataCorruptionError: the index or the log is damaged where an entry should be.
        """
        found = self.get_nowait(segment, keys, bytes_max)
        if found is not None:
            return found
        key_length = key_length_of(await self._tables.get_segment(segment))
        for key in keys:
            check_key(key_length, key)
        while True:
            table = await self._tables.get(segment)
            tree_keys = table.tree_keys.of_all(keys)
            locations = await table.locate(tree_keys)
            if locations is not None:
                break
        overhead = ENTRY_HEADER_BYTES - TABLE_ITEM_BYTES
        total = sum(
            location_bytes(location) - overhead if location != REMOVED else TABLE_ITEM_BYTES + len(key)
            for key, location in zip(keys, locations, strict=True)
        )
        if total > bytes_max:
            raise AnswerTooLargeError(total, bytes_max)
        found = await self._read_located(table, tree_keys, locations)
        for key, entry, location in zip(keys, found, locations, strict=True):
            if entry is not None and entry.key != key:
                raise _misplaced(key, entry.key, segment, location_offset(location))
        return found

    def get_nowait(
        self, segment: str, keys: Sequence[bytes], bytes_max: int
    ) -> list[TableEntry | None] | None:
        """Return what :meth:`get` does, or None if that takes :meth:`get`: for many keys, and
        for whatever is not in memory.
        """
        table = self._tables.find(segment)
        if table is None or len(keys) > _KEYS_AT_ONCE_MAX:
            return None
        state, key_length = table.segment, table.key_length
        find, tree_key_of = table.state.find_durable, table.tree_keys.of
        found: list[TableEntry | None] = []
        for key in keys:
            if key_length or not key:
                check_key(key_length, key)
            location = find(tree_key_of(key))
            if location < 0:
                if location == UNKNOWN:
                    return None
                check_key(key_length, key)
                found.append(None)
                continue
            offset = location_offset(location)
            size = min(location_bytes(location), state.durable_length - offset)
            bytes_max -= size + TABLE_ITEM_BYTES
            if bytes_max < 0 or offset < state.start_offset:
                return None
            result = self._access.read_nowait(state, offset, size)
            entry = None if result is None else decode_entry(result.to_bytes(), 0, offset, segment)
            if entry is None:
                return None
            if entry[0] != key or (entry[2] != offset) != is_copy(location):
                raise _misplaced(key, entry[0], segment, offset)
            found.append(TableEntry(*entry))
        return found

    async def load(self, segment: str, keys: Sequence[bytes]) -> None:
        """Bring into memory what tells whether a table holds these keys, as far as it has the capacity.
        Raises as :meth:`get`.
        """
        table = await self._tables.get(segment)
        await table.locate(table.tree_keys.of_all(keys))

    def is_open(self, segment: SegmentState) -> bool:
        """Whether a table is in use, so that its log behind the index was read without damage."""
        return self._tables.find_nowait(segment) is not None

    def contains_nowait(self, segment: SegmentState, key: bytes) -> bool | None:
        """Whether a table holds a key, or None if that is not known without waiting."""
        table = self._tables.find_nowait(segment)
        if table is None:
            return None
        tree_key = table.tree_keys.of(key)
        if table.state.is_touched(tree_key):
            return None
        location = table.state.find_durable(tree_key)
        return None if location == UNKNOWN else location != REMOVED

    def count_max(self, segment: SegmentState) -> int | None:
        """Return at most how many keys a table has, exact behind an index round; None if it is not open."""
        table = self._tables.find_nowait(segment)
        return None if table is None else table.state.key_count_max

    async def _read_located(
        self,
        table: OpenTable,
        tree_keys: Sequence[bytes],
        locations: Sequence[int],
        *,
        with_values: bool = True,
    ) -> list[TableEntry | None]:
        """Return the entries at locations; None for keys without one. What compaction has moved meanwhile is
        looked up again.
        """
        found: list[TableEntry | None] = [None] * len(tree_keys)
        places = [place for place, location in enumerate(locations) if location != REMOVED]
        wanted = [locations[place] for place in places]
        while places:
            moved: list[int] = []
            segment = table.segment
            ranges = [_range_of(location, segment.durable_length, with_values) for location in wanted]
            for span in plan_spans(ranges):
                try:
                    data = await read_exactly(self._access, segment, span.offset, span.length)
                except SegmentTruncatedError:
                    if segment.start_offset <= span.offset:
                        raise
                    moved += [places[member] for member in span.members]
                    continue
                for member in span.members:
                    offset, place = ranges[member][0], places[member]
                    entry = decode_entry(
                        data, offset - span.offset, offset, segment.name, with_value=with_values
                    )
                    tree_key = None
                    if entry is not None and (entry[2] != offset) == is_copy(wanted[member]):
                        tree_key = table.tree_keys.find(entry[0])
                    if entry is None or tree_key != tree_keys[place]:
                        raise DataCorruptionError(
                            f"the entry of tree key {tree_keys[place].hex()} is not where the index has it",
                            path=segment.name,
                            offset=offset,
                        )
                    found[place] = TableEntry(*entry)
            if not moved:
                break
            relocated = None
            while relocated is None:
                table = await self._tables.get(segment.name)
                relocated = await table.locate([tree_keys[place] for place in moved])
            pairs = [pair for pair in zip(moved, relocated, strict=True) if pair[1] != REMOVED]
            for _, location in pairs:
                table.check_in_log(location_offset(location))
            places, wanted = [place for place, _ in pairs], [location for _, location in pairs]
        return found


def _range_of(location: int, durable_length: int, with_value: bool) -> tuple[int, int]:
    """Return offset and length of what to read of an entry."""
    offset = location_offset(location)
    size = min(location_bytes(location), durable_length - offset)
    return offset, size if with_value else min(size, _HEAD_BYTES)


def _misplaced(key: bytes, found: bytes, segment: str, offset: int) -> DataCorruptionError:
    return DataCorruptionError(
        f"the index leads from key {key.hex()} to the entry of key {found.hex()}", path=segment, offset=offset
    )
