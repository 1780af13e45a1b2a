"""How far a batch reads and which ranges it is made of, so that key order survives scaling. Pure.

A position is a map from segment id to offset that covers the key space once. A batch never reads a segment
and its successor together: successors are entered by :func:`roll` at the beginning of a later batch, once
everything in front of them has been read. That costs one more batch per scale event and keeps every key's
events in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.errors import InvalidArgumentError
from headrace.limits import EVENT_HEADER_BYTES, INT64_MAX
from headrace.model.key_space import KeyRange
from headrace.model.stream_cut import COMPLETED


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Where a segment ends now, in bytes, and whether that is for good."""

    length: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """Bytes ``[start, end)`` of one segment."""

    segment_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SegmentShare:
    """How much of a segment a batch is to have from ``start`` on, at most to ``end``, in whole events."""

    segment_id: int
    start: int
    target: int
    """The first event boundary at or behind it is far enough."""
    end: int
    events: int = 0
    """No more of them; 0 is no limit."""


class StreamGraph(Protocol):
    """What the planner asks about a stream. Answers about sealed segments never change."""

    def facts(self, segment_id: int) -> SegmentFacts: ...

    def successors(self, segment_id: int) -> Mapping[int, Sequence[int]]:
        """Successor -> its predecessors; empty if the segment is active or the stream ends with it."""

    def event_boundaries(self, shares: Sequence[SegmentShare]) -> Sequence[int]:
        """Where each share ends."""


Position = dict[int, int]

_END: Final = INT64_MAX
"""Behind every offset: how COMPLETED compares."""


def _is_read(position: Mapping[int, int], segment_id: int, graph: StreamGraph) -> bool:
    """Whether a segment of the position is sealed and completely read."""
    offset = position[segment_id]
    if offset == COMPLETED:
        return True
    facts = graph.facts(segment_id)
    return facts.sealed and offset >= facts.length


def _family(segment_id: int, graph: StreamGraph) -> tuple[set[int], set[int]]:
    """All segments that have to be replaced together with this one, and what replaces them."""
    parents: set[int] = {segment_id}
    children: set[int] = set()
    open_parents = [segment_id]
    while open_parents:
        for child, predecessors in graph.successors(open_parents.pop()).items():
            if child in children:
                continue
            children.add(child)
            for parent in predecessors:
                if parent not in parents:
                    parents.add(parent)
                    open_parents.append(parent)
    return parents, children


def roll(
    position: Mapping[int, int], graph: StreamGraph, *, fixed: Mapping[int, int] | None = None
) -> Position:
    """Replace completely read segments by their successors, as long as all predecessors have been read.

    A merge waits for its slower half, also if that half is still in front of a predecessor: the finished one
    stays in the position, at its end. Those in ``fixed`` are never replaced: a batch or a query ends there.
    """
    rolled = dict(position)
    stay = fixed or {}
    waiting = sorted(rolled)
    while waiting:
        segment_id = waiting.pop()
        if segment_id not in rolled or segment_id in stay or not _is_read(rolled, segment_id, graph):
            continue
        parents, children = _family(segment_id, graph)
        if not children or not all(
            parent in rolled and parent not in stay and _is_read(rolled, parent, graph) for parent in parents
        ):
            continue
        for parent in parents:
            del rolled[parent]
        for child in sorted(children):
            rolled[child] = 0
        waiting.extend(children)
    return rolled


