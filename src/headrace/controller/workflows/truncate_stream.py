"""Drop what lies before a cut.

1. State TRUNCATING with the cut; a sealed stream stays SEALED.
2. The segments of the cut are truncated at their offsets; segments that lie between the last cut and this
   one are deleted.
3. The cut is the head of the stream; state ACTIVE, or SEALED.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.store.rows.stream_row import StreamRow, StreamState
from headrace.controller.streams.cuts import relate_cuts, sorted_cut
from headrace.controller.streams.stream import Stream, Transition
from headrace.errors import InvalidArgumentError, NoSuchSegmentError, StreamBusyError
from headrace.model.stream_cut import Relation

_DELETES_AT_ONCE: Final = 1000
"""Segments of one call of the data plane: all that a cut passes may be a million names."""


async def check_truncation(
    context: ControllerContext,
    stream: Stream,
    cut: Mapping[int, int],
    head: tuple[tuple[int, int], ...] | None,
) -> None:
    """Check that ``stream``, truncated at ``head`` so far, can be truncated at ``cut``.

    Raises:
        InvalidArgumentError: the cut is not valid, lies before the head, or an offset is beyond the end of
            its segment.
    """
    cuts = stream.cuts()
    placed = await cuts.check(cut)
    if head is not None and relate_cuts(placed, await cuts.place(dict(head))) is not Relation.EQUAL_OR_AFTER:
        raise InvalidArgumentError(f"the cut lies in front of the head of stream {stream.full_name}")
    await _check_offsets(context, stream, cut)


async def resume_truncate(context: ControllerContext, stream: Stream) -> None:
    """Carry out the truncation in the row. Repeatable from any step."""
    row, cuts = stream.row, stream.cuts()
    if row.truncating is None:
        return
    cut = dict(row.truncating)
    head = None if row.truncation is None else dict(row.truncation)
    await context.segments.truncate(
        {stream.segment(segment_id): offset for segment_id, offset in cut.items() if offset >= 0}
    )
    await delete_segments(context, stream, cuts.passed(head, cut))
    await stream.update(finish_truncate(row.truncating))


async def delete_segments(
    context: ControllerContext, stream: Stream, segments: AsyncIterator[list[SegmentRecord]]
) -> None:
    """Delete segments of ``stream`` as they come, many at a time."""
    names: list[str] = []
    async for some in segments:
        names += stream.segments(segment.segment_id for segment in some)
        if len(names) >= _DELETES_AT_ONCE:
            await context.segments.delete(names)
            names = []
    await context.segments.delete(names)


async def _check_offsets(context: ControllerContext, stream: Stream, cut: Mapping[int, int]) -> None:
    """Raises InvalidArgumentError for an offset that the data plane would refuse for ever."""
    reached = {segment_id: offset for segment_id, offset in cut.items() if offset >= 0}
    try:
        facts = await context.segments.info(stream.segments(reached))
    except NoSuchSegmentError as error:
        raise InvalidArgumentError(f"the cut names a segment that is gone: {error}") from None
    for (segment_id, offset), fact in zip(reached.items(), facts, strict=True):
        if offset > fact.length:
            raise InvalidArgumentError(
                f"the cut is beyond the tail: segment {segment_id} ends at {fact.length}, not behind {offset}"
            )


def begin_truncate(cut: Mapping[int, int]) -> Transition:
    """ACTIVE -> TRUNCATING; a sealed stream stays SEALED."""

    def transition(row: StreamRow) -> StreamRow:
        wanted = sorted_cut(cut)
        if wanted in {row.truncating, row.truncation}:
            return row
        if row.state is StreamState.SEALED and row.truncating is None:
            return replace(row, truncating=wanted)
        if row.state is not StreamState.ACTIVE:
            raise StreamBusyError(f"the stream is {row.state.name}")
        return replace(row, state=StreamState.TRUNCATING, truncating=wanted)

    return transition


def finish_truncate(cut: tuple[tuple[int, int], ...]) -> Transition:
    def transition(row: StreamRow) -> StreamRow:
        if row.truncating != cut:
            return row
        state = StreamState.SEALED if row.state is StreamState.SEALED else StreamState.ACTIVE
        return replace(row, state=state, truncation=cut, truncating=None)

    return transition
