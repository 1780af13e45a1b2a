"""Seal a stream: no new data for ever; everything written stays readable.

1. State SEALING: nothing new begins.
2. Open transactions are aborted, decided ones finished.
3. The active segments are sealed; their lengths are recorded.
4. State SEALED.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.stream_row import NO_WANTS, StreamRow, StreamState, Wants
from headrace.controller.streams.stream import Stream, Transition
from headrace.controller.workflows.commit_txn import commit_batch
from headrace.controller.workflows.transactions import Transactions


async def seal_stream(context: ControllerContext, transactions: Transactions, stream: Stream) -> None:
    """Seal ``stream``; return at once if it is sealed. Repeatable from any step."""
    row = await stream.update(begin_seal)
    if row.state is not StreamState.SEALING:
        return
    while stream.row.commit is not None or await transactions.settle(stream):
        await commit_batch(context, stream)
    epoch = stream.row.epoch
    await stream.seal(epoch.segment_ids(), None)
    await stream.update(finish_seal(epoch.epoch))


def begin_seal(row: StreamRow) -> StreamRow:
    """ACTIVE -> SEALING. Changes that wait will never happen."""
    if row.state is not StreamState.ACTIVE:
        return row
    wants = Wants(delete=row.wants.delete)
    return replace(row, state=StreamState.SEALING, scale=None, wants=wants)


def finish_seal(epoch: int) -> Transition:
    """SEALING -> SEALED; a deletion that waited for it begins. The segments of ``epoch`` are sealed: if a
    commit has rolled the stream since, there are others.
    """

    def transition(row: StreamRow) -> StreamRow:
        if row.state is not StreamState.SEALING or row.commit is not None or row.epoch.epoch != epoch:
            return row
        return replace(row, state=StreamState.SEALED, deleting=row.wants.delete, wants=NO_WANTS)

    return transition
