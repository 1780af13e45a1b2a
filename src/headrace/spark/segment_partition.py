"""One range of one segment as Spark ships it to a worker, and how the worker reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from headrace.spark.stream_graph import ClientStreamGraph

_log: Final = logging.getLogger(__name__)


@dataclass
class SegmentPartition(InputPartition):
    """Bytes ``[start, end)`` of a segment; both are event boundaries."""

    scope: str
    stream: str
    segment_id: int
    start: int
    end: int


def lost(what: object) -> PreconditionError:
    """Return the error for data that is wanted and was truncated."""
    return PreconditionError(f"data loss: {what}. Set fail_on_data_loss=false to read the remaining data")


def make_partitions(
    ranges: Sequence[SegmentRead], graph: ClientStreamGraph, *, fail_on_data_loss: bool
) -> list[InputPartition]:
    """Return partitions of what is still there of some ranges.

    Raises:
        PreconditionError: some of it was truncated and that is not to be tolerated.
    """
    partitions: list[InputPartition] = []
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
            partitions.append(
                SegmentPartition(graph.scope, graph.stream, each.segment_id, max(begin, each.start), each.end)
            )
    return partitions


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Yield the record batches of a partition, in a worker.

    Raises:
        PreconditionError: it was truncated since it was planned, and that is not to be tolerated.
        InvalidArgumentError: the schema spells a column differently in a session where that matters.
    """
    if not isinstance(partition, SegmentPartition):
        return  # what Spark makes of an empty list of partitions
    case_sensitive = is_case_sensitive()
    for column in options.columns:
        find_column(options.names, column, case_sensitive=case_sensitive)
    start = partition.start
    while start < partition.end:
        try:
            yield from _read_from(options, partition, start)
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


def _read_from(options: SourceOptions, partition: SegmentPartition, start: int) -> Iterator[Any]:
    client = client_for(options.connection)
    names = (partition.scope, partition.stream, partition.segment_id)
    with client.read_segment_range(*names, start, partition.end) as part:
        yield from record_batches(
            part.blocks(),
            scope=partition.scope,
            stream=partition.stream,
            segment_id=partition.segment_id,
            offset=start,
            end=partition.end,
            columns=options.columns,
            names=options.names or options.columns,
            batch_bytes=options.batch_bytes,
            text=("replace" if options.replaces_invalid else "strict") if options.is_text else "",
        )
