"""Entry for Spark: ``format("headrace")`` for batch and streaming, reading and writing.

Spark makes a new one in short-lived processes for every question, so it holds options only, and imports the
rest when it is asked for it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from functools import lru_cache
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.runtime.clock import SystemClock
from headrace.runtime.extras import require
from headrace.spark.json_values import CORRUPT, CORRUPT_NAMES, FIELD, check_types
from headrace.spark.option_names import Door
from headrace.spark.options import (
    ALL_COLUMNS,
    METADATA_SCHEMAS,
    MORE_COLUMNS,
    SourceOptions,
    parse_sink,
    parse_source,
    time_of,
)
from headrace.spark.worker_errors import sentence_first

_log: Final = logging.getLogger(__name__)


class HeadraceDataSource(DataSource):
    """A stream as a table: one row per event."""

    parallelism: ClassVar[int] = 0
    """Of the session, if it registered the format itself: a class that is shipped has it."""

    @sentence_first
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.check_requirements()  # Spark imports it next, in a worker that would only crash

    @staticmethod
    def check_requirements() -> None:
        """Raises UnsupportedError: a library of the extra ``spark`` is missing."""
        require("the format headrace of Spark", "spark", "pyarrow", "numpy", "grpc", "crc32c")

    @classmethod
    def name(cls) -> str:
        return "headrace"

    @sentence_first
    def schema(self) -> str:
        """Return the columns of a read. What cannot be read is refused here, when the frame is defined.

        Raises:
            InvalidArgumentError: an option has no meaning or a value that it cannot have.
            NoSuchStreamError: a stream that was chosen by name does not exist, and must.
            UnsupportedError: a table of the catalog is asked for.
        """
        if "provider" in self.options:  # that is how Spark asks for a table of the catalog
            raise UnsupportedError(
                "CREATE TABLE ... USING headrace is not offered: Spark would forget the options. Use CREATE "
                "TEMPORARY VIEW name USING headrace OPTIONS (...)"
            )
        options = parse_source(self.options, streaming=False)
        _check_streams(options)
        if options.metadata:
            return METADATA_SCHEMAS[options.metadata]
        if options.json_mode:
            raise InvalidArgumentError(
                'serializer=json needs to know the fields that are columns: .schema("id int, price double")'
            )
        return ", ".join(f"{name} {ALL_COLUMNS[name]}" for name in options.columns)

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_source(self.options, streaming=False)
        _report(options.without_meaning, Door.BATCH_READ)
        if options.metadata:
            from headrace.spark.metadata import MetadataReader

            _check_metadata_schema(options.metadata, schema)
            return MetadataReader(options)
        from headrace.spark.batch import HeadraceReader

        return HeadraceReader(self._with_session(_with_columns(options, schema)))

    # Not with its sentence alone: Spark fails again while it tidies up after a reader that was not made, and
    # that failure would be all there is.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from headrace.spark.stream import HeadraceStreamReader

        options = parse_source(self.options, streaming=True)
        _report(options.without_meaning, Door.STREAM_READ)
        return HeadraceStreamReader(self._with_session(_with_columns(options, schema)))

    def _with_session(self, options: SourceOptions) -> SourceOptions:
        parallelism = self.parallelism or os.cpu_count() or 1
        options = dataclasses.replace(
            options, partitions=dataclasses.replace(options.partitions, parallelism=parallelism)
        )
        if options.waits_for_start and (time_of(options.start) or 0) > SystemClock().now_ms():
            return dataclasses.replace(options, start="latest")
        return options

    @sentence_first
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from headrace.spark.sink import make_writer

        options = parse_sink(self.options, streaming=False)
        _report(options.without_meaning, Door.BATCH_WRITE)
        return make_writer(options, schema, overwrite=overwrite)

    @sentence_first
    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamArrowWriter:
        from headrace.spark.sink import make_stream_writer

        options = parse_sink(self.options, streaming=True)
        _report(options.without_meaning, Door.STREAM_WRITE)
        return make_stream_writer(options, schema, overwrite=overwrite)


@lru_cache(maxsize=256)  # a streaming write is planned anew for each micro-batch
def _report(names: tuple[str, ...], door: Door) -> None:
    """Log the options without an effect, once per process."""
    if names:
        _log.warning("options that mean nothing to %s of headrace: %s", door.value, ", ".join(names))


def _check_streams(options: SourceOptions) -> None:
    """Raises NoSuchStreamError: a stream does not exist. A streaming read that may create it, or go on
    without it, judges while it is planned.
    """
    if options.choice.names and options.fail_on_data_loss and not options.creation.stream:
        from headrace.spark.client_cache import client_for
        from headrace.spark.presence import check_names

        check_names(client_for(options.connection), options.choice)


def _with_columns(options: SourceOptions, schema: Any) -> SourceOptions:
    """Take the columns of the schema, which a user may have given instead of the option, as it spells them.

    Raises:
        InvalidArgumentError: a column is not ours, has another type, or comes twice.
    """
    columns, fields = [], []
    is_text = False
    for each in schema.fields:
        name, kind = each.name.lower(), each.dataType.simpleString()
        is_text = is_text or (name == "event" and kind == "string")
        is_field = options.json_mode and name in MORE_COLUMNS and name not in options.columns
        if (ALL_COLUMNS.get(name) == kind and not is_field) or (name == "event" and kind == "string"):
            columns.append(name)
        elif options.json_mode and each.name in CORRUPT_NAMES and kind == "string":
            columns.append(CORRUPT)
        elif options.json_mode and (is_field or name not in {*ALL_COLUMNS, *CORRUPT_NAMES}):
            columns.append(FIELD)
            fields.append(each)
        else:
            allowed = "event string, " + ", ".join(f"{name} {kind}" for name, kind in ALL_COLUMNS.items())
            more = "" if options.json_mode else "; fields of events in JSON are columns with serializer=json"
            raise InvalidArgumentError(f"column {each.name} {kind} is none of: {allowed}{more}")
    if not columns:
        raise InvalidArgumentError("a read needs at least one column")
    names = tuple(each.name for each in schema.fields)
    spelled = [
        name.lower() if column in ALL_COLUMNS else name for name, column in zip(names, columns, strict=True)
    ]
    if len(set(spelled)) != len(spelled):
        raise InvalidArgumentError(f"the schema of a read names a column twice: {', '.join(names)}")
    check_types(fields)
    return dataclasses.replace(
        options,
        columns=tuple(columns),
        names=names,
        is_text=is_text,
        json_schema=StructType(fields) if options.json_mode else None,
    )


def _check_metadata_schema(metadata: str, schema: Any) -> None:
    """Raises InvalidArgumentError: a schema that a user gave has other types than the one of the metadata.

    Values are returned in order, so the names are the user's to choose.
    """
    wanted = METADATA_SCHEMAS[metadata]
    types = [column.split(" ")[1] for column in wanted.split(", ")]
    if [each.dataType.simpleString() for each in schema.fields] != types:
        given = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in schema.fields)
        raise InvalidArgumentError(
            f"the schema of this metadata is {wanted} (names may differ, types may not), not {given}"
        )
