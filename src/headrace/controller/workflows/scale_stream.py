"""Replace some segments of a stream by new ones that divide the same part of the key space.

1. The plan waits in the row; it is carried out when the stream is free.
2. State SCALING, phase STARTED: the new segments are created.
3. The outgoing epoch is archived, with where each old segment ends.
4. Phase REVEALED: clients get the successors, which must be known before anything is sealed.
5. The old segments are sealed; their lengths are recorded.
6. The new epoch is active; the plan is gone; state ACTIVE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.controller.context import ControllerContext
from headrace.controller.events.event import check_not_requests
from headrace.controller.policies.scale_request import plan_scale, was_last_scale
from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.store.rows.sealed_row import SealedRow
from headrace.controller.store.rows.stream_row import ScalePhase, ScalePlan, StreamRow, StreamState
from headrace.controller.streams.epochs import created_in, scaled_epoch
from headrace.controller.streams.stream import Stream, Transition
from headrace.controller.workflows.new_segments import create_segments
from headrace.errors import PreconditionError, StreamBusyError
from headrace.model.key_space import KeyRange


async def request_scale(
    context: ControllerContext,
    stream: Stream,
    sealed: Sequence[int],
    ranges: Sequence[KeyRange],
    time_ms: int,
) -> tuple[int, list[SegmentRecord]]:
    """Record a scale and return the epoch before it and the segments to come, without waiting for it.

    Raises:
        StreamSealedError, StreamBusyError, PreconditionError, InvalidArgumentError: see ``plan_scale``.
    """
    check_not_requests(stream.scope, stream.name)

    def accept(row: StreamRow) -> StreamRow:
        if row.state is StreamState.CREATING:
            raise StreamBusyError("the stream is being created")
        plan = plan_scale(row, sealed, ranges, time_ms)
        return row if plan is row.scale else replace(row, scale=plan)

    try:
        row = await stream.update(accept)
    except PreconditionError:
        epochs = stream.epochs()
        active = epochs.row.epoch
        before = await epochs.find(active.epoch - 1)
        if was_last_scale(active, before, sealed, ranges):
            return active.epoch - 1, created_in(active)
        raise
    context.wake(stream)
    assert row.scale is not None
    return row.scale.base_epoch, created_in(scaled_epoch(row.epoch, row.scale))


async def scale_stream(context: ControllerContext, stream: Stream) -> None:
    """Carry out the plan in the row, from whatever step it has reached. Repeatable from any step."""
    row = await stream.update(begin_scale)
    plan = row.scale
    if plan is None:
        return
    if plan.phase is ScalePhase.STARTED:
        await create_segments(
            context,
            stream,
            created_in(scaled_epoch(row.epoch, plan)),
            policy=row.config.scaling if row.updating is None else row.updating.scaling,
            rollover_bytes=row.config.rollover_size_bytes,
        )
        ended = dict.fromkeys(plan.sealed, SealedRow(plan.base_epoch + 1))
        await stream.archive([row.epoch], ended)
        await stream.update(reveal_scale(plan))
    await stream.seal(plan.sealed, plan.base_epoch + 1)
    await stream.update(finish_scale(plan))


def begin_scale(row: StreamRow) -> StreamRow:
    """ACTIVE -> SCALING, if a plan waits. An update that rescales stays UPDATING."""
    if row.scale is None or row.scale.phase is not ScalePhase.WAITING:
        return row
    if row.state not in {StreamState.ACTIVE, StreamState.UPDATING}:
        raise StreamBusyError(f"the stream is {row.state.name}")
    state = StreamState.UPDATING if row.state is StreamState.UPDATING else StreamState.SCALING
    return replace(row, state=state, scale=replace(row.scale, phase=ScalePhase.STARTED))


def reveal_scale(plan: ScalePlan) -> Transition:
    """Let clients see the epoch to come, whose segments exist."""

    def transition(row: StreamRow) -> StreamRow:
        if row.scale is None or row.scale.base_epoch != plan.base_epoch:
            return row  # of a later plan the segments may not exist
        if row.scale.phase is not ScalePhase.STARTED:
            return row
        return replace(row, scale=replace(row.scale, phase=ScalePhase.REVEALED))

    return transition


def finish_scale(plan: ScalePlan) -> Transition:
    """Make the planned epoch the active one."""

    def transition(row: StreamRow) -> StreamRow:
        if row.scale is None or row.scale.base_epoch != plan.base_epoch:
            return row
        if row.scale.phase is not ScalePhase.REVEALED:
            return row
        state = StreamState.UPDATING if row.state is StreamState.UPDATING else StreamState.ACTIVE
        return replace(row, state=state, scale=None, epoch=scaled_epoch(row.epoch, row.scale))

    return transition
