"""Streaming reads: offsets that survive restarts, batches that follow scaling, limits, AvailableNow.

Spark plans in one process per query and reads in workers; nothing passes between them but
partitions. The first batch of a query is empty: it only writes the position that "latest" or "earliest" meant
into the checkpoint, because Spark asks for the initial offset twice and again after a crash.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from headrace.errors import NoSuchSegmentError, SegmentTruncatedError
from headrace.limits import INT64_MAX
from headrace.spark.client_cache import client_for
from headrace.spark.creation import ensure_stream
from headrace.spark.cuts import given_cut
from headrace.spark.offsets import cut_offset, is_symbolic, parse_cut, symbolic_offset
from headrace.spark.options import SourceOptions
from headrace.spark.partitioning import Position, advance, earlier_of, plan_ranges
from headrace.spark.segment_partition import lost, make_partitions, read_partition
from headrace.spark.stream_graph import ClientStreamGraph

Offset = dict[str, Any]

_POLL_S: Final = (0.005, 0.01, 0.02, 0.04, 0.08)


class HeadraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance per query plans; copies of it read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._graph: ClientStreamGraph | None = None
        self._end: Position | None = None
        self._latest: Offset | None = None
        self._stops_at_target = False

    def __reduce__(self) -> tuple[Callable[..., HeadraceStreamReader], tuple[SourceOptions]]:
        return HeadraceStreamReader, (self._options,)

    # ------------------------------------------------------------------------------ planning

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return symbolic_offset(self._options.start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Not ReadAllAvailable: that is what Trigger.Once sends, and then there is no second batch.
        return ReadMaxBytes(self._options.bytes_per_trigger or INT64_MAX)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        graph = self._open()
        graph.refresh()
        tail, end = graph.tail(), self._bound(graph)
        self._end = tail if end is None else earlier_of(tail, end, graph.key_ranges({*tail, *end}))
        self._stops_at_target = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        graph = self._open()
        graph.refresh()
        latest = self._next(graph, start, limit)
        if latest == start and not self._stops_at_target:
            latest = self._wait_for_news(graph, start, limit)
        self._latest = cut_offset(graph.scope, graph.stream, graph.tail())
        return latest

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        return self._latest

    def _wait_for_news(self, graph: ClientStreamGraph, start: Offset, limit: ReadLimit) -> Offset:
        """Look again for a while, so that an idle query does not ask a hundred times a second."""
        left_s = self._options.offset_wait_ms / 1000
        pause = threading.Event()
        for attempt in range(1_000_000):
            if left_s <= 0:
                break
            wait_s = min(_POLL_S[min(attempt, len(_POLL_S) - 1)], left_s)
            pause.wait(wait_s)
            left_s -= wait_s
            graph.refresh()
            latest = self._next(graph, start, limit)
            if latest != start:
                return latest
        return start

    def _next(self, graph: ClientStreamGraph, start: Offset, limit: ReadLimit) -> Offset:
        end = self._bound(graph)
        everything = isinstance(limit, ReadAllAvailable)
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else 0
        if is_symbolic(start):
            position = self._resolve(start["start"], graph, end)
            if not everything:
                return cut_offset(graph.scope, graph.stream, position)
        else:
            position = self._within(parse_cut(start, graph.scope, graph.stream), graph)

        def plan(begin: Position) -> Position:
            if everything or not self._options.key_order:
                return _across_scaling(begin, graph, bytes_max, end)
            return advance(begin, graph, bytes_max=bytes_max, end=end)

        return cut_offset(graph.scope, graph.stream, self._tolerantly(graph, position, plan))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        graph = self._open()
        last = parse_cut(end, graph.scope, graph.stream)
        if not is_symbolic(start):
            first = parse_cut(start, graph.scope, graph.stream)
        elif start["start"] == "latest":
            return []  # the first batch only notes the position
        else:
            first = self._resolve(start["start"], graph, None)
        ranges = self._tolerantly(graph, first, lambda begin: plan_ranges(begin, last, graph))
        return make_partitions(ranges, graph, fail_on_data_loss=self._options.fail_on_data_loss)

    # ------------------------------------------------------------------------------ what a position means

    def _open(self) -> ClientStreamGraph:
        if self._graph is None:
            options = self._options
            client = client_for(options.connection)
            ensure_stream(client, options.scope, options.stream, options.creation)
            self._graph = ClientStreamGraph(client, options.scope, options.stream)
        return self._graph

    def _resolve(self, text: str, graph: ClientStreamGraph, end: Mapping[int, int] | None) -> Position:
        if text == "earliest":
            return graph.head()
        if text != "latest":
            return given_cut(text, graph)
        tail = graph.tail()
        return tail if end is None else earlier_of(tail, end, graph.key_ranges({*tail, *end}))

    def _bound(self, graph: ClientStreamGraph) -> Position | None:
        """Return the cut the query must not pass: the one of the options, or the target of AvailableNow."""
        if self._end is None and self._options.end != "unbounded":
            text = self._options.end
            self._end = graph.tail() if text == "latest" else given_cut(text, graph)
        return self._end

    def _within(self, position: Position, graph: ClientStreamGraph) -> Position:
        """Check that a position of the checkpoint is not beyond the stream, which then is another one."""
        for segment_id, offset in position.items():
            try:
                length = graph.facts(segment_id).length
            except NoSuchSegmentError:
                continue  # dealt with while planning
            if offset > length:
                if self._options.fail_on_data_loss:
                    raise lost(
                        f"{graph.scope}/{graph.stream} segment {segment_id} has {length} bytes, the "
                        f"checkpoint is at {offset}: was the stream created anew?"
                    )
                position = {**position, segment_id: length}
        return position

    def _tolerantly(
        self, graph: ClientStreamGraph, position: Position, plan: Callable[[Position], Any]
    ) -> Any:
        """Plan from a position, or from the head if that is not there any more and loss is tolerated."""
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

    # ------------------------------------------------------------------------------ reading

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, partition)

    def commit(self, end: Offset) -> None:
        """A query owns nothing between its batches."""

    def stop(self) -> None:
        """Nothing to release; Spark does not call this reliably."""


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
