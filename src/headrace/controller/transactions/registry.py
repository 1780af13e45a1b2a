"""All transactions that are not finished, with the rows they were read from.

Any number of controllers may change them. So what a controller remembers is good for two things: to make a
change that is written under the version it was computed from, and to say that a transaction is finished,
since none is ever reopened. Everything else is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Row, Write
from headrace.controller.store.layout import SHARDS, txn_key, txns_table
from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.store.rows.txn_row import TxnRow, TxnState, decode_txn, encode_txn
from headrace.controller.transactions.txn_ids import epoch_of_txn
from headrace.errors import MetadataConflictError, UnknownOutcomeError
from headrace.runtime.loop_budget import LoopBudget

_UID_BYTES: Final = 16
STRANGERS_MAX: Final = 10_000
"""Transactions of other owners that a controller remembers."""
_SCAN_ROWS: Final = 1000
_ROWS_READ_AT_ONCE: Final = 1000
"""Rows of one read: callers name more transactions than one call of a table answers for."""
_REMOVED_ELSEWHERE_S: Final = 0.5
"""How often a transaction that this controller does not seem to finish is looked at."""


class Txn:
    """One transaction: its names and its row at ``version``.

    ``watched`` is the newest version that this controller looks after: it wrote that row, or armed a timeout
    for it. What it merely read may be looked after by no controller. ``segments`` are those the transaction
    writes to, as its creator saw them; empty for one that was read from the store.
    """

    __slots__ = ("row", "segments", "txn_id", "uid", "version", "watched")

    def __init__(self, uid: bytes, txn_id: int, row: TxnRow, version: int) -> None:
        self.uid = uid
        self.txn_id = txn_id
        self.row = row
        self.version = version
        self.watched = ABSENT
        self.segments: tuple[SegmentRecord, ...] = ()

    @property
    def key(self) -> bytes:
        return txn_key(self.uid, self.txn_id)


class Registry:
    """Reads and writes transaction rows under their versions. Used on the controller's loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._streams: dict[bytes, dict[int, Txn]] = {}
        self._removal_waiters: dict[bytes, dict[asyncio.Future[None], None]] = {}
        self.is_owned: Callable[[str, str], bool] = lambda scope, stream: True  # noqa: ARG005
        """Whether this controller finishes the transactions of a stream; the context sets it."""
        self._strangers: OrderedDict[tuple[bytes, int], None] = OrderedDict()
        """Known ones that another controller finishes, unheard of here: those used last."""
        self._evicted = 0

    async def scan_all(self, is_wanted: Callable[[TxnRow], bool]) -> AsyncIterator[Txn]:
        """Read every transaction of every stream, and yield those that are wanted."""
        for shard in range(SHARDS):
            async for txn in self._scan(bytes([shard]), is_wanted=is_wanted):
                yield txn

    async def find(self, uid: bytes, txn_id: int) -> Txn | None:
        """Read the transaction; None if it is finished."""
        row = await self._store.get(txns_table(uid), txn_key(uid, txn_id))
        return self._take(uid, txn_id, row)

    async def find_many(self, uid: bytes, txn_ids: Sequence[int]) -> list[Txn | None]:
        """Read transactions, in the order of ``txn_ids``; None for one that is finished."""
        found: list[Txn | None] = []
        for start in range(0, len(txn_ids), _ROWS_READ_AT_ONCE):
            some = txn_ids[start : start + _ROWS_READ_AT_ONCE]
            rows = await self._store.get_many(txns_table(uid), [txn_key(uid, txn_id) for txn_id in some])
            found += [self._take(uid, txn_id, row) for txn_id, row in zip(some, rows, strict=True)]
        return found

    async def find_decided(self, uid: bytes, txn_ids: Sequence[int]) -> list[Txn | None]:
        """Return transactions of a commit batch as :meth:`find_many` does.

        A row that says COMMITTING never changes: those that are known are not read again.
        """
        known = self._streams.get(uid, {})
        found = [known.get(txn_id) for txn_id in txn_ids]
        if all(txn is not None and txn.row.state is TxnState.COMMITTING for txn in found):
            return found
        return await self.find_many(uid, txn_ids)

    async def find_to_write(self, uid: bytes, txn_id: int) -> Txn | None:
        """Return the transaction for a change that is written under its version.

        One that was open when it was seen last is not read again: if it is not as it was, ``write`` fails,
        and the next look finds what it read then.
        """
        known = self._streams.get(uid, {}).get(txn_id)
        if known is not None and known.row.state is TxnState.OPEN:
            return known
        return await self.find(uid, txn_id)

    def knows(self, uid: bytes, txn_id: int) -> bool:
        """Whether the stream had this transaction when it was read last."""
        return txn_id in self._streams.get(uid, {})

    async def all_of(self, uid: bytes) -> list[Txn]:
        """Read the unfinished transactions of one stream."""
        before = list(self._streams.get(uid, {}))
        found = {txn.txn_id: txn async for txn in self._scan(uid, of_stream=uid)}
        for txn_id in before:
            if txn_id not in found:
                self._drop(uid, txn_id)  # a row that is there throughout a listing is seen
        return list(found.values())

    def knows_committing(self, uid: bytes, beside: Collection[int] = ()) -> bool:
        """Whether this controller knows a decided transaction, ``beside`` these, that waits to be merged."""
        known = self._streams.get(uid, {})
        return any(txn.row.state is TxnState.COMMITTING and key not in beside for key, txn in known.items())

    async def next_batch(self, uid: bytes, count_max: int) -> list[Txn]:
        """Return the transactions to merge next: of the oldest epoch, in the order of their decisions."""
        decided = [txn for txn in await self.all_of(uid) if txn.row.state is TxnState.COMMITTING]
        if not decided:
            return []
        epoch = min(epoch_of_txn(txn.txn_id) for txn in decided)
        chosen = [txn for txn in decided if epoch_of_txn(txn.txn_id) == epoch]
        chosen.sort(key=lambda txn: txn.version)
        return chosen[:count_max]

    async def add(self, uid: bytes, txn_id: int, row: TxnRow) -> Txn:
        """Write the row of a new transaction."""
        txn = Txn(uid, txn_id, row, ABSENT)
        if not await self.write(txn, row):
            raise MetadataConflictError(f"transaction {txn_id:032x} exists already")
        return txn

    async def write(self, txn: Txn, row: TxnRow, expected: int | None = None) -> bool:
        """Write ``row`` over the version in ``txn`` (or an ``expected`` one); return False if it has changed.

        ``row`` must have been computed from ``txn.row`` without waiting in between, or from the expected
        version. Afterwards ``txn`` holds what is in the store, unless the transaction is finished.
        """
        before = txn.version if expected is None else expected
        write = Write(txn.key, encode_txn(row), before)
        try:
            (version,) = await self._store.update(txns_table(txn.uid), [write])
        except MetadataConflictError:
            await self._reread(txn)
            return False
        except UnknownOutcomeError:
            if not (await self._reread(txn) and txn.version != before and txn.row == row):
                return False
            version = txn.version
        self._wrote(txn, row, version)
        return True

    async def write_in_order(self, txns: Sequence[Txn], rows: Sequence[TxnRow]) -> bool:
        """Write all rows at once, versioned in their order; return False (and reread) if one has changed."""
        writes = [Write(txn.key, encode_txn(row), txn.version) for txn, row in zip(txns, rows, strict=True)]
        try:
            versions = await self._store.update(txns_table(txns[0].uid), writes)
        except (MetadataConflictError, UnknownOutcomeError):
            for txn in txns:
                await self._reread(txn)
            return False
        for txn, row, version in zip(txns, rows, versions, strict=True):
            self._wrote(txn, row, version)
        return True

    async def remove(self, uid: bytes, txn_ids: Iterable[int]) -> None:
        """Forget finished transactions; their outcomes are recorded."""
        ids = list(txn_ids)
        await self._store.update(txns_table(uid), [Write(txn_key(uid, txn_id), None) for txn_id in ids])
        for txn_id in ids:
            self._drop(uid, txn_id)
        for waiter in self._removal_waiters.pop(uid, {}):
            if not waiter.done():
                waiter.set_result(None)

    async def wait_removed(self, uid: bytes, txn_ids: Iterable[int]) -> None:
        """Wait until none of these transactions, which were just read, is unfinished any more."""
        waiting = set(txn_ids)
        evicted = self._evicted
        while waiting:
            if evicted != self._evicted:  # what is not known need not be removed
                evicted = self._evicted
                found = await self.find_many(uid, list(waiting))
                waiting = {txn.txn_id for txn in found if txn is not None}
            else:
                waiting &= self._streams.get(uid, {}).keys()
            if not waiting:
                return
            if not await self._something_is_removed(uid) and await self.find(uid, min(waiting)) is None:
                await self.find_many(uid, list(waiting))  # another controller is at work

    def trim(self) -> None:
        """Buckets have been released: remember of their transactions no more than of other strangers."""
        for txns in list(self._streams.values()):
            for txn in list(txns.values()):
                self._place(txn)

    def statistics(self) -> dict[str, int]:
        """Return how many transactions are known in each state."""
        counts = Counter(txn.row.state for txns in self._streams.values() for txn in txns.values())
        return {state.name: counts[state] for state in TxnState}

    # ---------------------------------------------------------------------------------- inside

    async def _something_is_removed(self, uid: bytes) -> bool:
        """Return whether this controller removes transactions of the stream soon."""
        removed = asyncio.get_running_loop().create_future()
        waiters = self._removal_waiters.setdefault(uid, {})
        waiters[removed] = None
        try:
            await asyncio.wait([removed], timeout=_REMOVED_ELSEWHERE_S)
        finally:
            waiters.pop(removed, None)
            if not waiters and self._removal_waiters.get(uid) is waiters:
                del self._removal_waiters[uid]
        return removed.done()

    async def _scan(
        self, shard: bytes, of_stream: bytes = b"", is_wanted: Callable[[TxnRow], bool] | None = None
    ) -> AsyncIterator[Txn]:
        """Read the table that ``shard`` leads to: all of it, or what belongs to one stream."""
        token, budget = b"", LoopBudget(_SCAN_ROWS)
        while (page := await self._store.scan(txns_table(shard), token, _SCAN_ROWS)).rows:
            for key, row in page.rows:
                if key.startswith(of_stream) and (is_wanted is None or is_wanted(decode_txn(row.value))):
                    yield self._learn(key[:_UID_BYTES], int.from_bytes(key[_UID_BYTES:], "big"), row)
            token = page.token
            await budget.spend(len(page.rows))  # reading a table of this process yields nowhere

    def _wrote(self, txn: Txn, row: TxnRow, version: int) -> None:
        self._adopt(txn, row, version)
        txn.watched = max(txn.watched, version)

    async def _reread(self, txn: Txn) -> bool:
        """Take over what is in the store; return whether the transaction still has a row."""
        found = await self._store.get(txns_table(txn.uid), txn.key)
        if found is None:
            self._drop(txn.uid, txn.txn_id)
            return False
        self._adopt(txn, decode_txn(found.value), found.version)
        return True

    def _take(self, uid: bytes, txn_id: int, row: Row | None) -> Txn | None:
        """Return the transaction as it was just read; None: it is finished."""
        if row is None:
            self._drop(uid, txn_id)
            return None
        return self._learn(uid, txn_id, row)

    def _learn(self, uid: bytes, txn_id: int, row: Row) -> Txn:
        """Return the one object of a transaction, which holds the newest row that was seen."""
        known = self._streams.setdefault(uid, {})
        txn = known.get(txn_id)
        if txn is None:
            txn = known[txn_id] = Txn(uid, txn_id, decode_txn(row.value), row.version)
        elif row.version > txn.version:
            txn.row, txn.version = decode_txn(row.value), row.version
        self._place(txn)
        return txn

    def _adopt(self, txn: Txn, row: TxnRow, version: int) -> None:
        """Take over what was just read or written for ``txn``."""
        known = self._streams.setdefault(txn.uid, {}).setdefault(txn.txn_id, txn)
        for each in {txn, known}:
            if version > each.version:
                each.row, each.version = row, version
        self._place(known)

    def _place(self, txn: Txn) -> None:
        """Bound what is known of transactions that nothing here removes."""
        key = (txn.uid, txn.txn_id)
        if self.is_owned(txn.row.scope, txn.row.stream):
            if self._strangers:
                self._strangers.pop(key, None)
            return
        self._strangers[key] = None
        self._strangers.move_to_end(key)
        while len(self._strangers) > STRANGERS_MAX:
            self._drop(*next(iter(self._strangers)))
            self._evicted += 1

    def _drop(self, uid: bytes, txn_id: int) -> None:
        self._strangers.pop((uid, txn_id), None)
        known = self._streams.get(uid)
        if known is not None:
            known.pop(txn_id, None)
            if not known:
                del self._streams[uid]
