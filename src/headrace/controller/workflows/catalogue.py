"""Which workflow finishes what a stream's row says, and in which order work waits for the stream."""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.engine import Run
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.commit_txn import commit_batch
from headrace.controller.workflows.create_stream import finish_creation
from headrace.controller.workflows.delete_stream import delete_stream
from headrace.controller.workflows.intents import begin_wanted
from headrace.controller.workflows.scale_stream import scale_stream
from headrace.controller.workflows.seal_stream import seal_stream
from headrace.controller.workflows.transactions import Transactions
from headrace.controller.workflows.truncate_stream import resume_truncate
from headrace.controller.workflows.update_stream import resume_update


class Catalogue:
    """A ``DurableWork`` over stream rows."""

    def __init__(self, context: ControllerContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions

    def started(self, stream: Stream) -> Run | None:
        context, row = self._context, stream.row
        if row.deleting:
            return lambda: delete_stream(context, stream)
        match row.state:
            case StreamState.CREATING:
                return lambda: finish_creation(context, [stream])
            case StreamState.COMMITTING_TXN:
                return lambda: commit_batch(context, stream)
            case StreamState.SCALING:
                return lambda: scale_stream(context, stream)
            case StreamState.TRUNCATING:
                return lambda: resume_truncate(context, stream)
            case StreamState.SEALED if row.truncating is not None:
                return lambda: resume_truncate(context, stream)
            case StreamState.UPDATING:
                return lambda: resume_update(context, stream)
            case StreamState.SEALING:
                return lambda: seal_stream(context, self._transactions, stream)
            case _:
                return None

    def waiting(self, stream: Stream) -> list[Run | None]:
        context, wants = self._context, stream.row.wants
        if stream.row.state is not StreamState.ACTIVE:
            return []
        wanted = wants.update is not None or wants.truncate is not None or wants.seal
        commits = context.registry.knows_committing(stream.uid)
        return [
            (lambda: self._begin_wanted(stream)) if wanted else None,
            (lambda: scale_stream(context, stream)) if stream.row.scale is not None else None,
            (lambda: commit_batch(context, stream)) if commits else None,
        ]

    async def _begin_wanted(self, stream: Stream) -> None:
        await stream.update(begin_wanted)
        run = self.started(stream)
        if run is not None:
            await run()
