"""Abort transactions: their segments go, then the outcome is recorded, then the row goes.

Does not wait in the queue of the stream: nothing else touches the segments of an aborted transaction.
"""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.streams.stream import Stream
from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.txn_ids import epoch_of_txn, generalised_id, shadow_segment
from headrace.errors import DataCorruptionError


async def finish_abort(context: ControllerContext, stream: Stream, txn: Txn) -> None:
    """Carry out what an ABORTING row says. Repeatable from any step."""
    await context.segments.delete(await shadow_segments(stream, txn.txn_id))
    await context.outcomes.record(stream.uid, [txn.txn_id], committed=False)
    await context.registry.remove(stream.uid, [txn.txn_id])


async def shadow_segments(stream: Stream, txn_id: int) -> list[str]:
    """Return the names of all segments of a transaction."""
    epoch = epoch_of_txn(txn_id)
    epochs = stream.epochs()
    record = epochs.row.epoch
    if record.reference != epoch:
        found = await epochs.find(epoch)
        if found is None:
            raise DataCorruptionError(f"stream {stream.full_name} has no stream epoch {epoch}")
        record = found
    return [
        shadow_segment(stream.segment(generalised_id(segment.number, txn_id)), txn_id)
        for segment in record.segments
    ]
