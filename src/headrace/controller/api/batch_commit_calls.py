"""The calls of our own batch commit service. What they mean is written in ``workflows.batch_commit``."""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.controller.api.transaction_calls import render_transaction
from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.sink_row import SinkMark, SinkPhase
from headrace.controller.store.rows.txn_row import TxnState
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.batch_commit import Batch, Verdict
from headrace.controller.workflows.transactions import Transactions
from headrace.errors import DeadlineExceededError
from headrace.model.transaction_tag import TransactionTag
from headrace.rpc.convert import txn_id_from_message, txn_id_to_message
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb

_VERDICTS: Final = {
    Verdict.COMMITTED: bb.CommitTransactionBatchResponse.COMMITTED,
    Verdict.ALREADY: bb.CommitTransactionBatchResponse.ALREADY,
    Verdict.FOREIGN: bb.CommitTransactionBatchResponse.FOREIGN,
    Verdict.MISSING: bb.CommitTransactionBatchResponse.MISSING,
}


class BatchCommitCalls:
    def __init__(self, context: ControllerContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions

    async def create_tagged_transaction(
        self, request: bb.CreateTaggedTransactionRequest
    ) -> bb.CreateTaggedTransactionResponse:
        tag = request.tag
        batch = Batch(tag.sink, tag.query, tag.batch)
        batch.check()
        stream = await self._stream(request.streamInfo)
        mark = await self._transactions.batches.find_mark(stream, batch.sink)
        if mark is not None and batch.is_in(mark):
            return bb.CreateTaggedTransactionResponse(
                status=bb.CreateTaggedTransactionResponse.ALREADY, watermark=render_mark(mark)
            )
        txn_tag = TransactionTag(tag.sink, tag.query, tag.batch, tag.partition, tag.attempt)
        txn = await self._transactions.create(stream, request.leaseMs, txn_tag)
        return bb.CreateTaggedTransactionResponse(
            status=bb.CreateTaggedTransactionResponse.CREATED, transaction=render_transaction(stream, txn)
        )

    async def commit_transaction_batch(
        self, request: bb.CommitTransactionBatchRequest
    ) -> bb.CommitTransactionBatchResponse:
        stream = await self._stream(request.streamInfo)
        batch = Batch(request.sink, request.query, request.batch)
        txn_ids = [txn_id_from_message(txn_id) for txn_id in request.txnIds]
        answer = await self._transactions.batches.commit(stream, batch, txn_ids, takeover=request.takeover)
        if request.waitUntilVisible and answer.verdict in {Verdict.COMMITTED, Verdict.ALREADY}:
            await self._wait_visible(stream)
        response = bb.CommitTransactionBatchResponse(status=_VERDICTS[answer.verdict])
        if answer.mark is not None:
            response.watermark.CopyFrom(render_mark(answer.mark))
        if answer.missing is not None:
            response.missing.CopyFrom(txn_id_to_message(answer.missing))
        return response

    async def abort_transaction_batch(
        self, request: bb.AbortTransactionBatchRequest
    ) -> bb.AbortTransactionBatchResponse:
        stream = await self._stream(request.streamInfo)
        batch = Batch(request.sink, request.query, request.batch)
        batch.check()
        return bb.AbortTransactionBatchResponse(
            abortedCount=await self._transactions.batches.abort(stream, batch)
        )

    async def get_sink_watermark(self, request: bb.GetSinkWatermarkRequest) -> bb.GetSinkWatermarkResponse:
        stream = await self._stream(request.streamInfo)
        mark = await self._transactions.batches.find_mark(stream, request.sink)
        if mark is None:
            return bb.GetSinkWatermarkResponse()
        return bb.GetSinkWatermarkResponse(watermark=render_mark(mark))

    async def _wait_visible(self, stream: Stream) -> None:
        """Wait for all decided transactions, with those of the batch, whichever call decided it."""
        txns = await self._context.registry.all_of(stream.uid)
        decided = [txn.txn_id for txn in txns if txn.row.state is TxnState.COMMITTING]
        try:
            async with asyncio.timeout(self._context.config.workflow_timeout_s):
                await self._transactions.wait_visible(stream, decided)
        except TimeoutError:
            raise DeadlineExceededError("the batch is in, but not all of it is visible yet") from None

    async def _stream(self, info: pb.StreamInfo) -> Stream:
        stream = await self._context.directory.get(info.scope, info.stream)
        stream.check_readable()
        return stream


def render_mark(mark: SinkMark) -> bb.SinkWatermark:
    phase = bb.SinkWatermark.DONE if mark.phase is SinkPhase.DONE else bb.SinkWatermark.DECIDED
    return bb.SinkWatermark(
        sink=mark.sink,
        query=mark.query,
        batch=mark.batch,
        phase=phase,
        txnIds=[txn_id_to_message(txn_id) for txn_id in mark.txn_ids],
        timeMs=mark.time_ms,
    )