def advance(
    position: Mapping[int, int],
    graph: StreamGraph,
    *,
    bytes_max: int = 0,
    events_max: int = 0,
    end: Mapping[int, int] | None = None,
) -> Position:
    """Return how far the next batch goes from ``position``; equal to it if there is nothing to do.

    Args:
        position: where the last batch ended.
        graph: the stream.
        bytes_max: about how many bytes to read: each segment gets its share, rounded up to whole events;
            0 is no limit.
        events_max: no more events, and one of each segment; divided by bytes, too.
        end: never pass this cut.
    """
    start = roll(position, graph, fixed=end)
    limits = {segment_id: _limit(segment_id, offset, graph, end) for segment_id, offset in start.items()}
    available = _available(start, limits)
    total = sum(available.values())
    bytes_max = min(bytes_max, total) if bytes_max > 0 else total
    if bytes_max == total and (not events_max or total <= events_max * EVENT_HEADER_BYTES):
        return {**start, **{segment_id: limits[segment_id] for segment_id in available}}
    shares = []
    for segment_id, size in available.items():
        share = -(-size * bytes_max // total)  # rounded up, so that no segment starves beside a busy one
        events = -(-size * events_max // total)
        offset = start[segment_id]
        shares.append(SegmentShare(segment_id, offset, offset + share, limits[segment_id], events))
    return {**start, **dict(zip(available, graph.event_boundaries(shares), strict=True))}


def available_bytes(
    position: Mapping[int, int], graph: StreamGraph, *, end: Mapping[int, int] | None = None
) -> int:
    """Return how many bytes :func:`advance` goes without a limit."""
    start = roll(position, graph, fixed=end)
    limits = {segment_id: _limit(segment_id, offset, graph, end) for segment_id, offset in start.items()}
    return sum(_available(start, limits).values())


def shares_of(bytes_max: int, available: Mapping[str, int]) -> dict[str, int]:
    """Divide a limit between streams by what each has, rounded up, so that none starves; 0 is no limit."""
    total = sum(available.values())
    if bytes_max <= 0 or total <= bytes_max:
        return dict.fromkeys(available, 0)
    return {name: max(1, -(-size * bytes_max // total)) for name, size in available.items()}


def _available(start: Mapping[int, int], limits: Mapping[int, int]) -> dict[int, int]:
    return {
        segment_id: limits[segment_id] - offset
        for segment_id, offset in start.items()
        if offset != COMPLETED and limits[segment_id] > offset
    }


def _limit(segment_id: int, offset: int, graph: StreamGraph, end: Mapping[int, int] | None) -> int:
    """How far a segment may be read; its present length unless ``end`` lies in it or in front of it."""
    if end is not None and segment_id in end and end[segment_id] != COMPLETED:
        return min(graph.facts(segment_id).length, end[segment_id])
    if end is not None and segment_id not in end and not leads_to(segment_id, end, graph):
        return offset
    return graph.facts(segment_id).length


def leads_to(segment_id: int, end: Mapping[int, int], graph: StreamGraph) -> bool:
    """Whether ``end`` lies in a segment or behind it, rather than in front of it."""
    seen: set[int] = set()
    waiting = [segment_id]
    while waiting:
        each = waiting.pop()
        if each in end:
            return True
        if each not in seen:
            seen.add(each)
            waiting.extend(graph.successors(each))
    return False


def plan_ranges(start: Mapping[int, int], end: Mapping[int, int], graph: StreamGraph) -> list[SegmentRead]:
    """Return every range between two cuts, across any number of scale events.

    It depends on sealed lengths and the two cuts only, so a replay gives the same ranges although the stream
    has grown and scaled meanwhile.
    """
    ranges: list[SegmentRead] = []
    seen: set[int] = set()
    waiting = sorted(start)
    while waiting:
        segment_id = waiting.pop()
        if segment_id in seen:
            continue
        seen.add(segment_id)
        if segment_id not in end and not leads_to(segment_id, end, graph):
            continue  # the start lies behind the end here
        first = start.get(segment_id, 0)
        stop = end.get(segment_id, COMPLETED)
        if first != COMPLETED:
            if stop == COMPLETED:
                stop = graph.facts(segment_id).length
            if stop > first:
                ranges.append(SegmentRead(segment_id, first, stop))
        if segment_id not in end:
            waiting.extend(child for child in graph.successors(segment_id) if child not in start)
    return sorted(ranges, key=lambda each: each.segment_id)


def later_of(
    position: Mapping[int, int], head: Mapping[int, int], ranges: Mapping[int, KeyRange]
) -> Position:
    """Return for each key the later of two positions: where reading can go on after a truncation to ``head``.

    Of two segments with common keys the larger id is the later one.
    """
    return _of_each_key(position, head, ranges, sign=1)


def earlier_of(one: Mapping[int, int], other: Mapping[int, int], ranges: Mapping[int, KeyRange]) -> Position:
    """Return for each key the earlier of two positions: two bounds as one."""
    return _of_each_key(one, other, ranges, sign=-1)


def _of_each_key(
    one: Mapping[int, int], other: Mapping[int, int], ranges: Mapping[int, KeyRange], *, sign: int
) -> Position:
    chosen: Position = {}
    for mine, theirs in ((one, other), (other, one)):
        for segment_id, offset in mine.items():
            if segment_id in theirs:
                pair = (_rank(offset), _rank(theirs[segment_id]))
                rank = max(pair) if sign > 0 else min(pair)
                chosen[segment_id] = COMPLETED if rank == _END else rank
            elif not any(
                sign * each > sign * segment_id and ranges[each].overlaps(ranges[segment_id])
                for each in theirs
            ):
                chosen[segment_id] = offset
    return dict(sorted(chosen.items()))


def _rank(offset: int) -> int:
    return _END if offset == COMPLETED else offset


def check_cover(position: Mapping[int, int], ranges: Mapping[int, KeyRange]) -> None:
    """Check that a given cut owns every key exactly once.

    Raises:
        InvalidArgumentError: it does not, or names a segment the stream never had.
    """
    unknown = sorted(position.keys() - ranges.keys())
    if unknown:
        raise InvalidArgumentError(f"the cut names segments {unknown}, which the stream does not have")
    reached = 0.0
    for each in sorted((ranges[segment_id] for segment_id in position), key=lambda each: each.low):
        if each.low != reached:
            raise InvalidArgumentError(f"the cut is no position: keys from {reached} on are not covered once")
        reached = each.high
    if reached != 1.0:
        raise InvalidArgumentError(f"the cut is no position: keys from {reached} on are missing")
