"""Create segments of a stream that a workflow in its row asks for."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.controller.context import ControllerContext
from headrace.controller.segments.calls import NO_SCALING
from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.streams.cuts import SegmentsBefore
from headrace.controller.streams.stream import Stream
from headrace.errors import NoSuchStreamError
from headrace.model.policies import ScalingPolicy


async def create_segments(
    context: ControllerContext,
    stream: Stream,
    segments: Sequence[SegmentRecord],
    *,
    policy: ScalingPolicy = NO_SCALING,
    rollover_bytes: int,
) -> None:
    """Create every segment that does not exist, unless the stream needs it no more.

    A controller that was paused may create what another one has created, used and deleted meanwhile. Numbers
    of segments are used once, so that a new segment of a stream that is gone or going, or in front of its
    head or the next one, belongs to nothing, and is deleted again.

    Raises:
        NoSuchStreamError: the stream is gone; so are the segments.
    """
    by_name = {stream.segment(segment.segment_id): segment for segment in segments}
    await context.segments.create(list(by_name), policy=policy, rollover_bytes=rollover_bytes)
    try:
        row = await stream.refresh()
    except NoSuchStreamError:
        await context.segments.delete(by_name)
        raise
    head = row.truncation if row.truncating is None else row.truncating
    if row.deleting:
        await context.segments.delete(by_name)
    elif head is not None:
        before = SegmentsBefore(await stream.cuts().place(dict(head)))
        await context.segments.delete([name for name, each in by_name.items() if before.holds(each)])
