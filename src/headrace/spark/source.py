"""Entry for Spark: ``format("headrace")`` for batch and streaming, reading and writing.

Spark makes a new one in short-lived processes for every question, so it holds options only, and imports the
rest when it is asked for it.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from headrace.errors import InvalidArgumentError
from headrace.runtime.extras import require
from headrace.spark.options import COLUMNS, METADATA_SCHEMAS, SourceOptions, parse_sink, parse_source

_log: Final = logging.getLogger(__name__)


class HeadraceDataSource(DataSource):
    """A stream as a table: one row per event."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.check_requirements()  # Spark imports it next, in a worker that would only crash

    @staticmethod
    def check_requirements() -> None:
        """Raises UnsupportedError: a library of the extra ``spark`` is missing."""
        require("the format headrace of Spark", "spark", "pyarrow", "numpy")

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> str:
        options = parse_source(self.options, streaming=False)
        if options.metadata:
            return METADATA_SCHEMAS[options.metadata]
        return ", ".join(f"{name} {COLUMNS[name]}" for name in options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_source(self.options, streaming=False)
        _report(options.unknown)
        if options.metadata:
            from headrace.spark.metadata import MetadataReader

            return MetadataReader(options)
        from headrace.spark.batch import HeadraceReader

        return HeadraceReader(_with_columns(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from headrace.spark.stream import HeadraceStreamReader

        options = parse_source(self.options, streaming=True)
        _report(options.unknown)
        return HeadraceStreamReader(_with_columns(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from headrace.spark.sink import make_writer

        options = parse_sink(self.options)
        _report(options.unknown)
        return make_writer(options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamArrowWriter:
        from headrace.spark.sink import make_stream_writer

        options = parse_sink(self.options)
        return make_stream_writer(options, schema, overwrite=overwrite)


def _report(unknown: tuple[str, ...]) -> None:
    if unknown:
        _log.warning("options that mean nothing to headrace: %s", ", ".join(unknown))


def _with_columns(options: SourceOptions, schema: Any) -> SourceOptions:
    """Take the columns of the schema, which a user may have given instead of the option.

    Raises:
        InvalidArgumentError: a column is not ours, or has another type.
    """
    import dataclasses

    names = []
    for each in schema.fields:
        kind = COLUMNS.get(each.name.lower())
        if kind is None or each.dataType.simpleString() != kind:
            allowed = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            raise InvalidArgumentError(
                f"column {each.name} {each.dataType.simpleString()} is none of: {allowed}"
            )
        if each.name != each.name.lower():
            raise InvalidArgumentError(f"write column {each.name} in lower case")
        names.append(each.name)
    if not names:
        raise InvalidArgumentError("a read needs at least one column")
    return dataclasses.replace(options, columns=tuple(names))
