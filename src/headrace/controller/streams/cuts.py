"""Cuts of one stream: which are valid, how two of them relate, what lies before one. Pure.

A cut maps segment ids to offsets. A negative offset (-1) marks a *future* segment: the position is at its
beginning and no reader has reached it, while everything before it has been read.

Source: protocol, "Truncation and validity of a cut", "Segments between cuts".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.streams.epochs import EpochHistory
from headrace.controller.streams.range_index import RangeIndex
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import FULL_RANGE, KeyRange, any_overlap, join_touching
from headrace.model.stream_cut import COMPLETED, Relation


@dataclass(slots=True)
class _Parts:
    """The segments of a cut, by kind."""

    reached: list[SegmentRecord]
    future: list[SegmentRecord]


def check_cut(history: EpochHistory, cut: Mapping[int, int]) -> None:
    """Raise unless ``cut`` is a position a reader of the whole stream can be in.

    Raises:
        InvalidArgumentError: naming the rule that is broken.
    """
    parts = _parts(history, cut)
    if any_overlap([segment.key_range for segment in parts.reached]):
        raise InvalidArgumentError("two segments of the cut that have been reached overlap")
    if not _covers([segment.key_range for segment in (*parts.reached, *parts.future)]):
        raise InvalidArgumentError("the cut does not cover the key space")
    reached = RangeIndex(parts.reached)
    for future in parts.future:
        if any(other.segment_id > future.segment_id for other in reached.overlapping(future.key_range)):
            raise InvalidArgumentError(f"segment {future.segment_id} is called future but has been passed")
    if parts.future:
        _check_nothing_is_skipped(history, cut)


def _check_nothing_is_skipped(history: EpochHistory, cut: Mapping[int, int]) -> None:
    """Raise if some segment would have to be read and unread: passed at one key, not reached at another.

    A segment is read as a whole before any that follows is reached. Where the position is a future segment,
    everything before it has been read.
    """
    pieces = positions(history, cut)
    index, segments = RangeIndex(pieces), RangeIndex(history.segments())
    for piece in pieces:
        if cut[piece.segment_id] >= 0:
            continue
        for passed in segments.overlapping(piece.key_range):
            if passed.segment_id in cut or passed.segment_id > piece.segment_id:
                continue
            if any(other.segment_id < passed.segment_id for other in index.overlapping(passed.key_range)):
                raise InvalidArgumentError(
                    f"segment {passed.segment_id} before the future segment {piece.segment_id} is skipped"
                )


def is_valid_cut(history: EpochHistory, cut: Mapping[int, int]) -> bool:
    try:
        check_cut(history, cut)
    except InvalidArgumentError:
        return False
    return True


def relate(history: EpochHistory, cut: Mapping[int, int], other: Mapping[int, int]) -> Relation:
    """Return how ``cut`` lies to ``other``; both are cuts of this history.

    At every key the positions are compared: of two segments there the one with the smaller id is older.
    """
    theirs = RangeIndex(positions(history, other))
    before = after = False
    for mine in positions(history, cut):
        for their in theirs.overlapping(mine.key_range):
            if mine.segment_id == their.segment_id:
                smaller = cut[mine.segment_id] < other[mine.segment_id]
            else:
                smaller = mine.segment_id < their.segment_id
            before |= smaller
            after |= not smaller
    if before and after:
        return Relation.OVERLAPS
    return Relation.BEFORE if before else Relation.EQUAL_OR_AFTER


def later_of(history: EpochHistory, cut: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Return, at every key, the later of two positions.

    ``cut`` is made of the segments of one epoch; so at no two keys do the later ones contradict each other.
    """
    theirs = RangeIndex(positions(history, other))
    later: dict[int, int] = {}
    for mine in positions(history, cut):
        for their in theirs.overlapping(mine.key_range):
            if mine.segment_id == their.segment_id:
                later[mine.segment_id] = max(cut[mine.segment_id], other[mine.segment_id])
            else:
                segment_id = max(mine.segment_id, their.segment_id)
                later[segment_id] = (cut if segment_id == mine.segment_id else other)[segment_id]
    return dict(sorted(later.items()))


def positions(history: EpochHistory, cut: Mapping[int, int]) -> list[SegmentRecord]:
    """Return where in the key space each entry of ``cut`` *is* the position, without overlaps.

    A segment that has been reached hides the future ones behind it; of several future ones the oldest counts.
    """
    parts = _parts(history, cut)
    pieces = list(parts.reached)
    taken = join_touching([segment.key_range for segment in pieces])
    for segment in sorted(parts.future, key=lambda each: each.segment_id):
        free = _without(segment.key_range, taken)
        pieces += [SegmentRecord(segment.segment_id, segment.created_ms, part) for part in free]
        taken = join_touching([*taken, *free])
    return pieces


def segments_between(history: EpochHistory, lower: Mapping[int, int], upper: Mapping[int, int]) -> list[int]:
    """Return the ids of all segments that carry data between two cuts, both ends included.

    An empty cut is no limit.
    """
    from_index = RangeIndex(positions(history, lower))
    to_index = RangeIndex(positions(history, upper))
    return [
        segment.segment_id
        for segment in history.segments()
        if all(segment.segment_id >= other.segment_id for other in from_index.overlapping(segment.key_range))
        and all(segment.segment_id <= other.segment_id for other in to_index.overlapping(segment.key_range))
    ]


def segments_before(history: EpochHistory, cut: Mapping[int, int]) -> set[int]:
    """Return the segments that hold nothing at or after ``cut``: every entry that overlaps them is
    younger.
    """
    entries = RangeIndex(_records(history, cut))
    return {
        segment.segment_id
        for segment in history.segments()
        if segment.segment_id not in cut
        and all(entry.segment_id > segment.segment_id for entry in entries.overlapping(segment.key_range))
    }


def _parts(history: EpochHistory, cut: Mapping[int, int]) -> _Parts:
    parts = _Parts([], [])
    for segment_id, offset in cut.items():
        segment = history.find_segment(segment_id)
        if segment is None:
            raise InvalidArgumentError(f"segment {segment_id} never was a segment of the stream")
        if offset < COMPLETED:  # stored, it would be the head of the stream, which no client could read
            raise InvalidArgumentError(f"segment {segment_id} cannot be cut at {offset}")
        (parts.reached if offset >= 0 else parts.future).append(segment)
    return parts


def _records(history: EpochHistory, cut: Mapping[int, int]) -> list[SegmentRecord]:
    parts = _parts(history, cut)
    return parts.reached + parts.future


def _without(whole: KeyRange, taken: list[KeyRange]) -> list[KeyRange]:
    """Return the parts of ``whole`` outside ``taken``, which is sorted and without overlaps."""
    parts: list[KeyRange] = []
    low = whole.low
    for other in taken[bisect_right(taken, whole.low, key=lambda each: each.high) :]:
        if other.low >= whole.high:
            break
        if other.low > low:
            parts.append(KeyRange(low, other.low))
        low = max(low, other.high)
    if low < whole.high:
        parts.append(KeyRange(low, whole.high))
    return parts


def _covers(ranges: list[KeyRange]) -> bool:
    """Whether the ranges leave no gap in the key space; here they may overlap."""
    edge = FULL_RANGE.low
    for part in sorted(ranges, key=lambda each: each.low):
        if part.low > edge:
            return False
        edge = max(edge, part.high)
    return edge == FULL_RANGE.high
