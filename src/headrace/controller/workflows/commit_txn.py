"""Commit transactions: merge a batch of one epoch into the stream, in the order of their decisions.

1. The batch is written in the stream's row: state COMMITTING_TXN (a stream that is being sealed stays
SEALING).
2. Every segment of the batch is merged into the active segment of the same number.
3. Outcomes are recorded; who waits for one of the transactions is answered before.
4. Rows of the transactions are removed, and the batch from the stream's row, or it is replaced by the next
one if nothing but commits waits.

If the stream was scaled since the transactions began, their segments have no counterpart in the active
epoch. Then the stream *rolls*: step 2 becomes

a. duplicates of the transactions' epoch are created, filled and sealed, their lengths recorded;
b. duplicates of the active epoch are created;
c. both epochs become visible, so that clients find successors of what is sealed next;
d. the active segments are sealed, their lengths recorded;

and with step 4 the second duplicate becomes the active epoch. Readers see: what was there, the
transactions, what comes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.controller.store.rows.sealed_row import SealedRow
from headrace.controller.store.rows.stream_row import (
    NO_WANTS,
    CommitBatch,
    Roll,
    RollPhase,
    ScalePhase,
    ScalePlan,
    StreamRow,
    StreamState,
)
from headrace.controller.streams.stream import Stream, Transition
from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.txn_ids import epoch_of_txn, generalised_id, shadow_segment
from headrace.controller.workflows.new_segments import create_segments
from headrace.errors import SegmentSealedError, StreamBusyError


async def commit_batch(context: ControllerContext, stream: Stream) -> bool:
    """Finish the batch in the stream's row, or the next one that waits; return False if there is none."""
    if stream.row.commit is None:
        free = stream.row
        chosen = await _choose(context, stream, free)
        if chosen is None:
            return False
        await stream.update(begin_commit(chosen, free))
    # Another controller may finish the batch at any time: the steps are those of the row that names it.
    epochs = stream.epochs()
    row, batch = epochs.row, epochs.row.commit
    if batch is None:
        return True  # another controller has been at it
    rolled = None if batch.roll is None else await epochs.rolled()
    if rolled is None:
        lengths = await _merge(context, stream, row.epoch, batch)
    else:
        lengths = await _roll(context, stream, row, rolled)
    with context.outcomes.merged(stream.uid, batch.txn_ids):
        txns = await context.registry.find_decided(stream.uid, batch.txn_ids)
        await context.marks.note_commits(stream, [None if txn is None else txn.row for txn in txns], lengths)
        await context.outcomes.record(stream.uid, batch.txn_ids, committed=True)
    await _free(context, stream, batch, rolled)
    return True


async def _free(
    context: ControllerContext, stream: Stream, batch: CommitBatch, rolled: list[EpochRecord] | None
) -> None:
    """Remove the recorded transactions, and the batch from the stream's row, or go on with the next one."""
    # Side by side: one that is found again before its row is gone is merged, recorded and removed once more,
    # which changes nothing.
    removal = asyncio.ensure_future(context.registry.remove(stream.uid, batch.txn_ids))
    try:
        if rolled is None and context.registry.knows_committing(stream.uid, beside=batch.txn_ids):
            await removal  # lest these are chosen again
            held = stream.row
            following = await _choose(context, stream, held) if may_go_on(held) else None
            if following is not None and following.roll is None:
                await stream.update(go_on(batch, following, held))
                return
        await stream.update(end_commit(batch, rolled))
    finally:
        await removal


async def _choose(context: ControllerContext, stream: Stream, free: StreamRow) -> CommitBatch | None:
    txns = await context.registry.next_batch(stream.uid, context.config.commit_batch_max)
    if not txns:
        return None
    epoch = epoch_of_txn(txns[0].txn_id)
    if free.epoch.reference == epoch:
        return CommitBatch(epoch, tuple(txn.txn_id for txn in txns))
    txns = await _without_finished(context, stream, txns)
    if not txns:
        return None
    return CommitBatch(epoch, tuple(txn.txn_id for txn in txns), Roll(context.clock.now_ms()))


async def _without_finished(context: ControllerContext, stream: Stream, txns: list[Txn]) -> list[Txn]:
    """Leave out what was merged before its rows could be removed: it must not make the stream roll.

    Without a roll, to merge, record and remove it once more changes nothing.
    """
    ended = await context.outcomes.find_many(stream.uid, [txn.txn_id for txn in txns])
    if ended:
        await context.registry.remove(stream.uid, ended)
    return [txn for txn in txns if txn.txn_id not in ended]


