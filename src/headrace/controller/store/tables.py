"""Metadata in table segments: as durable and as available as the data itself.

Updates that arrive while one of a table is in flight are joined into the next one, as a log joins appends
into a frame: a busy controller then pays for one segment operation where it made dozens of updates. Joined
updates stay independent; when one of them has a stale condition, or is refused, each is sent on its own.
On a quick disk an operation is over before the next update comes; so with many callers at work each first
waits a little for more.

Table segments put and remove in separate operations. An update that does both therefore writes *tombstones*,
rows without a value, in the same operation as its puts, and removes them afterwards; a tombstone reads as an
absent row wherever it is met.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.controller.store.contract import ABSENT, Page, Row, Write
from headrace.errors import (
    AnswerTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    MetadataConflictError,
    NoSuchSegmentError,
    NoSuchTableError,
    OverloadError,
    OwnershipError,
    SegmentExistsError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
    ThrottledError,
)
from headrace.model.segment_access import SegmentAccess
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.runtime.entropy import Entropy
from headrace.runtime.retry import RetryPolicy, retry
from headrace.runtime.supervisor import Supervisor

T = TypeVar("T")

TABLE_PREFIX: Final = "_system/_tables/"
JOINED_WRITES_MAX: Final = 1000
JOINED_BYTES_MAX: Final = 4 << 20
WAITING_UPDATES_MAX: Final = 20_000
LINGER_CALLERS_MIN: Final = 4
LINGER_CALLERS: Final = 12
"""From the least number on an operation waits for a millisecond, and one more for each so many."""
LINGER_MS_MAX: Final = 3
ROLLOVER_BYTES: Final = 16 << 20

#: What has certainly not happened is sent again, for about half a minute: a container needs that to move.
_RETRY: Final = RetryPolicy(initial_s=0.02, multiplier=2.0, delay_max_s=5.0, attempts=12)
_CONFLICTS: Final = (TableKeyMissingError, TableKeyVersionError)


@dataclass(slots=True)
class TableStoreStatistics:
    """Gauges of now and counts since creation."""

    tables_active: int
    waiting: int
    updates: int
    operations: int
    split: int


class _Update:
    """One caller's update in the queue of its table."""

    __slots__ = ("deletes", "done", "puts", "size_bytes", "writes")

    def __init__(self, writes: Sequence[Write], done: asyncio.Future[list[int]]) -> None:
        self.writes = writes
        self.done = done
        self.puts = any(write.value is not None for write in writes)
        self.deletes = any(write.value is None for write in writes)
        self.size_bytes = sum(len(write.key) + len(write.value or b"") for write in writes)


