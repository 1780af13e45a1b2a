"""Batch reads about streams instead of their events: ``option("metadata", "Segments")`` and its siblings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.client.blocking import BlockingClient
from headrace.errors import NoSuchScopeError
from headrace.spark.client_cache import client_for
from headrace.spark.options import SourceOptions


class MetadataReader(DataSourceReader):
    """One small partition that asks the controller."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002 - there is one
        options = self._options
        client = client_for(options.connection)
        if options.metadata == "streams":
            scope = options.choice.scope
            if not client.scope_exists(scope):
                raise NoSuchScopeError(f"scope {scope} does not exist")
            for name in client.list_streams(scope):
                yield scope, name
            return
        assert options.choice.only is not None  # the options were checked
        scope, stream = options.choice.only
        if options.metadata == "streaminfo":
            info = client.stream_info(scope, stream)
            yield info.head.as_text(), info.tail.as_text()
        else:
            yield from _segments(client, scope, stream)


def _segments(client: BlockingClient, scope: str, stream: str) -> Iterator[tuple[Any, ...]]:
    ids = client.segments_between(client.head_cut(scope, stream))
    ranges = client.key_ranges(scope, stream, ids)
    for segment_id in ids:
        info = client.segment_info(scope, stream, segment_id)
        keys = ranges[segment_id]
        yield segment_id, keys.low, keys.high, info.start_offset, info.length, info.sealed
