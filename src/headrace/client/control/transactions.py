"""Calls about transactions, and about batches of them that commit together for an exactly-once sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from headrace.client.control.controller import Controller
from headrace.client.segment_map import SegmentRange
from headrace.errors import NoSuchStreamError
from headrace.model.transaction_tag import TransactionTag
from headrace.rpc import convert
from headrace.rpc.generated import batch_commit_pb2 as batch_pb
from headrace.rpc.generated import controller_pb2 as pb


class TransactionStatus(IntEnum):
    """Where a transaction is in its life. Numbers are those of the control protocol."""

    UNKNOWN = 0
    OPEN = 1
    COMMITTING = 2
    COMMITTED = 3
    ABORTING = 4
    ABORTED = 5


@dataclass(frozen=True, slots=True)
class CreatedTransaction:
    """A new transaction: its 128-bit id and the segments it writes to."""

    txn_id: int
    segments: tuple[SegmentRange, ...]


@dataclass(frozen=True, slots=True)
class SinkWatermark:
    """How far a sink has come. ``visible``: every transaction of the batch is committed."""

    sink: str
    query: str
    batch: int
    visible: bool
    txn_ids: tuple[int, ...]
    time_ms: int


class BatchStatus(IntEnum):
    """What became of a batch. Numbers are those of the batch commit service."""

    COMMITTED = 1
    ALREADY = 2
    FOREIGN = 3
    MISSING = 4


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The answer to a batch commit: ``watermark`` is the sink's after the call, ``missing`` the one not
    open.
    """

    status: BatchStatus
    watermark: SinkWatermark | None
    missing: int | None


