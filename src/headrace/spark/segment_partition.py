"""Ranges of segments as Spark ships them to a worker, and how the worker reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from headrace.errors import (
    NoSuchSegmentError,
    PreconditionError,
    SegmentTruncatedError,
)
from headrace.spark.arrow_rows import record_batches
from headrace.spark.client_cache import client_for
from headrace.spark.column_names import find_column, is_case_sensitive
from headrace.spark.options import SourceOptions
from headrace.spark.partitioning import SegmentRead
from headrace.spark.range_groups import PartitionBounds, SegmentRange, cut_targets, group_ranges
from headrace.spark.stream_graph import ClientStreamGraph

_log: Final = logging.getLogger(__name__)


@dataclass
class RangesPartition(InputPartition):
    """What one task reads: ranges, one after the other."""

    ranges: tuple[SegmentRange, ...]


def lost(what: object) -> PreconditionError:
    """Return the error for data that is wanted and was truncated."""
    return PreconditionError(f"data loss: {what}. Set fail_on_data_loss=false to read the remaining data")


def present_ranges(
    ranges: Sequence[SegmentRead], graph: ClientStreamGraph, *, fail_on_data_loss: bool
) -> list[SegmentRange]:
    """Return what is still there of some ranges.

    Raises:
        PreconditionError: some of it was truncated and that is not to be tolerated.
    """
    present: list[SegmentRange] = []
    for each in ranges:
        name = f"{graph.scope}/{graph.stream} segment {each.segment_id}"
        try:
            begin = graph.start_of(each.segment_id)
        except NoSuchSegmentError:
            begin = each.end
            problem = f"{name} is gone, bytes {each.start} to {each.end} were requested"
        else:
            problem = f"{name} begins at {begin}, {each.start} was requested"
        if begin > each.start:
            if fail_on_data_loss:
                raise lost(problem)
            _log.warning("%s", problem)
        if begin < each.end:
            present.append(
                SegmentRange(graph.scope, graph.stream, each.segment_id, max(begin, each.start), each.end)
            )
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
    pieces: list[SegmentRange] = []
    for each, targets in zip(ranges, cut_targets(ranges, bounds.low), strict=True):
        graph = graphs[f"{each.scope}/{each.stream}"]
        try:
            edges = graph.event_boundaries(each.segment_id, each.start, targets, each.end)
        except (SegmentTruncatedError, NoSuchSegmentError):
            edges = []  # truncated meanwhile: the task that reads it judges
        places = sorted({each.start, *edges, each.end})
        pieces += [replace(each, start=start, end=end) for start, end in pairwise(places)]
    count = bounds.count_for(sum(each.size for each in pieces))
    return [RangesPartition(tuple(group)) for group in group_ranges(pieces, count)]


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Yield the record batches of a partition, in a worker.

    Raises:
        PreconditionError: it was truncated since it was planned, and that is not to be tolerated.
        InvalidArgumentError: the schema spells a column differently in a session where that matters.
    """
    if not isinstance(partition, RangesPartition):
        return  # what Spark makes of an empty list of partitions
    case_sensitive = is_case_sensitive()
    for column in options.columns:
        find_column(options.names, column, case_sensitive=case_sensitive)
    for each in partition.ranges:
        yield from _read_range(options, each)


def _read_range(options: SourceOptions, wanted: SegmentRange) -> Iterator[Any]:
    start = wanted.start
    while start < wanted.end:
        try:
            yield from _read_from(options, wanted, start)
        except SegmentTruncatedError as error:
            if options.fail_on_data_loss or error.start_offset <= start:
                raise lost(error) from error
            _log.warning("%s: continuing at its start", error)
            start = error.start_offset
        except NoSuchSegmentError as error:
            if options.fail_on_data_loss:
                raise lost(error) from error
            _log.warning("%s: the rest of it is skipped", error)
            return
        else:
            return


def _read_from(options: SourceOptions, wanted: SegmentRange, start: int) -> Iterator[Any]:
    client = client_for(options.connection)
    names = (wanted.scope, wanted.stream, wanted.segment_id)
    with client.read_segment_range(*names, start, wanted.end) as part:
        yield from record_batches(
            part.blocks(),
            scope=wanted.scope,
            stream=wanted.stream,
            segment_id=wanted.segment_id,
            offset=start,
            end=wanted.end,
            columns=options.columns,
            names=options.names or options.columns,
            batch_bytes=options.batch_bytes,
            text=("replace" if options.replaces_invalid else "strict") if options.is_text else "",
        )
