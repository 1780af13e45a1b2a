"""Cuts that a person gave as text or by time, checked against the stream they are used on."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.spark.options import time_of
from headrace.spark.partitioning import Position, check_cover
from headrace.spark.position_text import cut_of
from headrace.spark.stream_graph import ClientStreamGraph


def given_cut(text: str, graph: ClientStreamGraph) -> Position:
    """Return the offsets of a cut, or where the stream was at the time that stands there instead.

    Raises:
        InvalidArgumentError: it belongs to another stream or is no position of this one: also if it is
            behind the tail or inside an event.
    """
    time_ms = time_of(text)
    if time_ms is not None:
        return graph.cut_at(time_ms)
    cut = cut_of(text, graph.scope, graph.stream)
    if (cut.scope, cut.stream) != (graph.scope, graph.stream):
        raise InvalidArgumentError(
            f"the cut belongs to {cut.scoped_stream}, the query reads {graph.scope}/{graph.stream}"
        )
    check_cover(cut.offsets, graph.key_ranges(cut.offsets))
    graph.check_cut(cut)
    return dict(cut.offsets)