class Transactions:
    """The calls about transactions."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def create(self, scope: str, stream: str, lease_ms: int) -> CreatedTransaction:
        """Begin a transaction.

        Raises:
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
            InvalidArgumentError: the lease is outside the server's range.
        """
        request = pb.CreateTxnRequest(streamInfo=convert.stream_info(scope, stream), lease=lease_ms)
        return _created(await self._controller.call("createTransaction", request))

    async def ping(self, scope: str, stream: str, txn_id: int, lease_ms: int) -> bool:
        """Extend the lease; False if the transaction is no longer open.

        Raises:
            InvalidArgumentError: the lease is longer than the server allows; it was not extended.
            TransactionStateError: the transaction would outlive the greatest age of one; it was not extended.
        """
        request = pb.PingTxnRequest(
            streamInfo=convert.stream_info(scope, stream),
            txnId=convert.txn_id_to_message(txn_id),
            lease=lease_ms,
        )
        reply = await self._controller.call("pingTransaction", request, attempts=3)
        return reply.status not in {
            pb.PingTxnStatus.COMMITTED,
            pb.PingTxnStatus.ABORTED,
            pb.PingTxnStatus.UNKNOWN,
        }

    async def commit(
        self,
        scope: str,
        stream: str,
        txn_id: int,
        writer_id: str = "",
        timestamp: int | None = None,
        *,
        wait_ms: int = 0,
    ) -> TransactionStatus:
        """Decide that the transaction becomes visible; that happens soon after.

        The controller may wait for that, up to ``wait_ms``. Returns the state then, UNKNOWN if it did not
        look.

        Raises:
            NoSuchTransactionError: it does not exist (any more).
            TransactionStateError: it was aborted, or its lease ran out.
        """
        request = pb.TxnRequest(
            streamInfo=convert.stream_info(scope, stream),
            txnId=convert.txn_id_to_message(txn_id),
            writerId=writer_id,
            timestamp=convert.NO_TIMESTAMP if timestamp is None else timestamp,
            waitMs=wait_ms,
        )
        return TransactionStatus((await self._controller.call("commitTransaction", request)).state)

    async def abort(self, scope: str, stream: str, txn_id: int) -> None:
        """Drop the transaction. Raises as :meth:`commit`, TransactionStateError if it was committed."""
        request = pb.TxnRequest(
            streamInfo=convert.stream_info(scope, stream), txnId=convert.txn_id_to_message(txn_id)
        )
        await self._controller.call("abortTransaction", request)

    async def status(self, scope: str, stream: str, txn_id: int) -> TransactionStatus:
        """Return the state of a transaction; UNKNOWN if it does not exist (any more)."""
        request = pb.TxnRequest(
            streamInfo=convert.stream_info(scope, stream), txnId=convert.txn_id_to_message(txn_id)
        )
        try:
            reply = await self._controller.call("checkTransactionState", request)
        except NoSuchStreamError:
            return TransactionStatus.UNKNOWN
        return TransactionStatus(reply.state)

    async def completed(self, scope: str, stream: str) -> list[tuple[int, TransactionStatus]]:
        """Return transactions that ended recently, with COMMITTED or ABORTED."""
        request = pb.ListCompletedTxnRequest(streamInfo=convert.stream_info(scope, stream))
        reply = await self._controller.call("listCompletedTransactions", request)
        committed = pb.TxnResponse.COMMITTED
        return [
            (
                convert.txn_id_from_message(each.txnId),
                TransactionStatus.COMMITTED if each.status == committed else TransactionStatus.ABORTED,
            )
            for each in reply.response
        ]

    # ------------------------------------------------------------------------------ batches

    async def create_tagged(
        self, scope: str, stream: str, lease_ms: int, tag: TransactionTag
    ) -> CreatedTransaction | SinkWatermark:
        """Begin a transaction of a batch; the watermark is returned if the batch is in already."""
        request = batch_pb.CreateTaggedTransactionRequest(
            streamInfo=convert.stream_info(scope, stream),
            leaseMs=lease_ms,
            tag=batch_pb.TransactionTag(
                sink=tag.sink,
                query=tag.query,
                batch=tag.batch,
                partition=tag.partition,
                attempt=tag.attempt,
            ),
        )
        reply = await self._controller.call_batch("createTaggedTransaction", request)
        if reply.status == batch_pb.CreateTaggedTransactionResponse.ALREADY:
            return _watermark(reply.watermark)
        return _created(reply.transaction)

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
        """Commit all transactions of a batch or none, once. Safe to repeat with the same arguments."""
        request = batch_pb.CommitTransactionBatchRequest(
            streamInfo=convert.stream_info(scope, stream),
            sink=sink,
            query=query,
            batch=batch,
            txnIds=[convert.txn_id_to_message(each) for each in txn_ids],
            takeover=takeover,
            waitUntilVisible=wait_until_visible,
        )
        reply = await self._controller.call_batch("commitTransactionBatch", request)
        return BatchOutcome(
            BatchStatus(reply.status),
            _watermark(reply.watermark) if reply.HasField("watermark") else None,
            convert.txn_id_from_message(reply.missing) if reply.HasField("missing") else None,
        )

    async def abort_batch(self, scope: str, stream: str, *, sink: str, query: str, batch: int) -> int:
        """Abort the open transactions of a batch; return how many. Never undoes a decision."""
        request = batch_pb.AbortTransactionBatchRequest(
            streamInfo=convert.stream_info(scope, stream), sink=sink, query=query, batch=batch
        )
        return int((await self._controller.call_batch("abortTransactionBatch", request)).abortedCount)

    async def sink_watermark(self, scope: str, stream: str, sink: str) -> SinkWatermark | None:
        """Return how far a sink has come, or None if it never committed or was forgotten."""
        request = batch_pb.GetSinkWatermarkRequest(streamInfo=convert.stream_info(scope, stream), sink=sink)
        reply = await self._controller.call_batch("getSinkWatermark", request)
        return _watermark(reply.watermark) if reply.HasField("watermark") else None


def _created(message: pb.CreateTxnResponse) -> CreatedTransaction:
    segments = (SegmentRange(*convert.segment_range_from_message(each)) for each in message.activeSegments)
    return CreatedTransaction(convert.txn_id_from_message(message.txnId), tuple(segments))


def _watermark(message: batch_pb.SinkWatermark) -> SinkWatermark:
    return SinkWatermark(
        message.sink,
        message.query,
        message.batch,
        message.phase == batch_pb.SinkWatermark.DONE,
        tuple(convert.txn_id_from_message(each) for each in message.txnIds),
        message.timeMs,
    )
