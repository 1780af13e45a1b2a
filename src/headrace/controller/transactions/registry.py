"""All transactions that are not finished, with the rows they were read from.

A controller that has the store for itself keeps them in memory and reads them once, when it starts. If
others share the store, rows are read again for every decision.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Row, Write
from headrace.controller.store.layout import SHARDS, txn_key, txns_table
from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.store.rows.txn_row import TxnRow, TxnState, decode_txn, encode_txn
from headrace.controller.transactions.txn_ids import epoch_of_txn
from headrace.errors import MetadataConflictError, UnknownOutcomeError

_UID_BYTES: Final = 16
_SCAN_ROWS: Final = 1000


class Txn:
    """One transaction: who it is and its row at ``version``.

    ``segments`` are those it writes to, as its creator saw them; empty for one that was read from the store.
    """

    __slots__ = ("row", "segments", "txn_id", "uid", "version")

    def __init__(self, uid: bytes, txn_id: int, row: TxnRow, version: int) -> None:
        self.uid = uid
        self.txn_id = txn_id
        self.row = row
        self.version = version
        self.segments: tuple[SegmentRecord, ...] = ()

    @property
    def key(self) -> bytes:
        return txn_key(self.uid, self.txn_id)


class Registry:
    """Reads and writes transaction rows under their versions. Used on the controller's loop."""

    def __init__(self, store: MetadataStore, *, shared: bool) -> None:
        self._store = store
        self._shared = shared
        self._streams: dict[bytes, dict[int, Txn]] = {}
        self._removal_waiters: dict[bytes, list[asyncio.Future[None]]] = {}

    async def load(self) -> list[Txn]:
        """Read every transaction of every stream. To be called once, before anything else."""
        found: list[Txn] = []
        for shard in range(SHARDS):
            async for txn in self._scan(txns_table(bytes([shard]))):
                self._learn(txn)
                found.append(txn)
        return found

    async def find(self, uid: bytes, txn_id: int) -> Txn | None:
        """Return the transaction if it is not finished."""
        if not self._shared:
            return self._streams.get(uid, {}).get(txn_id)
        return self._take(uid, txn_id, await self._store.get(txns_table(uid), txn_key(uid, txn_id)))

    async def find_many(self, uid: bytes, txn_ids: Sequence[int]) -> list[Txn | None]:
        """Return each transaction in the order of ``txn_ids``; None for one that is finished."""
        if not self._shared:
            known = self._streams.get(uid, {})
            return [known.get(txn_id) for txn_id in txn_ids]
        rows = await self._store.get_many(txns_table(uid), [txn_key(uid, txn_id) for txn_id in txn_ids])
        return [self._take(uid, txn_id, row) for txn_id, row in zip(txn_ids, rows, strict=True)]

    async def all_of(self, uid: bytes) -> list[Txn]:
        """Return the unfinished transactions of one stream."""
        if self._shared:
            table = txns_table(uid)
            self._streams.pop(uid, None)
            async for txn in self._scan(table):
                if txn.uid == uid:
                    self._learn(txn)
        return list(self._streams.get(uid, {}).values())

    def known_committing(self, uid: bytes) -> bool:
        """Whether this controller knows of a decided transaction that waits to be merged."""
        return any(txn.row.state is TxnState.COMMITTING for txn in self._streams.get(uid, {}).values())

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
            return await self._reread(txn) and txn.version != before and txn.row == row
        self._adopt(txn, row, version)
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
            self._adopt(txn, row, version)
        return True

    async def remove(self, uid: bytes, txn_ids: Iterable[int]) -> None:
        """Forget finished transactions; their outcomes are recorded."""
        ids = list(txn_ids)
        await self._store.update(txns_table(uid), [Write(txn_key(uid, txn_id), None) for txn_id in ids])
        for txn_id in ids:
            self._drop(uid, txn_id)
        for waiter in self._removal_waiters.pop(uid, []):
            if not waiter.done():
                waiter.set_result(None)

    async def wait_removed(self, uid: bytes, txn_ids: Iterable[int]) -> None:
        """Wait until none of these transactions is unfinished any more."""
        waiting = set(txn_ids)
        while True:
            waiting = {txn_id for txn_id in waiting if await self.find(uid, txn_id) is not None}
            if not waiting:
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._removal_waiters.setdefault(uid, []).append(future)
            await asyncio.wait([future], timeout=0.5 if self._shared else None)

    def statistics(self) -> dict[str, int]:
        """Return how many transactions are known in each state."""
        counts = Counter(txn.row.state for txns in self._streams.values() for txn in txns.values())
        return {state.name: counts[state] for state in TxnState}

    # ---------------------------------------------------------------------------------- inside

    async def _scan(self, table: str) -> AsyncIterator[Txn]:
        token = b""
        while (page := await self._store.scan(table, token, _SCAN_ROWS)).rows:
            for key, row in page.rows:
                txn_id = int.from_bytes(key[_UID_BYTES:], "big")
                yield Txn(key[:_UID_BYTES], txn_id, decode_txn(row.value), row.version)
            token = page.token

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
        txn = Txn(uid, txn_id, decode_txn(row.value), row.version)
        self._learn(txn)
        return txn

    def _adopt(self, txn: Txn, row: TxnRow, version: int) -> None:
        txn.row = row
        txn.version = version
        self._learn(txn)

    def _learn(self, txn: Txn) -> None:
        known = self._streams.setdefault(txn.uid, {})
        present = known.get(txn.txn_id)
        if present is None or present.version <= txn.version:
            known[txn.txn_id] = txn

    def _drop(self, uid: bytes, txn_id: int) -> None:
        known = self._streams.get(uid)
        if known is not None:
            known.pop(txn_id, None)
            if not known:
                del self._streams[uid]
