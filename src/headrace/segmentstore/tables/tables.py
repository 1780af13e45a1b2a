"""Keys and values kept in segments: what the container offers for its table segments.

All methods run on the container's loop. Updates of many callers to one table are appended one after another without
waiting for each other; each returns when its own append is durable, and is visible from then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.errors import (
    DataCorruptionError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentTruncatedError,
    TableNotEmptyError,
    UnsupportedError,
)
from headrace.limits import (
    FIXED_KEY_BYTES_MAX,
    TABLE_BATCH_BYTES_MAX,
    TABLE_ENTRY_BYTES_MAX,
    TABLE_KEY_BYTES_MAX,
    TABLE_VALUE_BYTES_MAX,
)
from headrace.model.attributes import (
    ATTRIBUTE_ID_LENGTH,
    ROLLOVER_SIZE,
    SEGMENT_TYPE,
    TYPE_FIXED_KEY_TABLE,
    TYPE_TABLE,
)
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableDelta, TableEntry, TableInfo, TableKey
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.tables.compaction_plan import CompactionRound, is_compaction_due
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import (
    ENTRY_HEADER_BYTES,
    REMOVAL,
    decode_value,
    encode_copies,
    encode_entries,
    encode_removals,
)
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.read_spans import plan_spans
from headrace.segmentstore.tables.table_index import (
    REMOVED,
    TableIndex,
    location_offset,
    location_value_length,
    location_version,
    pack_location,
)
from headrace.segmentstore.tables.table_log import read_exactly, scan_log
from headrace.segmentstore.tables.table_state import ANY_LENGTH, Batch, TableState
from headrace.segmentstore.tables.value_cache import ValueCache, ValueCacheStatistics

_logger = logging.getLogger(__name__)

#: First byte of continuation tokens, so that another order of iteration can tell its own.
_TOKEN_VERSION: Final = b"\x01"

#: Keys put in order without a pause, when the first iterator asks for order.
_ORDER_STEP: Final = 5_000

#: Updates between two looks at the memory all indexes take.
_TRIM_INTERVAL: Final = 4_096


@dataclass(slots=True)
class TablesStatistics:
    """Gauges of now and counts since creation."""

    tables_open: int
    keys: int
    index_bytes: int
    in_flight_bytes: int
    updates_waiting: int
    rebuilds: int
    compactions: int
    compacted_bytes: int
    values: ValueCacheStatistics


class ContainerTables:
    """The table segments of one container."""

    def __init__(self, access: SegmentAccess, config: TablesConfig | None = None) -> None:
        self._access = access
        self._config = config or TablesConfig()
        self._cache = ValueCache(self._config.value_cache_bytes_max)
        self._tables: OrderedDict[str, OpenTable] = OrderedDict()
        self._opening: dict[str, asyncio.Future[None]] = {}
        self._retired: dict[str, list[OpenTable]] = {}
        self._supervisor = Supervisor("tables")
        self._closed = False
        self._opened = 0
        self._compactions = 0
        self._compacted_bytes = 0
        self._updates_to_trim = _TRIM_INTERVAL

    # ---- life of a table

    async def create_table(self, segment: str, key_length: int = 0, rollover_bytes: int = 0) -> None:
        """Create a table; ``key_length`` 0 makes a hash table, 1 to 256 one whose keys all have that length.

        Raises:
            SegmentExistsError: the name is taken.
        """
        if not 0 <= key_length <= FIXED_KEY_BYTES_MAX:
            raise InvalidArgumentError(f"a key length of {key_length} is not in 0 to {FIXED_KEY_BYTES_MAX}")
        if rollover_bytes < 0:
            raise InvalidArgumentError(f"a rollover size of {rollover_bytes} bytes is negative")
        attributes = {
            SEGMENT_TYPE: TYPE_FIXED_KEY_TABLE if key_length else TYPE_TABLE,
            ROLLOVER_SIZE: rollover_bytes or self._config.rollover_bytes,
        }
        if key_length:
            attributes[ATTRIBUTE_ID_LENGTH] = key_length
        await self._access.create(segment, attributes)

    async def delete_table(self, segment: str, must_be_empty: bool = False) -> None:
        """Delete a table with all it holds.

        Raises:
            TableNotEmptyError: ``must_be_empty``, and a key exists.
            UnsupportedError: ``must_be_empty`` of a table with keys of fixed length.
        """
        state = self._get_segment(segment)
        if must_be_empty:
            if _is_fixed(state):
                raise UnsupportedError("a table with keys of fixed length cannot be deleted on condition")
            while True:
                table = await self._get_table(segment)
                if not table.state.in_flight_count:
                    break
                await table.wait_durable(table.state.tail)
            if len(table.state.index):
                raise TableNotEmptyError(segment)
            state = table.segment
        await self._access.delete(state)
        self.drop(segment)

    async def table_info(self, segment: str) -> TableInfo:
        table = await self._get_table(segment)
        state = table.segment
        return TableInfo(
            state.start_offset, table.state.durable_end, len(table.state.index), table.key_length
        )

    def drop(self, segment: str) -> None:
        """Forget a table: its segment was deleted, evicted or replaced. It is opened again when next used."""
        table = self._tables.pop(segment, None)
        if table is not None:
            self._retire(table)

    on_evicted = drop

    async def close(self) -> None:
        """End background work. The container ends; its updates under way end with it."""
        self._closed = True
        await self._supervisor.stop()
        for name in list(self._tables):
            self.drop(name)

    # ---- updates

    async def table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int = ANY_LENGTH
    ) -> list[int]:
        """Put entries, all or none; return their new versions once they are durable.

        ``version`` of an entry is the condition: NO_VERSION, NOT_EXISTS or the version the key must have. All
        conditions look at the table before this update; if a key comes twice, the last one stays.

        Raises:
            TableKeyMissingError: a key that must have a version does not exist.
            TableKeyVersionError: a key has another version or exists although it must not.
            OffsetMismatchError: ``expected_length`` is not the length of the table's log.
            InvalidArgumentError: a bound on keys, values or the batch is exceeded.
            SegmentSealedError: the table is sealed.
            ThrottledError: nothing was done, send again.
        """
        self._check_entries(segment, entries)
        table = await self._admit(segment, entries, expected_length)
        if not entries:
            table.pass_turn()
            return []
        data, starts = encode_entries(entries)
        tail = table.state.tail
        versions = [tail + start for start in starts]
        keys = [entry.key for entry in entries]
        locations = [
            pack_location(version, version, len(entry.value))
            for version, entry in zip(versions, entries, strict=True)
        ]
        values = [entry.value for entry in entries]
        await table.append(Batch(tail, tail + len(data), keys, locations, values), data)
        self._on_updated(table, len(keys))
        return versions

    async def table_remove(
        self, segment: str, keys: Sequence[TableKey], expected_length: int = ANY_LENGTH
    ) -> None:
        """Remove keys, all or none; conditions and errors are those of :meth:`table_update`.

        Removing a key that does not exist succeeds and changes nothing.
        """
        self._check_keys(segment, keys)
        table = await self._admit(segment, keys, expected_length)
        state = table.state
        # A key that is absent, and that no update under way touches, needs no entry. dict: once per key, in order.
        present = list(
            dict.fromkeys(
                item.key
                for item in keys
                if state.is_touched(item.key) or state.index.find(item.key) != REMOVED
            )
        )
        if not present:
            table.pass_turn()
            return
        data, _ = encode_removals(present)
        tail = state.tail
        await table.append(Batch(tail, tail + len(data), present, [REMOVED] * len(present), []), data)
        self._on_updated(table, len(present))

    async def _admit(
        self, segment: str, items: Sequence[TableEntry] | Sequence[TableKey], expected_length: int
    ) -> OpenTable:
        """Return the table at a moment at which there is room and all conditions hold in it."""
        while True:
            table = self._find_open(segment) or await self._open(segment)
            if not table.has_room:
                await table.wait_room()
                if table.retired:
                    continue
                table.settle()
            violation = table.state.find_violation(items, expected_length)
            if violation is None:
                return table
            try:
                if table.state.find_durable_violation(items, expected_length) is not None:
                    raise violation
            finally:
                table.pass_turn()
            await table.wait_durable(table.state.awaited_end(items, expected_length))

    def _on_updated(self, table: OpenTable, count: int) -> None:
        self._start_compaction_if_due(table)
        self._updates_to_trim -= count
        if self._updates_to_trim <= 0:
            self._updates_to_trim = _TRIM_INTERVAL
            self._trim_indexes()

    # ---- reads

    async def table_get(self, segment: str, keys: Sequence[bytes]) -> list[TableEntry | None]:
        """Return the entry of each key, in order; None for keys that do not exist.

        Raises:
            InvalidArgumentError: the values asked for exceed 32 MiB.
        """
        key_length = _key_length(self._get_segment(segment))
        for key in keys:
            self._check_key(key_length, key)
        return await self._fetch(segment, keys)

    async def table_keys(
        self, segment: str, token: bytes, count: int, from_key: bytes = b"", to_key: bytes = b""
    ) -> tuple[list[TableKey], bytes]:
        """Return up to ``count`` keys in ascending order, and the token to go on with.

        Hash tables go on with ``token`` (empty: from the start; it comes back empty with an empty page). Tables
        with keys of fixed length take the inclusive bounds ``from_key`` and ``to_key`` instead; empty is no bound.
        A key that exists during the whole iteration comes exactly once.
        """
        table, page, token = await self._page(segment, token, count, from_key, to_key, with_values=False)
        find = table.state.index.find
        return [TableKey(key, location_version(find(key))) for key in page], token

    async def table_entries(
        self, segment: str, token: bytes, count: int, from_key: bytes = b"", to_key: bytes = b""
    ) -> tuple[list[TableEntry], bytes]:
        """Do as :meth:`table_keys` does, with values."""
        while True:
            table, page, token = await self._page(segment, token, count, from_key, to_key, with_values=True)
            found = [entry for entry in await self._fetch(segment, page) if entry is not None]
            if found or not page:
                return found, token
            if table.key_length:
                from_key = page[-1] + b"\x00"  # the whole page was removed while its values were read

    async def table_delta(self, segment: str, position: int, count: int) -> TableDelta:
        """Return what changed in a hash table since ``position`` of its log; see :class:`TableDelta`.

        An answer without entries means that there are none up to the end: removals alone never end an answer.

        Raises:
            UnsupportedError: the table has keys of fixed length.
            InvalidArgumentError: ``position`` is beyond the log, or was not handed out by it.
        """
        state = self._get_segment(segment)
        if _is_fixed(state):
            raise UnsupportedError("a table with keys of fixed length has no delta iterator")
        _check_count(count)
        if not 0 <= position <= state.durable_length:
            raise InvalidArgumentError(
                f"position {position} is outside the log of table {segment!r}, [0, {state.durable_length}]"
            )
        while True:
            start = max(position, state.start_offset)
            try:
                delta = await self._walk(state, start, count)
            except SegmentTruncatedError:
                if state.start_offset <= start:
                    raise
                continue  # compaction went on meanwhile
            except DataCorruptionError as error:
                if start == position != state.start_offset:
                    # Any number may come from a client; damage to the log itself is found by whoever replays it.
                    raise InvalidArgumentError(
                        f"position {position} is not one of table {segment!r}"
                    ) from error
                raise
            delta.should_clear = position < start
            return delta

    async def _walk(self, segment: SegmentState, start: int, count: int) -> TableDelta:
        end = segment.durable_length
        newest: dict[bytes, TableEntry] = {}
        size = 0
        delta = TableDelta(last_position=start)
        async for entries, data in scan_log(self._access, segment, start, end):
            for _, entry_end, key, value_length, version, value_at in entries:
                before = newest.pop(key, None)
                if before is not None:
                    size -= len(before.value) + len(key)
                if value_length != REMOVAL:
                    newest[key] = TableEntry(key, data[value_at : value_at + value_length], version)
                    size += value_length + len(key)
                delta.last_position = entry_end
                if len(newest) >= count or size >= self._config.page_bytes_max:
                    delta.entries = list(newest.values())
                    delta.reached_end = entry_end == end
                    return delta
        delta.entries = list(newest.values())
        return delta

    async def _page(
        self, segment: str, token: bytes, count: int, from_key: bytes, to_key: bytes, *, with_values: bool
    ) -> tuple[OpenTable, list[bytes], bytes]:
        """Return the next keys of an iteration and its next token."""
        _check_count(count)
        key_length = _key_length(self._get_segment(segment))
        if key_length:
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
        while not (table := await self._get_table(segment)).state.index.order_some(_ORDER_STEP):
            await asyncio.sleep(0)
        index = table.state.index
        page: list[bytes] = []
        room = self._config.page_bytes_max
        for key in index.page(start, min(count, room // ENTRY_HEADER_BYTES + 1), inclusive=inclusive):
            if (to_key and key > to_key) or room <= 0:
                break
            page.append(key)
            room -= ENTRY_HEADER_BYTES + len(key)
            if with_values:
                room -= location_value_length(index.find(key))
        next_token = _TOKEN_VERSION + page[-1] if page and not table.key_length else b""
        return table, page, next_token

    async def _fetch(self, segment: str, keys: Sequence[bytes]) -> list[TableEntry | None]:
        """Return the entries of ``keys``; each was the newest durable one at some moment of this call."""
        found: list[TableEntry | None] = [None] * len(keys)
        wanted = list(range(len(keys)))
        while wanted:
            wanted = await self._fetch_once(await self._get_table(segment), keys, wanted, found)
        return found

    async def _fetch_once(
        self, table: OpenTable, keys: Sequence[bytes], wanted: list[int], found: list[TableEntry | None]
    ) -> list[int]:
        """Fill ``found`` at the places ``wanted``; return those whose entry was moved before it could be read."""
        index, cache, number = table.state.index, self._cache, table.number
        places: list[int] = []
        ranges: list[tuple[int, int]] = []
        versions: list[int] = []
        total = 0
        for place in wanted:
            key = keys[place]
            location = index.find(key)
            if location == REMOVED:
                continue
            offset, version = location_offset(location), location_version(location)
            value_length = location_value_length(location)
            total += value_length
            value = cache.find(number, offset) if value_length else b""
            if value is not None:
                found[place] = TableEntry(key, value, version)
            else:
                places.append(place)
                ranges.append((offset, ENTRY_HEADER_BYTES + len(key) + value_length))
                versions.append(version)
        if total > TABLE_BATCH_BYTES_MAX:
            raise InvalidArgumentError(f"the values asked for take {total} bytes; ask for fewer keys")
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
                cache.put(number, offset, value)
                found[place] = TableEntry(key, value, version)
        return moved

    # ---- opening

    def _get_segment(self, name: str) -> SegmentState:
        segment = self._access.get_segment(name)
        if not segment.is_table:
            raise InvalidArgumentError(f"segment {name!r} is not a table")
        return segment

    def _find_open(self, name: str) -> OpenTable | None:
        """Return the table if its index is in memory, with everything durable applied."""
        table = self._tables.get(name)
        if table is None or table.retired or self._access.find_segment(name) is not table.segment:
            return None
        self._tables.move_to_end(name)
        table.settle()
        return table

    async def _get_table(self, name: str) -> OpenTable:
        return self._find_open(name) or await self._open(name)

    async def _open(self, name: str) -> OpenTable:
        while True:
            table = self._find_open(name)
            if table is not None:
                return table
            segment = self._get_segment(name)
            if name in self._opening:
                await asyncio.shield(self._opening[name])
                continue
            self.drop(name)
            opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._opening[name] = opened
            try:
                for retired in self._retired.pop(name, []):
                    await retired.wait_drained()
                table = await self._load(segment)
                self._tables[name] = table
                self._trim_indexes()
                self._start_compaction_if_due(table)
            finally:
                del self._opening[name]
                opened.set_result(None)

    async def _load(self, segment: SegmentState) -> OpenTable:
        """Rebuild the index of a table from its log. Nobody appends meanwhile: all requests wait for this."""
        index = TableIndex()
        at = segment.accepted_start_offset
        while at < segment.accepted_length:
            end = segment.accepted_length
            async for entries, _ in scan_log(self._access, segment, at, end, wait=True):
                index.replay(entries, segment.name)
            at = end
        self._opened += 1
        state = TableState(segment.name, index, at)
        number = self._opened
        return OpenTable(
            self._access, self._config, segment, state, self._cache, number, _key_length(segment)
        )

    def _retire(self, table: OpenTable) -> None:
        table.retire()
        if self._retired:
            self._retired = {
                name: left
                for name, tables in self._retired.items()
                if (left := [other for other in tables if not other.is_drained])
            }
        if not table.is_drained:
            self._retired.setdefault(table.segment.name, []).append(table)

    def _trim_indexes(self) -> None:
        """Forget indexes of idle tables, least recently used first, until the rest fits."""
        total = sum(table.state.index.memory_bytes for table in self._tables.values())
        if total <= self._config.index_bytes_max:
            return
        newest = next(reversed(self._tables))
        for name, table in list(self._tables.items()):
            if total <= self._config.index_bytes_max or name == newest:
                return
            if table.is_idle:
                total -= table.state.index.memory_bytes
                self.drop(name)

    # ---- compaction

    def _start_compaction_if_due(self, table: OpenTable) -> None:
        if table.compacting or table.retired or self._closed or not self._is_compaction_due(table):
            return
        table.compacting = True
        self._supervisor.spawn(f"compaction of {table.segment.name}", self._compact(table))

    def _is_compaction_due(self, table: OpenTable) -> bool:
        return not table.segment.accepted_sealed and is_compaction_due(
            table.log_bytes,
            table.state.index.live_bytes,
            dead_bytes_min=self._config.compaction_bytes_max,
            utilization_percent_min=self._config.utilization_percent_min,
        )

    async def _compact(self, table: OpenTable) -> None:
        """Compact until the log is dense enough. Never harms the table: whatever fails is tried again later."""
        try:
            while not table.retired and self._is_compaction_due(table):
                await self._compact_once(table)
        except NoSuchSegmentError:
            pass  # deleted meanwhile
        except HeadraceError as error:
            _logger.warning("compaction of table %r was put off: %s", table.segment.name, error)
        finally:
            table.compacting = False

    async def _compact_once(self, table: OpenTable) -> None:
        segment, state = table.segment, table.state
        start = segment.accepted_start_offset
        part = CompactionRound(start, start, self._config.compaction_bytes_max)
        async for entries, data in scan_log(self._access, segment, start, state.durable_end):
            part.read(entries, data, state)
            if part.is_full:
                break
        if table.retired:
            return
        table.settle()
        survivors = part.survivors(state)
        if survivors:
            data, starts = encode_copies(survivors)
            tail = state.tail
            keys = [entry.key for entry in survivors]
            locations = [
                pack_location(tail + at, entry.version, len(entry.value))
                for at, entry in zip(starts, survivors, strict=True)
            ]
            await table.append(Batch(tail, tail + len(data), keys, locations, []), data)
            self._compacted_bytes += len(data)
        else:
            # Updates under way may supersede what was left behind: they must be durable before it goes.
            await table.wait_durable(state.tail)
        if not table.retired:
            await self._access.truncate(segment, part.end)
            self._compactions += 1

    # ---- bounds on what callers bring

    def _check_entries(self, segment: str, entries: Sequence[TableEntry]) -> None:
        key_length = _key_length(self._get_segment(segment))
        total = 0
        for entry in entries:
            key_bytes, value_bytes = len(entry.key), len(entry.value)
            if not 0 < key_bytes <= TABLE_KEY_BYTES_MAX or (key_length and key_bytes != key_length):
                self._check_key(key_length, entry.key)
            size = ENTRY_HEADER_BYTES + key_bytes + value_bytes
            if value_bytes > TABLE_VALUE_BYTES_MAX or size > TABLE_ENTRY_BYTES_MAX:
                raise InvalidArgumentError(
                    f"a value of {value_bytes} bytes with a key of {key_bytes} exceeds the limits: value"
                    f" {TABLE_VALUE_BYTES_MAX}, header of 17 with key and value {TABLE_ENTRY_BYTES_MAX}"
                )
            total += size
            if entry.version < NOT_EXISTS and entry.version != NO_VERSION:
                raise InvalidArgumentError(f"{entry.version} is not a version")
        _check_batch(total)

    def _check_keys(self, segment: str, keys: Sequence[TableKey]) -> None:
        key_length = _key_length(self._get_segment(segment))
        total = 0
        for item in keys:
            self._check_key(key_length, item.key)
            total += ENTRY_HEADER_BYTES + len(item.key)
            if item.version < NOT_EXISTS and item.version != NO_VERSION:
                raise InvalidArgumentError(f"{item.version} is not a version")
        _check_batch(total)

    def _check_key(self, key_length: int, key: bytes) -> None:
        if key_length and len(key) != key_length:
            raise InvalidArgumentError(f"keys of this table have {key_length} bytes, not {len(key)}")
        if not 0 < len(key) <= TABLE_KEY_BYTES_MAX:
            raise InvalidArgumentError(f"a key of {len(key)} bytes is not in 1 to {TABLE_KEY_BYTES_MAX}")

    # ---- introspection

    def statistics(self) -> TablesStatistics:
        tables = self._tables.values()
        return TablesStatistics(
            tables_open=len(tables),
            keys=sum(len(table.state.index) for table in tables),
            index_bytes=sum(table.state.index.memory_bytes for table in tables),
            in_flight_bytes=sum(table.state.in_flight_bytes for table in tables),
            updates_waiting=sum(table.waiting_count for table in tables),
            rebuilds=self._opened,
            compactions=self._compactions,
            compacted_bytes=self._compacted_bytes,
            values=self._cache.statistics(),
        )

    def check(self) -> None:
        """Assert the invariants of every open table. Touches every key."""
        self._cache.check()
        for name, table in self._tables.items():
            assert table.segment.name == name
            assert table.segment.durable_length <= max(table.state.tail, table.segment.accepted_length)
            table.state.check()


def _is_fixed(segment: SegmentState) -> bool:
    return segment.type_bits & TYPE_FIXED_KEY_TABLE == TYPE_FIXED_KEY_TABLE


def _key_length(segment: SegmentState) -> int:
    return max(0, segment.attribute(ATTRIBUTE_ID_LENGTH)) if _is_fixed(segment) else 0


def _check_count(count: int) -> None:
    if count < 1:
        raise InvalidArgumentError(f"at least one item must be asked for, not {count}")


def _check_batch(total: int) -> None:
    if total > TABLE_BATCH_BYTES_MAX:
        raise InvalidArgumentError(f"an update of {total} bytes exceeds the limit of {TABLE_BATCH_BYTES_MAX}")
