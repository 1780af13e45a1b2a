"""Answers reads of tables from the index and the log: keys, pages of an iteration, changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.errors import (
    AnswerTooLargeError,
    InvalidArgumentError,
    SegmentTruncatedError,
    UnsupportedError,
)
from headrace.limits import TABLE_BATCH_BYTES_MAX, TABLE_ITEM_BYTES
from headrace.model.tables import TableDelta, TableEntry, TableKey
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.delta_plan import DeltaWalk
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, NoEntryError, decode_value
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.open_tables import OpenTables
from headrace.segmentstore.tables.request_limits import check_count, check_key, is_fixed, key_length_of
from headrace.segmentstore.tables.table_index import (
    REMOVED,
    location_offset,
    location_value_length,
    location_version,
)
from headrace.segmentstore.tables.table_log import plan_spans, read_exactly, scan_log

#: First byte of continuation tokens, so that another order of iteration can have another. The last key
#: follows.
_TOKEN_VERSION: Final = b"\x01"

#: Keys put in order without a pause, when the first iterator asks for order: some milliseconds.
_ORDER_STEP: Final = 5_000


_KEYS_AT_ONCE_MAX: Final = 16
"""Keys that are looked up without a task."""


class TableReads:
    """The reading half of a container's tables. Answers what is durable."""

    def __init__(self, access: SegmentAccess, config: TablesConfig, tables: OpenTables) -> None:
        self._access = access
        self._config = config
        self._tables = tables

    # ---- known keys

    async def table_get(
        self, segment: str, keys: Sequence[bytes], bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> list[TableEntry | None]:
        """Return the entry of each key, in order; None for keys that do not exist.

        Each was the newest durable one at some moment of this call.

        Raises:
            AnswerTooLargeError: keys and values together exceed ``bytes_max``.
        """
        key_length = key_length_of(await self._tables.get_segment(segment))
        for key in keys:
            check_key(key_length, key)
        return await self._fetch(segment, keys, bytes_max)

    def get_nowait(
        self, segment: str, keys: Sequence[bytes], bytes_max: int
    ) -> list[TableEntry | None] | None:
        """Return what :meth:`table_get` does, or None if that takes :meth:`table_get`: for many keys, and
        for whatever is not in memory.
        """
        table = self._tables.find(segment)
        if table is None or len(keys) > _KEYS_AT_ONCE_MAX:
            return None
        state, find = table.segment, table.state.index.find
        found: list[TableEntry | None] = []
        for key in keys:
            location = find(key)
            if location == REMOVED:
                check_key(table.key_length, key)
                found.append(None)
                continue
            offset, version = location_offset(location), location_version(location)
            size = ENTRY_HEADER_BYTES + len(key) + location_value_length(location)
            bytes_max -= size + TABLE_ITEM_BYTES
            if bytes_max < 0 or offset < state.start_offset:
                return None
            result = self._access.read_nowait(state, offset, size)
            if result is None:
                return None
            data = result.to_bytes()
            if len(data) < size:
                return None
            found.append(TableEntry(key, decode_value(data, 0, offset, key, version, segment), version))
        return found

    def contains_nowait(self, segment: SegmentState, key: bytes) -> bool | None:
        """Whether a table holds a key, or None if that is not known without waiting."""
        table = self._tables.find_nowait(segment)
        if table is None or table.state.is_touched(key):
            return None
        return table.state.index.find(key) != REMOVED

    def count_nowait(self, segment: SegmentState) -> int | None:
        """Return the number of keys of a table, or None if its index is not in memory."""
        table = self._tables.find_nowait(segment)
        return None if table is None else len(table.state.index)

    async def _fetch(self, name: str, keys: Sequence[bytes], bytes_max: int) -> list[TableEntry | None]:
        found: list[TableEntry | None] = [None] * len(keys)
        wanted: Sequence[int] = range(len(keys))
        while wanted:
            # Compaction may move entries between the look into the index and the read: look again.
            wanted = await self._fetch_once(await self._tables.get(name), keys, wanted, found, bytes_max)
        return found

    async def _fetch_once(
        self,
        table: OpenTable,
        keys: Sequence[bytes],
        wanted: Sequence[int],
        found: list[TableEntry | None],
        bytes_max: int,
    ) -> list[int]:
        """Fill ``found`` at the places ``wanted``; return those whose entry is no longer where it was.

        Raises:
            AnswerTooLargeError: all of them together, said before any is read.
        """
        index = table.state.index
        places: list[int] = []
        ranges: list[tuple[int, int]] = []
        versions: list[int] = []
        total = TABLE_ITEM_BYTES * len(keys) + sum(map(len, keys))
        total += sum(len(entry.value) for entry in found if entry is not None)
        for place in wanted:
            key = keys[place]
            location = index.find(key)
            if location == REMOVED:
                continue
            offset, version = location_offset(location), location_version(location)
            value_length = location_value_length(location)
            total += value_length
            if not value_length:
                found[place] = TableEntry(key, b"", version)
            else:
                places.append(place)
                ranges.append((offset, ENTRY_HEADER_BYTES + len(key) + value_length))
                versions.append(version)
        if total > bytes_max:
            raise AnswerTooLargeError(total, bytes_max)
        moved: list[int] = []
        for span in plan_spans(ranges):
            try:
                data = await read_exactly(self._access, table.segment, span.offset, span.length)
            except SegmentTruncatedError:
                if table.segment.start_offset <= span.offset:
                    raise
                moved += [places[member] for member in span.members]
                continue
            for member in span.members:
                place, (offset, _) = places[member], ranges[member]
                key, version = keys[place], versions[member]
                value = decode_value(data, offset - span.offset, offset, key, version, table.segment.name)
                found[place] = TableEntry(key, value, version)
        return moved

    # ---- keys in order

    async def table_keys(
        self,
        segment: str,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableKey], bytes]:
        """Return up to ``count`` keys in ascending order, and the token to go on with.

        Hash tables go on with ``token``; empty is the start, and is returned with an empty page. Tables with
        keys of fixed length take the inclusive bounds ``from_key`` and ``to_key`` instead; empty is no
        bound. A key that exists during the whole iteration comes exactly once.

        Raises:
            AnswerTooLargeError: the first item alone exceeds ``bytes_max``.
        """
        table, page, token = await self._page(
            segment, token, count, from_key, to_key, bytes_max, with_values=False
        )
        find = table.state.index.find
        return [TableKey(key, location_version(find(key))) for key in page], token

    async def table_entries(
        self,
        segment: str,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableEntry], bytes]:
        """Do as :meth:`table_keys` does, with values."""
        while True:
            table, page, token = await self._page(
                segment, token, count, from_key, to_key, bytes_max, with_values=True
            )
            found = [entry for entry in await self._fetch(segment, page, bytes_max) if entry is not None]
            if found or not page:
                return found, token
            # The whole page was removed while its values were read; an empty answer would end the iteration.
            if table.key_length:
                from_key = page[-1] + b"\x00"

    async def _page(
        self,
        name: str,
        token: bytes,
        count: int,
        from_key: bytes,
        to_key: bytes,
        bytes_max: int,
        *,
        with_values: bool,
    ) -> tuple[OpenTable, list[bytes], bytes]:
        """Return the next keys of an iteration, and its next token.

        Raises:
            AnswerTooLargeError: the first item by itself.
        """
        check_count(count)
        if key_length_of(await self._tables.get_segment(name)):
            if token:
                raise InvalidArgumentError(
                    "tables with keys of fixed length are iterated by range, not by token"
                )
            start, inclusive = from_key, True
        else:
            if from_key or to_key:
                raise InvalidArgumentError("hash tables are iterated by token, not by range")
            if token and not token.startswith(_TOKEN_VERSION):
                raise InvalidArgumentError("the continuation token is not one of ours")
            start, inclusive = token[1:], not token
        table = await self._get_ordered(name)
        index = table.state.index
        page: list[bytes] = []
        free_bytes = min(self._config.page_bytes_max, bytes_max)
        for key in index.page(start, min(count, free_bytes // TABLE_ITEM_BYTES + 1), inclusive=inclusive):
            if to_key and key > to_key:
                break
            size = TABLE_ITEM_BYTES + len(key)
            if with_values:
                size += location_value_length(index.find(key))
            if size > free_bytes and page:
                break
            if size > bytes_max:
                raise AnswerTooLargeError(size, bytes_max)
            page.append(key)
            free_bytes -= size
        return table, page, _TOKEN_VERSION + page[-1] if page and not table.key_length else b""

    async def _get_ordered(self, name: str) -> OpenTable:
        budget = LoopBudget(_ORDER_STEP)
        while True:
            await budget.spend(_ORDER_STEP)
            table = await self._tables.get(name)
            if table.state.index.order_some(_ORDER_STEP):
                return table

    # ---- changes

    async def table_delta(
        self, name: str, position: int, count: int, bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> TableDelta:
        """Return what changed in a hash table since ``position`` of its log, up to about ``count`` keys.

        An answer without entries means that there are none up to the end; its ``last_position`` is the end.

        Raises:
            UnsupportedError: the table has keys of fixed length.
            InvalidArgumentError: ``position`` is beyond the log, or was not handed out by it.
            AnswerTooLargeError: the first entry alone exceeds ``bytes_max``.
        """
        segment = await self._tables.get_segment(name)
        if is_fixed(segment):
            raise UnsupportedError("a table with keys of fixed length has no delta iterator")
        check_count(count)
        if not 0 <= position <= segment.durable_length:
            raise InvalidArgumentError(
                f"position {position} is not in the log of table {name!r}, [0, {segment.durable_length}]"
            )
        while True:
            start = max(position, segment.start_offset)
            try:
                delta = await self._walk(segment, start, count, bytes_max)
            except SegmentTruncatedError:
                if segment.start_offset <= start:
                    raise
                continue  # compaction went on meanwhile
            except NoEntryError as error:
                if start == position != segment.start_offset:
                    # Any number may come from a client; damage to the log is found when it is replayed.
                    raise InvalidArgumentError(f"position {position} is not one of table {name!r}") from error
                raise
            delta.should_clear = position < start
            return delta

    async def _walk(self, segment: SegmentState, start: int, count: int, bytes_max: int) -> TableDelta:
        page_bytes_max = min(self._config.page_bytes_max, bytes_max)
        walk = DeltaWalk(start, segment.durable_length, count, page_bytes_max, bytes_max)
        async for entries, data in scan_log(self._access, segment, start, walk.end):
            if walk.read(entries, data):
                break
        return walk.delta()
