"""The calls about transactions. Source: protocol, "Transactions"."""

from __future__ import annotations

from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.streams.stream import Stream
from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.txn_ids import generalised_id
from headrace.controller.workflows.transactions import PingOutcome, Status, Transactions
from headrace.errors import InvalidArgumentError, NoSuchStreamError
from headrace.rpc.convert import segment_range_to_message, txn_id_from_message, txn_id_to_message
from headrace.rpc.generated import controller_pb2 as pb

LISTED_MAX: Final = 500
STATE_WAIT_S: Final = 0.1
"""How long the question for the state of a decided transaction waits for its outcome: clients repeat it
until then, some of them every millisecond.
"""
COMMIT_WAIT_S_MAX: Final = 10.0

_STATES: Final = {
    Status.UNKNOWN: pb.TxnState.UNKNOWN,
    Status.OPEN: pb.TxnState.OPEN,
    Status.COMMITTING: pb.TxnState.COMMITTING,
    Status.COMMITTED: pb.TxnState.COMMITTED,
    Status.ABORTING: pb.TxnState.ABORTING,
    Status.ABORTED: pb.TxnState.ABORTED,
}
_PINGS: Final = {
    PingOutcome.OK: pb.PingTxnStatus.OK,
    PingOutcome.LEASE_TOO_LARGE: pb.PingTxnStatus.LEASE_TOO_LARGE,
    PingOutcome.LIFETIME_EXCEEDED: pb.PingTxnStatus.MAX_EXECUTION_TIME_EXCEEDED,
    PingOutcome.COMMITTED: pb.PingTxnStatus.COMMITTED,
    PingOutcome.ABORTED: pb.PingTxnStatus.ABORTED,
    PingOutcome.UNKNOWN: pb.PingTxnStatus.UNKNOWN,
}


class TransactionCalls:
    def __init__(self, context: ControllerContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions

    async def create_transaction(self, request: pb.CreateTxnRequest) -> pb.CreateTxnResponse:
        stream = await self._stream(request.streamInfo)
        txn = await self._transactions.create(stream, request.lease)
        return render_transaction(stream, txn)

    async def commit_transaction(self, request: pb.TxnRequest) -> pb.TxnStatus:
        stream, txn_id = await self._transaction(request)
        await self._transactions.commit(stream, txn_id, request.writerId, request.timestamp)
        if request.waitMs <= 0:
            return pb.TxnStatus()
        wait_s = min(request.waitMs / 1000, COMMIT_WAIT_S_MAX)
        return pb.TxnStatus(state=_STATES[await self._transactions.outcome(stream, txn_id, wait_s)])

    async def abort_transaction(self, request: pb.TxnRequest) -> pb.TxnStatus:
        stream, txn_id = await self._transaction(request)
        await self._transactions.abort(stream, txn_id)
        return pb.TxnStatus()

    async def ping_transaction(self, request: pb.PingTxnRequest) -> pb.PingTxnStatus:
        stream, txn_id = await self._transaction(request)
        outcome = await self._transactions.ping(stream, txn_id, request.lease)
        return pb.PingTxnStatus(status=_PINGS[outcome])

    async def check_transaction_state(self, request: pb.TxnRequest) -> pb.TxnState:
        try:
            stream, txn_id = await self._transaction(request)
        except NoSuchStreamError:
            return pb.TxnState(state=pb.TxnState.UNKNOWN)
        return pb.TxnState(state=_STATES[await self._transactions.status(stream, txn_id, STATE_WAIT_S)])

    async def list_completed_transactions(
        self, request: pb.ListCompletedTxnRequest
    ) -> pb.ListCompletedTxnResponse:
        stream = await self._stream(request.streamInfo)
        finished = await self._context.outcomes.newest(stream.uid, LISTED_MAX)
        return pb.ListCompletedTxnResponse(
            response=[
                pb.TxnResponse(
                    txnId=txn_id_to_message(txn_id),
                    status=pb.TxnResponse.COMMITTED if committed else pb.TxnResponse.ABORTED,
                )
                for txn_id, committed in finished
            ]
        )

    async def _transaction(self, request: pb.TxnRequest | pb.PingTxnRequest) -> tuple[Stream, int]:
        """Return the stream and the id that a request names.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the request has no id; read as zero, it would be that of a transaction.
        """
        if not request.HasField("txnId"):
            raise InvalidArgumentError("the request names no transaction: txnId is missing")
        txn_id = txn_id_from_message(request.txnId)
        info = request.streamInfo
        return await self._transactions.get_stream(info.scope, info.stream, txn_id), txn_id

    async def _stream(self, info: pb.StreamInfo) -> Stream:
        return await self._context.directory.get(info.scope, info.stream)


def render_transaction(stream: Stream, txn: Txn) -> pb.CreateTxnResponse:
    """Render a new transaction with its segments under the ids that it knows them by."""
    return pb.CreateTxnResponse(
        txnId=txn_id_to_message(txn.txn_id),
        activeSegments=[
            segment_range_to_message(
                stream.scope, stream.name, generalised_id(segment.number, txn.txn_id), segment.key_range
            )
            for segment in txn.segments
        ],
    )
