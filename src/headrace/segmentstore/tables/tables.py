"""Keys and values in segments: what the container offers for its table segments.

All methods run on the container's loop. Updates of many callers to one table are appended one after another
without waiting for each other; each returns when its own append is durable, and is visible from then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    RequestError,
    TableNotEmptyError,
    UnsupportedError,
    WalWriteError,
)
from headrace.limits import FIXED_KEY_BYTES_MAX
from headrace.model.attributes import (
    ATTRIBUTE_ID_LENGTH,
    ROLLOVER_SIZE,
    SEGMENT_TYPE,
    TYPE_FIXED_KEY_TABLE,
    TYPE_TABLE,
)
from headrace.model.tables import TableEntry, TableInfo, TableKey
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.compaction import TableCompactor
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import encode_entries, encode_removals
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.open_tables import OpenTables
from headrace.segmentstore.tables.request_limits import check_items, is_fixed, key_length_of
from headrace.segmentstore.tables.table_index import KEY_OVERHEAD_BYTES, REMOVED, pack_location
from headrace.segmentstore.tables.table_reads import TableReads
from headrace.segmentstore.tables.table_state import ANY_LENGTH, Batch
from headrace.segmentstore.tables.update_batch import UPDATE_BATCH_BYTES_MAX, OnUpdated, UpdateBatch

#: Indexes are trimmed when they may have grown by one part in so many of their bound.
_TRIM_PARTS: Final = 16


_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TablesStatistics:
    """Gauges of now and counts since creation."""

    tables_open: int
    keys: int
    index_bytes: int
    in_flight_bytes: int
    rebuilds: int
    compaction_rounds: int
    compaction_copied_bytes: int


class ContainerTables(TableReads):
    """The table segments of one container."""

    def __init__(self, access: SegmentAccess, config: TablesConfig | None = None) -> None:
        config = config or TablesConfig()
        self._compactor = TableCompactor(access, config)
        super().__init__(access, config, OpenTables(access, config, self._compactor.start_if_due))
        self._supervisor = Supervisor("table updates", _note_failure)
        self._closed = False
        self._growth_bytes = 0
        """Upper bound on what indexes grew since they were last trimmed."""

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
        state = await self._tables.get_segment(segment)
        if must_be_empty:
            if is_fixed(state):
                raise UnsupportedError("a table with keys of fixed length cannot be deleted on condition")
            while (table := await self._tables.get(segment)).state.in_flight_count:
                await table.wait_durable(table.state.tail)
            if len(table.state.index):
                raise TableNotEmptyError(segment)
            state = table.segment
        await self._access.delete(state)
        self._tables.drop(segment)

    async def table_info(self, segment: str) -> TableInfo:
        table = await self._tables.get(segment)
        state = table.state
        return TableInfo(table.segment.start_offset, state.durable_end, len(state.index), table.key_length)

    def drop(self, segment: str) -> None:
        """Forget a table: its segment was deleted or replaced. It is opened again when next used."""
        self._tables.drop(segment)

    def is_idle(self, segment: SegmentState) -> bool:
        """Whether nothing uses the table of a segment: it may be evicted."""
        return self._tables.is_idle(segment)

    def on_evicted(self, segment: SegmentState) -> None:
        """A table's segment was evicted: forget its index."""
        self._tables.drop_evicted(segment)

    async def close(self) -> None:
        """End background work. The container ends, and its updates in flight with it."""
        self._closed = True
        await self._compactor.close()
        await self._supervisor.stop()
        self._tables.drop_all()

    # ---- updates

    async def table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int = ANY_LENGTH
    ) -> list[int]:
        """Put entries, all or none; return their new versions once they are durable.

        ``version`` of an entry is the condition: NO_VERSION, NOT_EXISTS or the version the key must have. All
        conditions look at the table before this update; if a key comes twice, the last one stays.

        Raises:
            TableKeyMissingError: a key that must have a version does not exist.
            TableKeyVersionError: a key has another version, or exists although it must not.
            OffsetMismatchError: ``expected_length`` is not the length of the table's log.
            InvalidArgumentError: a bound on keys, values or the batch is exceeded.
            SegmentSealedError: the table is sealed.
            ThrottledError: nothing was done, send again.
            FencedOutError: a condition does not hold, or nothing is to be written, as far as a former owner
                of the container can know.
        """
        check_items(key_length_of(await self._tables.get_segment(segment)), entries)
        while not entries:
            if await self._confirm(await self._admit(segment, entries, expected_length), expected_length):
                return []
        data, starts = encode_entries(entries)
        keys = [entry.key for entry in entries]
        while True:
            table = await self._admit(segment, entries, expected_length)
            tail = table.state.tail
            versions = [tail + start for start in starts]
            locations = [
                pack_location(version, version, len(entry.value))
                for version, entry in zip(versions, entries, strict=True)
            ]
            if await table.append(Batch(tail, tail + len(data), keys, locations), data):
                self._on_updated(table, keys)
                return versions

    def begin_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int, on_updated: OnUpdated
    ) -> bool:
        """Begin what :meth:`table_update` does, together with all updates that begin in this iteration of
        the loop; ``on_updated`` is called later.

        Returns:
            False, with nothing done, if that takes :meth:`table_update`.

        Raises:
            InvalidArgumentError: a bound on keys, values or the batch is exceeded.
        """
        table = self._tables.find(segment)
        if table is None or not entries or self._closed:
            return False
        size = check_items(table.key_length, entries)
        state, batch = table.state, table.open_batch
        if state.find_violation(entries, expected_length) is not None:
            return False
        if batch is None:
            if size > UPDATE_BATCH_BYTES_MAX:
                return False
            batch = table.open_batch = UpdateBatch(state.tail)
            task = self._supervisor.spawn(segment, table.append_open_batch())
            task.add_done_callback(partial(self._on_appended, table, batch))
        elif batch.end - batch.offset + size > UPDATE_BATCH_BYTES_MAX:
            return False
        state.extend(batch, *batch.add(entries, on_updated), size)
        return True

    def _on_appended(self, table: OpenTable, batch: UpdateBatch, task: asyncio.Task[bool]) -> None:
        if task.cancelled():
            batch.notify(WalWriteError("the container stops: whether it happened is unknown"), done=False)
            return
        error = task.exception()
        if error is None and task.result():
            self._on_updated(table, batch.keys)
            batch.notify(None, done=True)
        elif error is None or isinstance(error, RequestError):
            batch.notify(None, done=False)  # it did not happen: each of them may be refused by itself
        else:
            failure = error if isinstance(error, HeadraceError) else WalWriteError(f"a bug: {error!r}")
            batch.notify(failure, done=False)

    async def table_remove(
        self, segment: str, keys: Sequence[TableKey], expected_length: int = ANY_LENGTH
    ) -> None:
        """Remove keys, all or none; conditions and errors are those of :meth:`table_update`.

        Removing a key that does not exist succeeds and changes nothing.

        Raises:
            FencedOutError: there is nothing to remove, as far as a former owner of the container can know.
        """
        check_items(key_length_of(await self._tables.get_segment(segment)), keys)
        names = dict.fromkeys(item.key for item in keys)
        while True:
            table = await self._admit(segment, keys, expected_length)
            state = table.state
            # A key that is absent, and that no update in flight touches, needs no entry.
            present = [key for key in names if state.is_touched(key) or state.index.find(key) != REMOVED]
            if not present:
                if await self._confirm(table, expected_length):
                    return
                continue
            data = encode_removals(present)
            tail = state.tail
            if await table.append(Batch(tail, tail + len(data), present, [REMOVED] * len(present)), data):
                self._compactor.start_if_due(table)
                return

    async def _admit(
        self, segment: str, items: Sequence[TableEntry] | Sequence[TableKey], expected_length: int
    ) -> OpenTable:
        """Return the table at a moment at which all conditions hold in it."""
        while True:
            table = await self._tables.get(segment)
            if table.open_batch is not None:
                await table.wait_batch_sent()
                continue
            state = table.state
            if state.find_violation(items, expected_length) is None:
                return table
            violation = state.find_durable_violation(items, expected_length)
            if violation is not None:
                await self._access.check_owner()  # under a successor the conditions may hold
                raise violation
            await table.wait_durable(state.awaited_end(items, expected_length))

    async def _confirm(self, table: OpenTable, expected_length: int) -> bool:
        """Do instead of an append what has to precede an answer without one; False: judge again.

        Raises:
            FencedOutError: with the successor a key may exist, and the log have another length.
        """
        if expected_length != ANY_LENGTH and not await table.wait_durable(expected_length):
            return False
        await self._access.check_owner()
        return True

    def _on_updated(self, table: OpenTable, keys: list[bytes]) -> None:
        self._compactor.start_if_due(table)
        self._growth_bytes += len(keys) * KEY_OVERHEAD_BYTES + sum(map(len, keys))
        if self._growth_bytes > self._config.index_bytes_max // _TRIM_PARTS:
            self._growth_bytes = 0
            self._tables.trim()

    # ---- introspection

    def statistics(self) -> TablesStatistics:
        tables = self._tables.values()
        return TablesStatistics(
            tables_open=len(tables),
            keys=sum(len(table.state.index) for table in tables),
            index_bytes=sum(table.state.index.memory_bytes for table in tables),
            in_flight_bytes=sum(table.state.in_flight_bytes for table in tables),
            rebuilds=self._tables.opened_count,
            compaction_rounds=self._compactor.rounds,
            compaction_copied_bytes=self._compactor.copied_bytes,
        )

    def check(self) -> None:
        """Assert the invariants of every open table. Touches every key."""
        self._tables.check()


def _note_failure(name: str, error: BaseException) -> None:
    """Log a bug; what the log refuses is the callers' to know."""
    if not isinstance(error, HeadraceError):
        _logger.error("an update of table %r failed", name, exc_info=error)