async def _merge(
    context: ControllerContext, stream: Stream, into: EpochRecord, batch: CommitBatch
) -> dict[int, list[int]]:
    """Merge the batch into the segments of ``into``; return their lengths after each transaction."""
    targets = {
        stream.segment(segment.segment_id): [
            shadow_segment(stream.segment(generalised_id(segment.number, txn_id)), txn_id)
            for txn_id in batch.txn_ids
        ]
        for segment in into.segments
    }
    lengths = await context.segments.merge(targets)
    return {segment.segment_id: lengths[stream.segment(segment.segment_id)] for segment in into.segments}


async def _roll(
    context: ControllerContext, stream: Stream, row: StreamRow, rolled: list[EpochRecord]
) -> dict[int, list[int]]:
    outgoing, batch, config = row.epoch, row.commit, row.config
    txn_epoch, active_epoch = rolled
    lengths: dict[int, list[int]] = {}
    assert batch is not None
    assert batch.roll is not None
    if batch.roll.phase is RollPhase.MERGING:
        await create_segments(context, stream, txn_epoch.segments, rollover_bytes=config.rollover_size_bytes)
        try:
            lengths = await _merge(context, stream, txn_epoch, batch)
        except SegmentSealedError:
            # Duplicates are sealed only after everything was merged into all of them, by us before a crash
            # or by another controller.
            lengths = {}
        await stream.seal(txn_epoch.segment_ids(), active_epoch.epoch)
        await create_segments(
            context,
            stream,
            active_epoch.segments,
            policy=config.scaling,
            rollover_bytes=config.rollover_size_bytes,
        )
        ended = dict.fromkeys(outgoing.segment_ids(), SealedRow(txn_epoch.epoch))
        await stream.archive([outgoing, txn_epoch], ended)
        await stream.update(reveal_roll(batch))
    await stream.seal(outgoing.segment_ids(), txn_epoch.epoch)
    return lengths


def begin_commit(batch: CommitBatch, free: StreamRow) -> Transition:
    """ACTIVE -> COMMITTING_TXN with ``batch``, which was chosen while the row was ``free``.

    If the row has changed, another controller may have merged the batch: another one has to be chosen.
    """

    def transition(row: StreamRow) -> StreamRow:
        if row is not free or row.commit is not None:
            return row
        if row.state not in {StreamState.ACTIVE, StreamState.SEALING}:
            raise StreamBusyError(f"the stream is {row.state.name}")
        state = StreamState.SEALING if row.state is StreamState.SEALING else StreamState.COMMITTING_TXN
        return replace(row, state=state, commit=batch)

    return transition


def reveal_roll(batch: CommitBatch) -> Transition:
    """Let clients see the epochs to come."""

    def transition(row: StreamRow) -> StreamRow:
        if row.commit is None or row.commit.roll is None or row.commit.txn_ids != batch.txn_ids:
            return row
        if row.commit.roll.phase is RollPhase.REVEALED:
            return row
        roll = replace(row.commit.roll, phase=RollPhase.REVEALED)
        return replace(row, commit=replace(row.commit, roll=roll))

    return transition


def may_go_on(row: StreamRow) -> bool:
    """Whether the next batch may follow at once: nothing else waits for the stream."""
    return row.state is StreamState.COMMITTING_TXN and row.wants == NO_WANTS and row.scale is None


def go_on(batch: CommitBatch, following: CommitBatch, held: StreamRow) -> Transition:
    """Replace the merged ``batch`` by ``following``, chosen while the row was ``held``; or else end it.

    One write instead of two, while commits come faster than they are merged.
    """
    end = end_commit(batch, None)

    def transition(row: StreamRow) -> StreamRow:
        if row is held and row.commit is not None and row.commit.txn_ids == batch.txn_ids:
            return replace(row, commit=following)
        return end(row)

    return transition


def end_commit(batch: CommitBatch, rolled: list[EpochRecord] | None) -> Transition:
    """Remove the batch; after a roll the duplicate of the active epoch becomes the active one."""

    def transition(row: StreamRow) -> StreamRow:
        if row.commit is None or row.commit.txn_ids != batch.txn_ids:
            return row
        state = StreamState.SEALING if row.state is StreamState.SEALING else StreamState.ACTIVE
        if rolled is None:
            return replace(row, state=state, commit=None)
        active = rolled[-1]
        assert active.epoch == row.epoch.epoch + 2
        scale = None if row.scale is None else restate_scale(row.scale, active)
        return replace(row, state=state, commit=None, epoch=active, scale=scale)

    return transition


def restate_scale(scale: ScalePlan, active: EpochRecord) -> ScalePlan:
    """Express a scale that waits with the ids that the segments have in the duplicated epoch."""
    assert scale.phase is ScalePhase.WAITING
    by_number = {segment.number: segment.segment_id for segment in active.segments}
    sealed = tuple(by_number[segment_id & 0xFFFF_FFFF] for segment_id in scale.sealed)
    return replace(scale, base_epoch=active.epoch, sealed=sealed)
