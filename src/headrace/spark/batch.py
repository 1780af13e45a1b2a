"""Batch reads: everything between two cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.errors import NoSuchSegmentError
from headrace.spark.client_cache import client_for
from headrace.spark.cuts import given_cut
from headrace.spark.options import SourceOptions
from headrace.spark.partition_reader import PartitionReader, lost
from headrace.spark.partitioning import Position, plan_ranges
from headrace.spark.planned_partitions import make_partitions, present_ranges
from headrace.spark.presence import present_streams
from headrace.spark.questions import ask_all
from headrace.spark.range_groups import SegmentRange
from headrace.spark.stream_choice import split_name
from headrace.spark.stream_graph import ClientStreamGraph


class HeadraceReader(DataSourceReader):
    """Plans on the driver, reads in workers. Spark plans once per DataFrame, so "latest" is frozen then."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Callable[..., PartitionReader], tuple[SourceOptions]]:
        return PartitionReader, (self._options,)

    def partitions(self) -> list[InputPartition]:
        options = self._options
        client = client_for(options.connection)
        graphs = {
            name: ClientStreamGraph(client, *split_name(name))
            for name in present_streams(client, options.choice)
        }
        ranges = ask_all(self._ranges, list(graphs.values()))
        return make_partitions(list(chain.from_iterable(ranges)), graphs, options.partitions)

    def _ranges(self, graph: ClientStreamGraph) -> list[SegmentRange]:
        options = self._options
        graph.refresh()
        start = self._position(options.start, graph, graph.head)
        end = self._position(options.end, graph, graph.tail)
        try:
            ranges = plan_ranges(start, end, graph)
        except NoSuchSegmentError as error:
            if options.fail_on_data_loss:
                raise lost(error) from error
            ranges = plan_ranges(graph.move_to_head(start), end, graph)
        return present_ranges(ranges, graph, options)

    def _position(self, text: str, graph: ClientStreamGraph, unbounded: Callable[[], Position]) -> Position:
        if text == "unbounded":
            return unbounded()
        if text == "earliest":
            return graph.head()
        return graph.tail() if text == "latest" else given_cut(text, graph)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return PartitionReader(self._options).read(partition)
