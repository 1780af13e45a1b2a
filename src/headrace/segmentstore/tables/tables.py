"""Keys and values in segments: what the container offers for its table segments.

All methods run on the container's loop. Updates of many callers to one table are appended one after another
without waiting for each other; each returns when its own append is durable, and is visible from then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    RequestError,
    TableNotEmptyError,
    UnknownOutcomeError,
    WalWriteError,
)
from headrace.limits import FIXED_KEY_BYTES_MAX
from headrace.model.attributes import (
    ATTRIBUTE_ID_LENGTH,
    ROLLOVER_SIZE,
    SEGMENT_TYPE,
    TABLE_HASH_SEED,
    TYPE_FIXED_KEY_TABLE,
    TYPE_TABLE,
)
from headrace.model.tables import NO_VERSION, TableEntry, TableInfo, TableKey
from headrace.runtime.entropy import Entropy
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.contract import ContainerSegments
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.compaction import TableCompactor
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import encode_entries, encode_removals
from headrace.segmentstore.tables.index_access import TableIndexes
from headrace.segmentstore.tables.indexer import TableIndexer
from headrace.segmentstore.tables.locations import REMOVED, UNKNOWN, pack_location
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.open_tables import OpenTables
from headrace.segmentstore.tables.pages import TablePages
from headrace.segmentstore.tables.request_limits import check_items, key_length_of
from headrace.segmentstore.tables.state import ANY_LENGTH, UNDECIDED, Batch, Learned
from headrace.segmentstore.tables.tree_keys import SEED_BITS
from headrace.segmentstore.tables.unindexed import ENTRY_OVERHEAD_BYTES
from headrace.segmentstore.tables.update_batch import UPDATE_BATCH_BYTES_MAX, OnUpdated, UpdateBatch

#: Memory is trimmed when it may have grown by one part in so many of its bound.
_TRIM_PARTS: Final = 16


_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TablesStatistics:
    """Gauges of now and counts since creation."""

    tables_open: int
    keys: int
    """Of open tables. Keys updated since the last index round of their table may count twice."""
    unindexed_keys: int
    index_bytes: int
    """Memory of what the indexes do not have yet."""
    in_flight_bytes: int
    rebuilds: int
    """Tables that were opened."""
    index_rounds: int
    compaction_rounds: int
    compaction_copied_bytes: int


class ContainerTables(TablePages):
    """The table segments of one container."""

    def __init__(
        self,
        access: ContainerSegments,
        indexes: TableIndexes,
        entropy: Entropy,
        config: TablesConfig | None = None,
    ) -> None:
        config = config or TablesConfig()
        self._indexer = TableIndexer(config, self._start_work)
        self._compactor = TableCompactor(
            access, config, self._indexer.is_exceeded, self._indexer.start_if_due
        )
        super().__init__(access, config, OpenTables(access, indexes, config, self._start_work))
        self._entropy = entropy
        self._supervisor = Supervisor("table updates", _note_failure)
        self._closed = False
        self._growth_bytes = 0
        """Upper bound on what memory grew since it was last trimmed."""

    # ---- life of a table

    async def create(self, segment: str, key_length: int = 0, rollover_bytes: int = 0) -> None:
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
            TABLE_HASH_SEED: new_seed(self._entropy),
        }
        if key_length:
            attributes[ATTRIBUTE_ID_LENGTH] = key_length
        await self._access.create(segment, attributes)

    async def delete(self, segment: str, must_be_empty: bool = False) -> None:
        """Delete a table with all it holds.

        Raises:
            TableNotEmptyError: ``must_be_empty``, and a key exists.
        """
        state = await self._tables.get_segment(segment)
        while must_be_empty:
            table = await self._tables.get(segment)
            if table.state.in_flight_count:
                await table.wait_durable(table.state.tail)
                continue
            counted = await table.count()
            if counted is None or counted[1] != table.state.tail:
                continue  # an update came in between
            if counted[2]:
                raise TableNotEmptyError(segment)
            state = table.segment
            break
        await self._access.delete(state)
        self._tables.drop(segment)

    async def info(self, segment: str) -> TableInfo:
        """Count what is durable. Raises NoSuchSegmentError."""
        while True:
            table = await self._tables.get(segment)
            counted = await table.count()
            if counted is not None:
                return TableInfo(*counted, table.key_length)

    def drop(self, segment: str) -> None:
        """Forget a table: its segment was deleted or replaced. It is opened again when next used."""
        self._tables.drop(segment)

    def is_idle(self, segment: SegmentState) -> bool:
        """Whether nothing uses the table of a segment: it may be evicted."""
        return self._tables.is_idle(segment)

    def on_evicted(self, segment: SegmentState) -> None:
        """A table's segment was evicted: forget the table."""
        self._tables.drop_evicted(segment)

    async def close(self) -> None:
        """End background work. The container ends, and its updates in flight with it."""
        self._closed = True
        await self._compactor.close()
        await self._indexer.close()
        await self._supervisor.stop()
        self._tables.drop_all()

    # ---- updates

    async def update(
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
            table, _ = await self._admit(segment, entries, expected_length)
            if await self._confirm(table, expected_length):
                return []
        data, starts = encode_entries(entries)
        while True:
            table, keys = await self._admit(segment, entries, expected_length)
            tail = table.state.tail
            versions = [tail + start for start in starts]
            locations = [
                pack_location(version, end - version)
                for version, end in pairwise([*versions, tail + len(data)])
            ]
            if await table.append(Batch(tail, tail + len(data), keys, locations), data):
                self._on_updated(table, keys)
                return versions

    def begin_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int, on_updated: OnUpdated
    ) -> bool:
        """Begin what :meth:`update` does, together with all updates that begin in this iteration of
        the loop; ``on_updated`` is called later.

        Returns:
            False, with nothing done, if that takes :meth:`update`.

        Raises:
            InvalidArgumentError: a bound on keys, values or the batch is exceeded.
        """
        table = self._tables.find(segment)
        if table is None or not entries or self._closed:
            return False
        size = check_items(table.key_length, entries)
        state, batch = table.state, table.open_batch
        keys = table.tree_keys.of_all([entry.key for entry in entries])
        if state.find_violation(entries, keys, expected_length) is not None:
            return False
        if batch is None:
            if size > UPDATE_BATCH_BYTES_MAX or self._indexer.is_exceeded(table):
                return False
            batch = table.open_batch = UpdateBatch(state.tail)
            task = self._supervisor.spawn(segment, table.append_open_batch())
            task.add_done_callback(partial(self._on_appended, table, batch))
        elif batch.end - batch.offset + size > UPDATE_BATCH_BYTES_MAX:
            return False
        state.extend(batch, keys, batch.add(entries, on_updated), size)
        return True

    def _on_appended(self, table: OpenTable, batch: UpdateBatch, task: asyncio.Task[bool]) -> None:
        if task.cancelled():
            batch.notify(WalWriteError("the container stops: whether it happened is unknown"), done=False)
            return
        error = task.exception()
        if error is None and task.result():
            self._on_updated(table, batch.keys)
            if self._access.may_answer():
                batch.notify(None, done=True)
            else:
                batch.notify(UnknownOutcomeError("the table is not served here any more"), done=False)
        elif error is None or isinstance(error, RequestError):
            batch.notify(None, done=False)  # it did not happen: each of them may be refused by itself
        else:
            failure = error if isinstance(error, HeadraceError) else WalWriteError(f"a bug: {error!r}")
            batch.notify(failure, done=False)

    async def remove(self, segment: str, keys: Sequence[TableKey], expected_length: int = ANY_LENGTH) -> None:
        """Remove keys, all or none; conditions and errors are those of :meth:`update`.

        Removing a key that does not exist succeeds and changes nothing.

        Raises:
            FencedOutError: there is nothing to remove, as far as a former owner of the container can know.
        """
        check_items(key_length_of(await self._tables.get_segment(segment)), keys)
        learned = Learned()
        while True:
            table, tree_keys = await self._admit(segment, keys, expected_length)
            state = table.state
            # A key that is absent, and that no update in flight touches, needs no entry.
            names = {item.key: tree_key for item, tree_key in zip(keys, tree_keys, strict=True)}
            located = {name: state.find_accepted(key, learned) for name, key in names.items()}
            if UNKNOWN in located.values():
                await table.learn(list(names.values()), state.find_accepted, learned)
                continue
            present = [
                name for name, key in names.items() if located[name] != REMOVED or state.is_touched(key)
            ]
            if not present:
                if await self._confirm(table, expected_length):
                    return
                continue
            data = encode_removals(present)
            tail = state.tail
            batch = Batch(tail, tail + len(data), [names[name] for name in present], [REMOVED] * len(present))
            if await table.append(batch, data):
                self._on_updated(table, batch.keys)
                return

    async def change(self, segment: str, changes: Mapping[bytes, bytes | None]) -> None:
        """Put the keys that have a value and remove those that have None, in one append, on no condition.

        Raises:
            InvalidArgumentError: a bound on keys, values or the batch is exceeded.
            ThrottledError: nothing was done, send again.
        """
        entries = [TableEntry(key, value) for key, value in changes.items() if value is not None]
        removed = [key for key, value in changes.items() if value is None]
        check_items(key_length_of(await self._tables.get_segment(segment)), entries)
        data, starts = encode_entries(entries)
        size = len(data)
        data += encode_removals(removed)
        items = [TableKey(key) for key in (*(entry.key for entry in entries), *removed)]
        while items:
            table, keys = await self._admit(segment, items, ANY_LENGTH)
            tail = table.state.tail
            ends = pairwise([*(tail + start for start in starts), tail + size])
            locations = [pack_location(version, end - version) for version, end in ends]
            locations += [REMOVED] * len(removed)
            if await table.append(Batch(tail, tail + len(data), keys, locations), data):
                self._on_updated(table, keys)
                return

    async def _admit(
        self, segment: str, items: Sequence[TableEntry] | Sequence[TableKey], expected_length: int
    ) -> tuple[OpenTable, list[bytes]]:
        """Return the table at a moment at which all conditions hold in it, and the tree keys of the items."""
        learned = None
        while True:
            table = await self._tables.get(segment)
            if table.open_batch is not None:
                await table.wait_batch_sent()
                continue
            if items and self._indexer.is_exceeded(table):
                await self._indexer.wait_capacity(table)
                continue
            state = table.state
            keys = table.tree_keys.of_all([item.key for item in items])
            violation = state.find_violation(items, keys, expected_length, learned)
            if violation is None:
                return table, keys
            find = state.find_accepted
            if violation is not UNDECIDED:
                violation = state.find_durable_violation(items, keys, expected_length, learned)
                find = state.find_durable
            if violation is UNDECIDED:
                wanted = [key for at, key in enumerate(keys) if items[at].version != NO_VERSION]
                learned = learned or Learned()
                await table.learn(wanted, find, learned)
                continue
            if violation is not None:
                await self._access.check_owner()  # under a successor the conditions may hold
                raise violation
            await table.wait_durable(state.awaited_end(keys, expected_length))

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
        self._start_work(table)
        self._growth_bytes += len(keys) * (ENTRY_OVERHEAD_BYTES + table.tree_keys.key_bytes)
        if self._growth_bytes > self._config.index_bytes_max // _TRIM_PARTS:
            self._growth_bytes = 0
            self._tables.trim()
            self._indexer.relieve(self._tables.values())

    def _start_work(self, table: OpenTable) -> None:
        """Start what is due for a table in the background."""
        self._indexer.start_if_due(table)
        self._compactor.start_if_due(table)

    # ---- introspection

    def statistics(self) -> TablesStatistics:
        tables = self._tables.values()
        return TablesStatistics(
            tables_open=len(tables),
            keys=sum(table.state.key_count_max for table in tables),
            unindexed_keys=sum(table.state.unindexed_count for table in tables),
            index_bytes=sum(table.state.memory_bytes for table in tables),
            in_flight_bytes=sum(table.state.in_flight_bytes for table in tables),
            rebuilds=self._tables.opened_count,
            index_rounds=self._indexer.rounds,
            compaction_rounds=self._compactor.rounds,
            compaction_copied_bytes=self._compactor.copied_bytes,
        )

    def check(self) -> None:
        """Assert the invariants of every open table. Touches every key."""
        self._tables.check()


def new_seed(entropy: Entropy) -> int:
    """Return the number by which a new table hashes its keys."""
    return 1 + entropy.randbelow((1 << SEED_BITS) - 1)


def _note_failure(name: str, error: BaseException) -> None:
    """Log a bug; what the log refuses is the callers' to know."""
    if not isinstance(error, HeadraceError):
        _logger.error("an update of table %r failed", name, exc_info=error)
