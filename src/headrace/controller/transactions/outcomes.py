"""How finished transactions ended, for a number of days after their end.

Outcomes are bits in rows of 1024 ids. Rows live in one table per day, and a table is deleted as a whole when
so many days after it are over; old rows are not searched one by one. Marks for one row that are made at the
same time are written together.

Any number of controllers may write them. No bit is ever taken back, so what a remembered row says of a
transaction is true; what it does not say is read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import (
    COUNTERS,
    DAY_MS,
    finished_day_key,
    finished_key,
    finished_table,
    is_finished_day_key,
)
from headrace.controller.store.rows.number_row import decode_counter, encode_counter
from headrace.controller.store.rows.outcome_row import (
    BLOCK_BITS,
    BLOCK_IDS,
    OutcomeRow,
    decode_outcomes,
    encode_outcomes,
)
from headrace.errors import MetadataConflictError, NoSuchTableError, UnknownOutcomeError
from headrace.runtime.clock import Clock

CACHED_ROWS_MAX: Final = 4096
_ATTEMPTS_MAX: Final = 100
_SCAN_ROWS: Final = 1000


@dataclass(slots=True)
class _Cached:
    row: OutcomeRow
    version: int


class Outcomes:
    """Written once per transaction, read for ``kept_ms``. Used on the controller's loop."""

    def __init__(self, store: MetadataStore, clock: Clock, *, kept_ms: int = DAY_MS) -> None:
        self._store = store
        self._clock = clock
        self._days_kept = -(-kept_ms // DAY_MS)
        self._cache: OrderedDict[tuple[int, bytes], _Cached] = OrderedDict()
        self._marks: dict[bytes, list[tuple[int, bool]]] = {}
        self._writers: dict[bytes, asyncio.Future[None]] = {}
        self._tables: set[int] = set()
        self._waiters: dict[tuple[bytes, int, bool], list[asyncio.Future[None]]] = {}
        self._merged: set[tuple[bytes, int]] = set()

    async def record(self, uid: bytes, txn_ids: Iterable[int], *, committed: bool) -> None:
        """Remember durably how these transactions of one stream ended. Repeating is harmless."""
        touched: list[bytes] = []
        ended = list(txn_ids)
        for txn_id in ended:
            key = finished_key(uid, txn_id >> BLOCK_BITS)
            self._marks.setdefault(key, []).append((txn_id & (BLOCK_IDS - 1), committed))
            if key not in touched:
                touched.append(key)
        for key in touched:
            await self._flush(key)
        self._tell(uid, ended, are_recorded=True)

    @contextmanager
    def merged(self, uid: bytes, txn_ids: Iterable[int]) -> Iterator[None]:
        """These are in their stream: who waits need not wait until that is recorded, which follows inside.

        Should it not be recorded, they are merged all the same; a controller that works for the stream next
        finds them merged, and records it. Until then their rows say that they are committing.
        """
        keys = {(uid, txn_id) for txn_id in txn_ids}
        self._merged |= keys
        self._tell(uid, [txn_id for _, txn_id in keys], are_recorded=False)
        try:
            yield
        finally:
            self._merged -= keys

    def is_merged(self, uid: bytes, txn_id: int) -> bool:
        """Whether a transaction is in its stream, and this controller is about to record it."""
        return (uid, txn_id) in self._merged

    async def wait_recorded(
        self, uid: bytes, txn_id: int, timeout_s: float, *, or_merged: bool = False
    ) -> None:
        """Return when this controller has recorded how the transaction ended, or after ``timeout_s``.

        ``or_merged``: or sooner, when its events are in the stream.
        """
        if self.known(uid, txn_id) is not None or (or_merged and self.is_merged(uid, txn_id)):
            return
        key, loop = (uid, txn_id, or_merged), asyncio.get_running_loop()
        recorded = loop.create_future()
        waiters = self._waiters.setdefault(key, [])
        waiters.append(recorded)
        timer = loop.call_later(timeout_s, _wake, (recorded,))
        try:
            await recorded
        finally:
            timer.cancel()
            waiters.remove(recorded)
            if not waiters and self._waiters.get(key) is waiters:
                del self._waiters[key]

    def _tell(self, uid: bytes, txn_ids: Iterable[int], *, are_recorded: bool) -> None:
        if self._waiters:
            for txn_id in txn_ids:
                _wake(self._waiters.get((uid, txn_id, True), ()))
                if are_recorded:
                    _wake(self._waiters.get((uid, txn_id, False), ()))

    def known(self, uid: bytes, txn_id: int) -> bool | None:
        """Return what ``find`` would, as far as this controller knows without looking."""
        key = finished_key(uid, txn_id >> BLOCK_BITS)
        for day in self._days():
            cached = self._cache.get((day, key))
            found = None if cached is None else cached.row.find(txn_id & (BLOCK_IDS - 1))
            if found is not None:
                return found
        return None

    async def find(self, uid: bytes, txn_id: int) -> bool | None:
        """Return True for committed, False for aborted, None if it is not known to have ended."""
        return (await self.find_many(uid, [txn_id])).get(txn_id)

    async def find_many(self, uid: bytes, txn_ids: Iterable[int]) -> dict[int, bool]:
        """Return True for committed, False for aborted; those not known to have ended are left out."""
        blocks: dict[bytes, list[OutcomeRow]] = {}
        ended: dict[int, bool] = {}
        for txn_id in txn_ids:
            found = self.known(uid, txn_id)
            if found is None:
                key = finished_key(uid, txn_id >> BLOCK_BITS)
                if key not in blocks:
                    blocks[key] = [(await self._read(day, key)).row for day in self._days()]
                answers = (row.find(txn_id & (BLOCK_IDS - 1)) for row in blocks[key])
                found = next((answer for answer in answers if answer is not None), None)
            if found is not None:
                ended[txn_id] = found
        return ended

    async def newest(self, uid: bytes, count: int) -> list[tuple[int, bool]]:
        """Return up to ``count`` (id, committed) of one stream, those begun last first.

        Looks at every row of all days: for people, not for programs.
        """
        blocks: dict[int, OutcomeRow] = {}
        for day in reversed(self._days()):
            token = b""
            while rows := await self._scan(day, token):
                for key, value in rows[0]:
                    if key.startswith(uid):
                        block = int.from_bytes(key[len(uid) :], "big")
                        row, old = decode_outcomes(value), blocks.get(block, OutcomeRow())
                        blocks[block] = OutcomeRow(row.committed | old.committed, row.aborted | old.aborted)
                token = rows[1]
        found: list[tuple[int, bool]] = []
        for block in sorted(blocks, reverse=True):
            for offset, committed in blocks[block].newest():
                if len(found) >= count:
                    return found
                found.append((block << BLOCK_BITS | offset, committed))
        return found

    async def sweep(self) -> None:
        """Delete the tables of days whose outcomes may not be asked for any more.

        The store does not list its tables; a row for each says which there are, however old.
        """
        oldest = self._days()[-1]
        for key, day in await self._listed_days():
            if day < oldest:
                await self._store.delete_table(finished_table(day))
                await self._store.update(COUNTERS, [Write(key, None)])
                self._tables.discard(day)
        for cached in [cached for cached in self._cache if cached[0] < oldest]:
            del self._cache[cached]

    # ---------------------------------------------------------------------------------- writing

    async def _flush(self, key: bytes) -> None:
        """Write the marks of one row; a caller during a write makes, or waits for, the next one."""
        while key in self._writers:
            await asyncio.shield(self._writers[key])
        marks = self._marks.pop(key, None)
        if marks is None:
            return  # another caller wrote ours together with its own
        done = self._writers[key] = asyncio.get_running_loop().create_future()
        try:
            await self._write(key, marks)
        except BaseException:
            self._marks[key] = marks + self._marks.get(key, [])
            raise
        finally:
            del self._writers[key]
            done.set_result(None)

    async def _write(self, key: bytes, marks: list[tuple[int, bool]]) -> None:
        committed = aborted = 0
        for offset, is_commit in marks:
            committed |= int(is_commit) << offset
            aborted |= int(not is_commit) << offset
        for _ in range(_ATTEMPTS_MAX):
            day = self._today()
            await self._create_table(day)
            present = self._cache.get((day, key)) or await self._read(day, key)
            row = OutcomeRow(present.row.committed | committed, present.row.aborted | aborted)
            if row == present.row:
                return
            try:
                (version,) = await self._store.update(
                    finished_table(day), [Write(key, encode_outcomes(row), present.version)]
                )
            except (MetadataConflictError, UnknownOutcomeError):
                self._cache.pop((day, key), None)
                continue
            except NoSuchTableError:
                self._tables.discard(day)
                continue
            self._remember(day, key, _Cached(row, version))
            return
        raise MetadataConflictError("outcomes of transactions are written by too many callers at once")

    async def _create_table(self, day: int) -> None:
        if day not in self._tables:
            await self._store.update(COUNTERS, [Write(finished_day_key(day), encode_counter(day))])
            await self._store.create_table(finished_table(day))
            self._tables.add(day)
            await self.sweep()

    # ---------------------------------------------------------------------------------- reading

    async def _listed_days(self) -> list[tuple[bytes, int]]:
        """Return (key of its row, day) of every table."""
        days: list[tuple[bytes, int]] = []
        token = b""
        while (page := await self._store.scan(COUNTERS, token, _SCAN_ROWS)).rows:
            days += [(key, decode_counter(row.value)) for key, row in page.rows if is_finished_day_key(key)]
            token = page.token
        return days

    async def _read(self, day: int, key: bytes) -> _Cached:
        try:
            found = await self._store.get(finished_table(day), key)
        except NoSuchTableError:
            return _Cached(OutcomeRow(), ABSENT)
        if found is None:
            return self._remember(day, key, _Cached(OutcomeRow(), ABSENT))
        return self._remember(day, key, _Cached(decode_outcomes(found.value), found.version))

    def _remember(self, day: int, key: bytes, cached: _Cached) -> _Cached:
        present = self._cache.get((day, key))
        if present is not None and present.version > cached.version:
            return present  # written while it was being read
        self._cache[day, key] = cached
        self._cache.move_to_end((day, key))
        while len(self._cache) > CACHED_ROWS_MAX:
            self._cache.popitem(last=False)
        return cached

    async def _scan(self, day: int, token: bytes) -> tuple[list[tuple[bytes, bytes]], bytes] | None:
        try:
            page = await self._store.scan(finished_table(day), token, _SCAN_ROWS)
        except NoSuchTableError:
            return None
        if not page.rows:
            return None
        return [(key, row.value) for key, row in page.rows], page.token

    def _days(self) -> range:
        """Return the days that are remembered, today first."""
        today = self._today()
        return range(today, today - self._days_kept - 1, -1)

    def _today(self) -> int:
        return self._clock.now_ms() // DAY_MS


def _wake(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
