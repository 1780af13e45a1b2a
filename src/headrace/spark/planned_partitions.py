"""Which partitions a batch has: what is still there of its ranges, divided between tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from headrace.errors import NoSuchSegmentError, SegmentTruncatedError
from headrace.runtime.clock import SystemClock
from headrace.spark.event_times import find_marks
from headrace.spark.options import SourceOptions
from headrace.spark.partition_reader import RangesPartition, lost
from headrace.spark.partitioning import SegmentRead
from headrace.spark.questions import ask_all
from headrace.spark.range_groups import PartitionBounds, SegmentRange, cut_targets, group_ranges
from headrace.spark.stream_graph import ClientStreamGraph

_log: Final = logging.getLogger(__name__)


def present_ranges(
    ranges: Sequence[SegmentRead], graph: ClientStreamGraph, options: SourceOptions
) -> list[SegmentRange]:
    """Return what is still there of some ranges.

    Raises:
        PreconditionError: some of it was truncated and that is not to be tolerated.
    """
    present: list[SegmentRange] = []
    begins = ask_all(graph.find_start, [each.segment_id for each in ranges])
    for each, found in zip(ranges, begins, strict=True):
        begin = each.end if found is None else found
        if begin > each.start:
            name = f"{graph.scope}/{graph.stream} segment {each.segment_id}"
            problem = f"{name} begins at {begin}, {each.start} was requested"
            if found is None:
                problem = f"{name} is gone, bytes {each.start} to {each.end} were requested"
            if options.fail_on_data_loss:
                raise lost(problem)
            _log.warning("%s", problem)
        if begin < each.end:
            present.append(
                SegmentRange(graph.scope, graph.stream, each.segment_id, max(begin, each.start), each.end)
            )
    if graph.has_records:
        return [replace(each, has_records=True) for each in present]
    if "timestamp" in options.columns:
        marks = find_marks(present, graph.sample_at, graph.key_ranges, SystemClock().now_ms())
        return [replace(each, marks=marks[each.segment_id]) for each in present]
    return present


def make_partitions(
    ranges: Sequence[SegmentRange], graphs: Mapping[str, ClientStreamGraph], bounds: PartitionBounds
) -> list[InputPartition]:
    """Return partitions of ranges, which are cut between events if there are too few of them.

    Args:
        ranges: of one or several streams.
        graphs: those streams, by their full names.
        bounds: how many partitions there may be.
    """

    def cut(planned: tuple[SegmentRange, list[int]]) -> list[SegmentRange]:
        each, targets = planned
        graph = graphs[f"{each.scope}/{each.stream}"]
        try:
            edges = graph.find_edges(each.segment_id, each.start, targets, each.end)
        except (SegmentTruncatedError, NoSuchSegmentError):
            edges = []  # truncated meanwhile: the task that reads it judges
        places = sorted({each.start, *edges, each.end})
        return [replace(each, start=start, end=end) for start, end in pairwise(places)]

    targets = cut_targets(ranges, bounds.low)
    pieces = list(chain.from_iterable(ask_all(cut, list(zip(ranges, targets, strict=True)))))
    count = bounds.count_for(sum(each.size for each in pieces))
    return [RangesPartition(tuple(group)) for group in group_ranges(pieces, count)]
