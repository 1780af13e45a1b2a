"""Ranges of segments as Spark ships them to a worker, and how the worker reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
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
from headrace.spark.column_names import find_column, is_case_sensitive, session_zone
from headrace.spark.json_values import JsonColumns, JsonFields
from headrace.spark.options import ALL_COLUMNS, SourceOptions
from headrace.spark.range_groups import SegmentRange

_log: Final = logging.getLogger(__name__)


@dataclass
class RangesPartition(InputPartition):
    """What one task reads: ranges, one after the other."""

    ranges: tuple[SegmentRange, ...]


def lost(what: object) -> PreconditionError:
    """Return the error for data that is wanted and was truncated."""
    return PreconditionError(f"data loss: {what}. Set fail_on_data_loss=false to read the remaining data")


class PartitionReader:
    """What a worker gets of a reader: nothing of the planning, whose modules it need not load."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of a partition.

        Raises:
            PreconditionError: it was truncated since it was planned, and that is not to be tolerated.
            InvalidArgumentError: the schema spells a column differently in a session where that matters.
        """
        if not isinstance(partition, RangesPartition):
            return  # what Spark makes of an empty list of partitions
        options = self._options
        case_sensitive = is_case_sensitive()
        for column in options.columns:
            if column in ALL_COLUMNS:
                find_column(options.names, column, case_sensitive=case_sensitive)
        fields = _json_fields(options)
        for each in partition.ranges:
            yield from _read_range(options, each, fields)


def _json_fields(options: SourceOptions) -> JsonFields | None:
    """Return how events are read as JSON, in the session of the task; None if they are not."""
    if options.json_schema is None:
        return None
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = options.json_schema
    columns = JsonColumns(schema, to_arrow_schema(schema, timezone="UTC"), session_zone())
    return JsonFields(columns, options.json_mode)


def _read_range(options: SourceOptions, wanted: SegmentRange, fields: JsonFields | None) -> Iterator[Any]:
    start = wanted.start
    while start < wanted.end:
        try:
            yield from _read_from(options, wanted, start, fields)
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


def _read_from(
    options: SourceOptions, wanted: SegmentRange, start: int, fields: JsonFields | None
) -> Iterator[Any]:
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
            fields=fields,
            has_records=wanted.has_records,
            marks=wanted.marks,
            text=("replace" if options.replaces_invalid else "strict") if options.is_text else "",
        )
