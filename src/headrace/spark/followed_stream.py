"""One stream of a streaming query: what a position means there, and how far the next batch may go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from headrace.errors import NoSuchSegmentError, SegmentTruncatedError
from headrace.spark.cuts import given_cut
from headrace.spark.lag import bytes_behind
from headrace.spark.options import SourceOptions
from headrace.spark.partition_reader import lost
from headrace.spark.partitioning import (
    Position,
    SegmentRead,
    advance,
    available_bytes,
    earlier_of,
    later_of,
    plan_ranges,
)
from headrace.spark.stream_graph import ClientStreamGraph

T = TypeVar("T")


class FollowedStream:
    """A stream, where the query ends in it, and what becomes of positions it does not have any more."""

    def __init__(self, graph: ClientStreamGraph, options: SourceOptions) -> None:
        self.graph = graph
        self._options = options
        self._end: Position | None = None
        self._stops_at_target = False

    def stop_at_tail(self) -> None:
        """Let the query end where the stream ends now: the target of AvailableNow."""
        self.graph.refresh()
        self._end = self._not_behind_the_end(self.graph.tail())
        self._stops_at_target = True

    def resolve(self, text: str) -> Position:
        """Return what a start means: a word, a time, or a cut."""
        self._bound()  # the stream of now is the one the end is about
        if text == "earliest":
            return self.graph.head()
        if text == "latest":
            return self._not_behind_the_end(self.graph.tail())
        return given_cut(text, self.graph)

    def within(self, position: Position) -> Position:
        """Check that a position of the checkpoint is not beyond the stream, which then is another one.

        Raises:
            PreconditionError: it is, and data loss is not tolerated.
        """
        for segment_id, offset in position.items():
            try:
                length = self.graph.facts(segment_id).length
            except NoSuchSegmentError:
                continue  # dealt with while planning
            if offset > length:
                if self._options.fail_on_data_loss:
                    name = f"{self.graph.scope}/{self.graph.stream}"
                    raise lost(
                        f"{name} segment {segment_id} has {length} bytes, the checkpoint is at {offset}: was "
                        "the stream created anew?"
                    )
                position = {**position, segment_id: length}
        return position

    def available(self, position: Position) -> int:
        """Return how many bytes the next batch could have from a position."""
        end = self._bound()
        return self._tolerantly(position, lambda begin: available_bytes(begin, self.graph, end=end))

    def next(self, position: Position, bytes_max: int, events_max: int, *, everything: bool) -> Position:
        """Return where the next batch ends: within some bytes and events, or at the tail; 0 is no limit."""
        end = self._bound()

        def plan(begin: Position) -> Position:
            if (everything or not self._options.key_order) and not events_max:
                return _across_scaling(begin, self.graph, bytes_max, end)
            return advance(begin, self.graph, bytes_max=bytes_max, events_max=events_max, end=end)

        return self._tolerantly(position, plan)

    def bytes_behind(self, position: Position) -> int:
        """Return about how many bytes lie between a position and the tail."""
        lengths = {}
        for each in position:
            with contextlib.suppress(NoSuchSegmentError):
                lengths[each] = self.graph.facts(each).length
        return bytes_behind(position, lengths, self.graph.tail())

    def was_read(self, position: Position, time_ms: int) -> bool:
        """Tell whether a position lies behind all that the stream had at a time."""
        cut = self.graph.cut_at(time_ms)
        ranges = self.graph.key_ranges({*cut, *position})
        if not ranges.keys() >= {*cut, *position}:
            return False  # a position of a former stream
        return later_of(position, cut, ranges) == dict(sorted(position.items()))

    def ranges(self, first: Position, last: Position) -> list[SegmentRead]:
        """Return what a batch between two positions reads."""
        return self._tolerantly(first, lambda begin: plan_ranges(begin, last, self.graph))

    # ------------------------------------------------------------------------------ inside

    def _bound(self) -> Position | None:
        """Return the cut the query must not pass: the one of the options, or the target of AvailableNow."""
        if self._end is None and self._options.end != "unbounded":
            text = self._options.end
            self._end = self.graph.tail() if text == "latest" else given_cut(text, self.graph)
        return self._end

    def _not_behind_the_end(self, tail: Position) -> Position:
        end = self._bound()
        return tail if end is None else earlier_of(tail, end, self.graph.key_ranges({*tail, *end}))

    def _tolerantly(self, position: Position, plan: Callable[[Position], T]) -> T:
        """Plan from a position, or from the head if that is not there any more and loss is tolerated."""
        graph = self.graph
        try:
            return plan(position)
        except (NoSuchSegmentError, SegmentTruncatedError) as error:
            if self._options.fail_on_data_loss:
                strange = graph.unknown(position)
                if not strange:
                    raise lost(error) from error
                raise lost(
                    f"{graph.scope}/{graph.stream} never had the segments {strange} of the checkpoint: the "
                    "stream was deleted and created anew"
                ) from error
        if self._end is not None and not self._stops_at_target and graph.unknown(self._end):
            self._end = None  # the cut of the options is looked at again, and refused if it is not "latest"
        return plan(graph.move_to_head(position))


def _across_scaling(
    position: Position, graph: ClientStreamGraph, bytes_max: int, end: Mapping[int, int] | None
) -> Position:
    """Advance through any number of scale events: for one large batch, or where key order does not matter."""
    left = bytes_max
    while True:
        reached = advance(position, graph, bytes_max=max(left, 0), end=end)
        if reached == position:
            return reached
        if bytes_max:
            left -= sum(each.end - each.start for each in plan_ranges(position, reached, graph))
            if left <= 0:
                return reached
        position = reached
