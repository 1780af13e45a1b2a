"""Takes over the unfinished transactions of buckets that were just claimed.

Open ones get a full lease from now: their rows say how long it is, not when it began. Decided ones are
carried out. All of this happens again when another controller has gone, which may have begun, extended or
decided one and not have lived to post that to the owner; and now and then in any case, for those whose events
were dropped. What is watched already keeps its deadline then.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from headrace.controller.buckets.shared_look import SharedLook, until_due
from headrace.controller.context import ControllerContext
from headrace.controller.transactions.registry import Txn
from headrace.controller.workflows.transactions import Transactions
from headrace.errors import OverloadError, OwnershipError, UnknownOutcomeError
from headrace.runtime.retry import RetryPolicy, retry

_PATIENT: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1000)
_TRANSIENT: Final = (OwnershipError, OverloadError, UnknownOutcomeError)


class TxnAdoption:
    """A ``BucketWork``: one look at all transactions per claim; again when it is due."""

    name = "transactions"

    def __init__(self, context: ControllerContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions
        self._look = SharedLook(self._adopt)
        self._done: set[int] = set()

    def is_done(self, buckets: Iterable[int]) -> bool:
        """Whether all transactions of ``buckets`` are armed, or being merged or aborted."""
        return self._done.issuperset(buckets)

    async def run(self, bucket: int) -> None:
        while True:
            departure = self._context.buckets.departure
            await self._look.run(bucket)
            self._done.add(bucket)
            try:
                await until_due(departure)  # until then, each controller posts what it begins and decides
            finally:
                self._done.discard(bucket)

    async def _adopt(self, buckets: frozenset[int]) -> None:
        """Go on with every transaction of ``buckets``, one after the other."""
        async for txn in self._context.registry.scan_all(
            lambda row: self._context.buckets.bucket_of(row.scope, row.stream) in buckets
        ):
            await retry(
                _PATIENT, partial(self._adopt_one, txn), entropy=self._context.entropy, retryable=_TRANSIENT
            )

    async def _adopt_one(self, txn: Txn) -> None:
        stream = await self._context.directory.find(txn.row.scope, txn.row.stream)
        if stream is None or stream.uid != txn.uid:
            await self._context.registry.remove(txn.uid, [txn.txn_id])
        else:
            await self._transactions.go_on(stream, txn)
