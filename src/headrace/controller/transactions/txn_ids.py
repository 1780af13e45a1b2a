"""Transaction ids: the epoch in the upper half, a unique counter in the lower one.

Counters are taken from the store in blocks; a controller that dies leaves the rest of its block unused.
They stay below 2**63, because one client extends the sign of the lower half into the upper one.

Source: protocol, "Ids and segment names" of transactions.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import COUNTERS, TXN_COUNTER_KEY
from headrace.controller.store.rows.number_row import decode_counter, encode_counter
from headrace.errors import MetadataConflictError, UnknownOutcomeError
from headrace.model.names import transaction_segment_name
from headrace.model.segment_id import make_segment_id

BLOCK: Final = 10_240
_ATTEMPTS_MAX: Final = 100
_EPOCH_SHIFT: Final = 96


class TxnIds:
    """Hands out ids. Used on the controller's loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._refill: asyncio.Future[None] | None = None

    async def next(self, epoch: int) -> int:
        """Return an id that no transaction of any stream ever had."""
        while self._next >= self._end:
            await self._reserve()
        counter = self._next
        self._next += 1
        assert counter < 1 << 63
        return epoch << _EPOCH_SHIFT | counter

    async def _reserve(self) -> None:
        """Take the next block; callers that come meanwhile wait for the same one."""
        if self._refill is not None:
            await asyncio.shield(self._refill)
            return
        self._refill = asyncio.get_running_loop().create_future()
        try:
            self._next = await self._take_block()
            self._end = self._next + BLOCK
        finally:
            self._refill.set_result(None)
            self._refill = None

    async def _take_block(self) -> int:
        for _ in range(_ATTEMPTS_MAX):
            row = await self._store.get(COUNTERS, TXN_COUNTER_KEY)
            first, version = (0, ABSENT) if row is None else (decode_counter(row.value), row.version)
            try:
                value = encode_counter(first + BLOCK)
                await self._store.update(COUNTERS, [Write(TXN_COUNTER_KEY, value, version)])
            except (MetadataConflictError, UnknownOutcomeError):
                continue  # a block is left unused if the outcome of its write is unknown
            return first
        raise MetadataConflictError("too many controllers take transaction ids at once")


def epoch_of_txn(txn_id: int) -> int:
    """Return the epoch whose segments the transaction writes to."""
    return txn_id >> _EPOCH_SHIFT


def shadow_segment(segment: str, txn_id: int) -> str:
    """Return the name of the segment that holds what the transaction writes to ``segment``."""
    return transaction_segment_name(segment, txn_id)


def generalised_id(number: int, txn_id: int) -> int:
    """Return the id under which a transaction knows the segment with ``number``, whatever epoch created
    it.
    """
    return make_segment_id(number, epoch_of_txn(txn_id))