class TableStore:
    """A ``MetadataStore`` over table segments of the scope ``_system``. Used on one event loop."""

    def __init__(self, segments: SegmentAccess, entropy: Entropy) -> None:
        self._segments = segments
        self._entropy = entropy
        self._supervisor = Supervisor("metadata tables")
        self.callers: Callable[[], int] = lambda: 0
        """How many calls are at work, each of which may update rows; whoever serves them sets it."""
        self._waiting: dict[str, deque[_Update]] = {}
        self._waiting_count = 0
        self._updates = 0
        self._operations = 0
        self._split = 0

    async def close(self) -> None:
        """Stop writing. Updates that were not answered have an unknown outcome for their callers."""
        await self._supervisor.stop()
        for waiting in self._waiting.values():
            for update in waiting:
                update.done.cancel()

    # ---------------------------------------------------------------------------------- tables

    async def create_table(self, table: str) -> None:
        segment = TABLE_PREFIX + table
        try:
            await self._retried(
                lambda: self._segments.create_table(segment, key_length=0, rollover_bytes=ROLLOVER_BYTES)
            )
        except SegmentExistsError:
            return

    async def delete_table(self, table: str, *, must_be_empty: bool = False) -> None:
        segment = TABLE_PREFIX + table

        async def delete() -> None:
            await self._retried(lambda: self._segments.delete_table(segment, must_be_empty=must_be_empty))

        try:
            try:
                await delete()
            except TableNotEmptyError:
                await self._sweep_tombstones(table)
                await delete()
        except NoSuchSegmentError:
            return

    # ---------------------------------------------------------------------------------- rows

    async def get(self, table: str, key: bytes) -> Row | None:
        return (await self.get_many(table, [key]))[0]

    async def get_many(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        segment = TABLE_PREFIX + table
        try:
            entries = await self._retried(lambda: self._segments.table_get(segment, list(keys)))
        except NoSuchSegmentError:
            raise _no_such_table(table) from None
        except AnswerTooLargeError:  # one row always fits
            half = len(keys) // 2
            return [*await self.get_many(table, keys[:half]), *await self.get_many(table, keys[half:])]
        return [_row_of(entry) for entry in entries]

    async def scan(self, table: str, token: bytes, count: int) -> Page:
        while True:
            entries, token = await self._entries(table, token, count)
            rows = [(entry.key, Row(entry.value, entry.version)) for entry in entries if entry.value]
            if rows or not entries:
                return Page(rows, token)

    async def _entries(self, table: str, token: bytes, count: int) -> tuple[list[TableEntry], bytes]:
        segment = TABLE_PREFIX + table
        try:
            return await self._retried(lambda: self._segments.table_entries(segment, token, count))
        except NoSuchSegmentError:
            raise _no_such_table(table) from None

    async def update(self, table: str, writes: Sequence[Write]) -> list[int]:
        assert len({write.key for write in writes}) == len(writes) > 0
        assert all(write.value != b"" for write in writes)
        if self._waiting_count >= WAITING_UPDATES_MAX:
            raise ThrottledError(f"{self._waiting_count} metadata updates are waiting")
        update = _Update(writes, asyncio.get_running_loop().create_future())
        waiting = self._waiting.get(table)
        if waiting is None:
            waiting = self._waiting[table] = deque()
            self._supervisor.spawn(table, self._write_table(table, waiting))
        waiting.append(update)
        self._waiting_count += 1
        self._updates += 1
        return await asyncio.shield(update.done)

    def statistics(self) -> TableStoreStatistics:
        return TableStoreStatistics(
            len(self._waiting), self._waiting_count, self._updates, self._operations, self._split
        )

    # ---------------------------------------------------------------------------------- one table's writer

    async def _write_table(self, table: str, waiting: deque[_Update]) -> None:
        """Send what is waiting, joined as far as possible, until nothing is."""
        try:
            while waiting:
                pause_s = linger_s(self.callers())
                if pause_s:
                    await asyncio.sleep(pause_s)
                group = take_joined(waiting)
                self._waiting_count -= len(group)
                try:
                    await self._send(table, group)
                except asyncio.CancelledError:
                    for update in group:
                        update.done.cancel()
                    raise
                except Exception as error:  # noqa: BLE001 - it belongs to the waiting callers
                    for update in group:
                        _fail(update, error)
        finally:
            del self._waiting[table]
            self._waiting_count -= len(waiting)
            for update in waiting:
                update.done.cancel()

    async def _send(self, table: str, group: list[_Update]) -> None:
        if len(group) == 1:
            _succeed(group[0], await self._send_alone(table, group[0]))
            return
        try:
            versions = await self._send_writes(table, [write for update in group for write in update.writes])
        except (MetadataConflictError, InvalidArgumentError):  # of one update; the rest may succeed
            self._split += 1
            for update in group:
                try:
                    _succeed(update, await self._send_alone(table, update))
                except HeadraceError as error:
                    _fail(update, error)
            return
        start = 0
        for update in group:
            end = start + len(update.writes)
            _succeed(update, versions[start:end])
            start = end

    async def _send_alone(self, table: str, update: _Update) -> list[int]:
        try:
            return await self._send_writes(table, update.writes)
        except MetadataConflictError:
            writes = await self._over_tombstones(table, update.writes)
            if writes is None:
                raise
            return await self._send_writes(table, writes)

    async def _send_writes(self, table: str, writes: Sequence[Write]) -> list[int]:
        segment = TABLE_PREFIX + table
        self._operations += 1
        try:
            if all(write.value is None for write in writes):
                keys = [TableKey(write.key, write.expected) for write in writes]
                await self._retried(lambda: self._segments.table_remove(segment, keys))
                return [NOT_EXISTS] * len(writes)
            entries = [TableEntry(write.key, write.value or b"", write.expected) for write in writes]
            versions = await self._retried(lambda: self._segments.table_update(segment, entries))
        except _CONFLICTS as error:
            raise MetadataConflictError(f"table {table!r}: {error}") from None
        except NoSuchSegmentError:
            raise _no_such_table(table) from None
        tombstones = [
            TableKey(write.key, version)
            for write, version in zip(writes, versions, strict=True)
            if write.value is None
        ]
        if tombstones:
            await self._remove_tombstones(segment, tombstones)
        return versions

    # ---------------------------------------------------------------------------------- tombstones

    async def _over_tombstones(self, table: str, writes: Sequence[Write]) -> list[Write] | None:
        """Return ``writes`` with the versions of the tombstones that stand where nothing may be.

        None if there are none, so that the conflict is a real one.
        """
        absent = [write.key for write in writes if write.expected == ABSENT]
        if not absent:
            return None
        entries = await self._segments.table_get(TABLE_PREFIX + table, absent)
        standing = {
            entry.key: entry.version
            for entry in entries
            if entry is not None and entry.version >= 0 and not entry.value
        }
        if not standing:
            return None
        return [Write(write.key, write.value, standing.get(write.key, write.expected)) for write in writes]

    async def _remove_tombstones(self, segment: str, keys: list[TableKey]) -> None:
        """Remove tombstones. One that stays (a new row, a lost container) is harmless."""
        for key in keys:
            try:
                await self._segments.table_remove(segment, [key])
            except HeadraceError:
                continue

    async def _sweep_tombstones(self, table: str) -> None:
        segment, token = TABLE_PREFIX + table, b""
        while True:
            entries, token = await self._segments.table_entries(segment, token, 1000)
            if not entries:
                return
            dead = [TableKey(entry.key, entry.version) for entry in entries if not entry.value]
            await self._remove_tombstones(segment, dead)
            if len(dead) < len(entries):
                return  # a living row: the table is not empty

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except (OwnershipError, OverloadError) as error:
            if not _did_not_happen(error):
                raise
        return await retry(_RETRY, call, entropy=self._entropy, retryable=_did_not_happen)


def linger_s(callers: int) -> float:
    """Return how long an operation waits for more updates while so many calls are at work.

    Nothing for a few: each waits for its own operations, one after the other. A busy server has taken only
    some of the calls that wait for it, so a little from a few more on; all of it once many are at work.
    """
    if callers < LINGER_CALLERS_MIN:
        return 0.0
    return min(1 + callers // LINGER_CALLERS, LINGER_MS_MAX) / 1000


def take_joined(waiting: deque[_Update]) -> list[_Update]:
    """Take as many updates from the front as one segment operation can carry.

    All put or all delete, no row twice, bounded in count and bytes. An update that does both goes alone.
    """
    first = waiting.popleft()
    group, count, size_bytes = [first], len(first.writes), first.size_bytes
    if (first.puts and first.deletes) or not waiting:
        return group
    keys = {write.key for write in first.writes}
    while waiting:
        update = waiting[0]
        count += len(update.writes)
        size_bytes += update.size_bytes
        if update.puts != first.puts or update.deletes != first.deletes:
            break
        if count > JOINED_WRITES_MAX or size_bytes > JOINED_BYTES_MAX:
            break
        if any(write.key in keys for write in update.writes):
            break
        keys.update(write.key for write in update.writes)
        group.append(waiting.popleft())
    return group


def _did_not_happen(error: Exception) -> bool:
    return isinstance(error, (OwnershipError, OverloadError)) and not isinstance(error, MetadataConflictError)


def _row_of(entry: TableEntry | None) -> Row | None:
    if entry is None or entry.version == NOT_EXISTS or not entry.value:
        return None
    return Row(entry.value, entry.version)


def _no_such_table(table: str) -> NoSuchTableError:
    return NoSuchTableError(f"table {table!r} does not exist")


def _succeed(update: _Update, versions: list[int]) -> None:
    if not update.done.done():
        update.done.set_result(versions)


def _fail(update: _Update, error: Exception) -> None:
    if not update.done.done():
        update.done.set_exception(error)
        update.done.exception()  # taken: its caller may have left, and then nobody looks
