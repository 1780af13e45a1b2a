"""Replace the configuration of a stream.

1. State UPDATING with the new configuration.
2. The row in its bucket's index, if the stream gets a retention policy. That of one that loses its policy is
   removed by the service that finds it.
3. The active segments get their new policy.
4. If the new policy asks for another number of segments, all of them are replaced by that many equal ones;
a scale
   that waited is dropped for it.
5. The new configuration holds; state ACTIVE.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.controller.context import ControllerContext
from headrace.controller.policies.scale_request import needs_rescale, plan_rescale
from headrace.controller.store.layout import RETENTION
from headrace.controller.store.rows.stream_row import ScalePhase, StreamRow, StreamState
from headrace.controller.streams.stream import Stream, Transition
from headrace.controller.workflows.scale_stream import scale_stream
from headrace.errors import StreamBusyError
from headrace.model.policies import RetentionKind, StreamConfiguration


async def resume_update(context: ControllerContext, stream: Stream) -> None:
    """Carry out the update in the row. Repeatable from any step."""
    row = stream.row
    if row.updating is None:
        return
    had, has = (config.retention.kind is not RetentionKind.NONE for config in (row.config, row.updating))
    if has and not had:
        await context.bucket_index.add(RETENTION, stream.scope, stream.name, context.clock.now_ms())
    if row.scale is None or row.scale.phase is ScalePhase.WAITING:
        await context.segments.update_policy(stream.segments(row.epoch.segment_ids()), row.updating.scaling)
        await stream.update(plan_update_scale(context.clock.now_ms()))
    if stream.row.updating is not None and stream.row.scale is not None and needs_rescale(stream.row):
        await scale_stream(context, stream)
    await stream.update(finish_update(row.updating))


def begin_update(config: StreamConfiguration) -> Transition:
    """ACTIVE -> UPDATING."""

    def transition(row: StreamRow) -> StreamRow:
        if row.updating == config:
            return row
        if row.state is not StreamState.ACTIVE:
            raise StreamBusyError(f"the stream is {row.state.name}")
        if row.config == config and not needs_rescale(replace(row, updating=config)):
            return row
        return replace(row, state=StreamState.UPDATING, updating=config)

    return transition


def plan_update_scale(now_ms: int) -> Transition:
    """Put the plan to rescale into the row, in the place of one that waits."""

    def transition(row: StreamRow) -> StreamRow:
        if row.updating is None or not needs_rescale(row):
            return row
        if row.scale is not None and row.scale.phase is not ScalePhase.WAITING:
            return row
        return replace(row, scale=plan_rescale(row, row.updating.scaling.segments_min, now_ms))

    return transition


def finish_update(config: StreamConfiguration) -> Transition:
    """UPDATING -> ACTIVE with ``config``, unless a later one is in the row or has to rescale it."""

    def transition(row: StreamRow) -> StreamRow:
        if row.updating != config or needs_rescale(row):
            return row
        return replace(row, state=StreamState.ACTIVE, config=config, updating=None)

    return transition
