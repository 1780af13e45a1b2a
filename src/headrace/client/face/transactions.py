"""Calls about transactions by their ids, for those who did not begin them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.control.transactions import BatchOutcome, SinkWatermark, TransactionStatus
from headrace.client.face.core import ClientCore
from headrace.client.scoped_name import named


class TransactionFace(ClientCore):
    """Transactions by id."""

    @named
    async def transaction_status(self, scope: str, stream: str, txn_id: int) -> TransactionStatus:
        """Return the state of a transaction; UNKNOWN if it does not exist (any more)."""
        return await self.transactions.status(scope, stream, txn_id)

    @named
    async def commit_transaction(self, scope: str, stream: str, txn_id: int) -> None:
        """Decide that an open transaction becomes visible. Raises TransactionStateError."""
        await self.transactions.commit(scope, stream, txn_id)

    @named
    async def abort_transaction(self, scope: str, stream: str, txn_id: int) -> None:
        """Drop an open transaction. Raises TransactionStateError."""
        await self.transactions.abort(scope, stream, txn_id)

    @named
    async def completed_transactions(self, scope: str, stream: str) -> list[tuple[int, TransactionStatus]]:
        """Return transactions that ended recently, with COMMITTED or ABORTED."""
        return await self.transactions.completed(scope, stream)

    @named
    async def commit_batch(
        self,
        scope: str,
        stream: str,
        *,
        sink: str,
        query: str,
        batch: int,
        txn_ids: Sequence[int],
        takeover: bool = False,
        wait_until_visible: bool = False,
    ) -> BatchOutcome:
        """Commit all transactions of a batch or none, once; see :meth:`Transactions.commit_batch`."""
        return await self.transactions.commit_batch(
            scope,
            stream,
            sink=sink,
            query=query,
            batch=batch,
            txn_ids=txn_ids,
            takeover=takeover,
            wait_until_visible=wait_until_visible,
        )

    @named
    async def abort_batch(self, scope: str, stream: str, *, sink: str, query: str, batch: int) -> int:
        """Abort the open transactions of a batch; return how many."""
        return await self.transactions.abort_batch(scope, stream, sink=sink, query=query, batch=batch)

    @named
    async def sink_watermark(self, scope: str, stream: str, sink: str) -> SinkWatermark | None:
        """Return how far a sink has come, or None if it never committed or was forgotten."""
        return await self.transactions.sink_watermark(scope, stream, sink)
