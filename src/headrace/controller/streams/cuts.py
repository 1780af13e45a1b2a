"""Cuts of one stream: which are valid, how two of them relate, what lies before one. Pure.

A cut maps segment ids to offsets. A negative offset (-1) marks a *future* segment: the position is at its
beginning and no reader has reached it, while everything before it has been read.

What is asked here of each segment of a stream is answered from the segment and the cuts alone. Which segments
have to be asked at all is known beforehand, as a range of the epochs that created them: two segments that
share a part of the key space are never in the same epoch, so whatever follows an entry of a cut was created
when that ended or later, and what precedes it was created before it.

Source: protocol, "Truncation and validity of a cut", "Segments between cuts".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.streams.range_index import RangeIndex
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import FULL_RANGE, KeyRange, any_overlap, join_touching
from headrace.model.segment_id import epoch_of
from headrace.model.stream_cut import COMPLETED, Relation


@dataclass(frozen=True, slots=True)
class PlacedCut:
    """A cut whose segments are known: those that have been reached, and the future ones."""

    offsets: Mapping[int, int]
    reached: list[SegmentRecord]
    future: list[SegmentRecord]

    def entries(self) -> list[SegmentRecord]:
        return self.reached + self.future

    def covers_key_space(self) -> bool:
        """Whether the entries leave no gap in the key space; they may overlap."""
        edge = FULL_RANGE.low
        for part in sorted((segment.key_range for segment in self.entries()), key=lambda each: each.low):
            if part.low > edge:
                return False
            edge = max(edge, part.high)
        return edge == FULL_RANGE.high


def place_cut(cut: Mapping[int, int], segments: Mapping[int, SegmentRecord]) -> PlacedCut:
    """Return ``cut`` with its segments, out of ``segments``, which holds those that the stream had.

    Raises:
        InvalidArgumentError: the stream never had a segment, or an offset is none.
    """
    placed = PlacedCut(cut, [], [])
    for segment_id, offset in cut.items():
        segment = segments.get(segment_id)
        if segment is None:
            raise InvalidArgumentError(f"segment {segment_id} never was a segment of the stream")
        if offset < COMPLETED:  # stored, it would be the head of the stream, which no client could read
            raise InvalidArgumentError(f"segment {segment_id} cannot be cut at {offset}")
        (placed.reached if offset >= 0 else placed.future).append(segment)
    return placed


def check_shape(cut: PlacedCut) -> None:
    """Raise InvalidArgumentError unless the entries fit together; ``SkippedSegments`` tells the rest."""
    if any_overlap([segment.key_range for segment in cut.reached]):
        raise InvalidArgumentError("two segments of the cut that have been reached overlap")
    if not cut.covers_key_space():
        raise InvalidArgumentError("the cut does not cover the key space")
    reached = RangeIndex(cut.reached)
    for future in cut.future:
        if any(other.segment_id > future.segment_id for other in reached.overlapping(future.key_range)):
            raise InvalidArgumentError(f"segment {future.segment_id} is called future but has been passed")


class SkippedSegments:
    """Finds segments that would have to be read and unread: passed at one key, not reached at another.

    A segment is read as a whole before any that follows is reached. Where the position is a future segment,
    everything before it has been read.
    """

    def __init__(self, cut: PlacedCut) -> None:
        pieces = positions(cut)
        self._offsets = cut.offsets
        self._positions = RangeIndex(pieces)
        self._future = RangeIndex(piece for piece in pieces if cut.offsets[piece.segment_id] < 0)

    @staticmethod
    def epochs(cut: PlacedCut, ends: Mapping[int, int]) -> range:
        """Return which epochs created all segments to be checked. ``ends``: see ``EpochReader.ends``."""
        if not cut.future or not ends:
            return range(0)
        return range(min(ends.values()), max(epoch_of(each.segment_id) for each in cut.future))

    def check(self, segments: Iterable[SegmentRecord]) -> None:
        """Raise InvalidArgumentError if one of ``segments`` is skipped."""
        for segment in segments:
            if segment.segment_id in self._offsets:
                continue
            for piece in self._future.overlapping(segment.key_range):
                if piece.segment_id > segment.segment_id and self._is_unread(segment):
                    future, skipped = piece.segment_id, segment.segment_id
                    raise InvalidArgumentError(
                        f"segment {skipped} before the future segment {future} is skipped"
                    )

    def _is_unread(self, segment: SegmentRecord) -> bool:
        """Whether the position is before ``segment`` somewhere."""
        return any(
            other.segment_id < segment.segment_id for other in self._positions.overlapping(segment.key_range)
        )


class SegmentsBetween:
    """Finds the segments that carry data between two cuts, both ends included. None is no limit."""

    def __init__(self, lower: PlacedCut | None, upper: PlacedCut | None) -> None:
        self._lower = RangeIndex(() if lower is None else positions(lower))
        self._upper = RangeIndex(() if upper is None else positions(upper))

    @staticmethod
    def epochs(
        lower: PlacedCut | None, ends: Mapping[int, int], upper: PlacedCut | None, last_epoch: int
    ) -> range:
        """Return which epochs created all segments between, beside those of the cuts.

        ``ends`` are those of the lower cut; see ``EpochReader.ends``.
        """
        first, stop = 0, last_epoch + 1
        if lower is not None and lower.covers_key_space():
            first = min(ends.values(), default=stop)
        if upper is not None and upper.covers_key_space():
            stop = max(epoch_of(each.segment_id) for each in upper.entries())
        return range(first, stop)

    def select(self, segments: Iterable[SegmentRecord]) -> list[int]:
        """Return the ids of those of ``segments`` that lie between."""
        return [
            segment.segment_id
            for segment in segments
            if all(
                segment.segment_id >= each.segment_id for each in self._lower.overlapping(segment.key_range)
            )
            and all(
                segment.segment_id <= each.segment_id for each in self._upper.overlapping(segment.key_range)
            )
        ]


class SegmentsBefore:
    """Finds the segments that hold nothing at or after a cut: every entry that overlaps them is younger."""

    def __init__(self, cut: PlacedCut) -> None:
        self._offsets = cut.offsets
        self._entries = RangeIndex(cut.entries())

    @staticmethod
    def epochs(head: PlacedCut | None, ends: Mapping[int, int], cut: PlacedCut) -> range:
        """Return which epochs created all segments before ``cut`` and not before ``head``, beside the entries
        of ``head``, whose ``ends`` are given. Both cover the key space.
        """
        stop = max(epoch_of(each.segment_id) for each in cut.entries())
        return range(0 if head is None else min(ends.values(), default=stop), stop)

    def holds(self, segment: SegmentRecord) -> bool:
        """Whether ``segment`` lies before the cut."""
        return segment.segment_id not in self._offsets and all(
            entry.segment_id > segment.segment_id for entry in self._entries.overlapping(segment.key_range)
        )


class SegmentsAfter:
    """Finds the segments that hold data after a head, beside its own ``entries``. None is no limit."""

    def __init__(self, head: PlacedCut | None) -> None:
        self.entries = [] if head is None else head.entries()
        self._offsets: Mapping[int, int] = {} if head is None else head.offsets
        self._before = None if head is None else SegmentsBefore(head)

    def holds(self, segment: SegmentRecord) -> bool:
        return segment.segment_id not in self._offsets and (
            self._before is None or not self._before.holds(segment)
        )


def relate_cuts(cut: PlacedCut, other: PlacedCut) -> Relation:
    """Return how ``cut`` lies to ``other``, a cut of the same stream.

    At every key the positions are compared: of two segments there the one with the smaller id is older.
    """
    theirs = RangeIndex(positions(other))
    before = after = False
    for mine in positions(cut):
        for their in theirs.overlapping(mine.key_range):
            if mine.segment_id == their.segment_id:
                smaller = cut.offsets[mine.segment_id] < other.offsets[mine.segment_id]
            else:
                smaller = mine.segment_id < their.segment_id
            before |= smaller
            after |= not smaller
    if before and after:
        return Relation.OVERLAPS
    return Relation.BEFORE if before else Relation.EQUAL_OR_AFTER


def later_of(cut: PlacedCut, other: PlacedCut) -> dict[int, int]:
    """Return, at every key, the later of two positions.

    ``cut`` is made of the segments of one epoch; so at no two keys do the later ones contradict each other.
    """
    theirs = RangeIndex(positions(other))
    later: dict[int, int] = {}
    for mine in positions(cut):
        for their in theirs.overlapping(mine.key_range):
            if mine.segment_id == their.segment_id:
                later[mine.segment_id] = max(cut.offsets[mine.segment_id], other.offsets[mine.segment_id])
            else:
                segment_id = max(mine.segment_id, their.segment_id)
                later[segment_id] = (cut if segment_id == mine.segment_id else other).offsets[segment_id]
    return dict(sorted(later.items()))


def with_beginnings(cut: PlacedCut) -> dict[int, int]:
    """Return the offsets of ``cut``, 0 for a future segment that no other entry in front leads to.

    It is the same position. Clients take -1 there for a segment that was read to its end.
    """
    entries = RangeIndex(cut.entries())
    begun = {
        segment.segment_id: 0
        for segment in cut.future
        if all(other.segment_id >= segment.segment_id for other in entries.overlapping(segment.key_range))
    }
    return {**cut.offsets, **begun}


def positions(cut: PlacedCut) -> list[SegmentRecord]:
    """Return where in the key space each entry of ``cut`` *is* the position, without overlaps.

    A segment that has been reached hides the future ones behind it; of several future ones the oldest counts.
    """
    pieces = list(cut.reached)
    taken = join_touching([segment.key_range for segment in pieces])
    for segment in sorted(cut.future, key=lambda each: each.segment_id):
        free = _without(segment.key_range, taken)
        pieces += [SegmentRecord(segment.segment_id, segment.created_ms, part) for part in free]
        taken = join_touching([*taken, *free])
    return pieces


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


def sorted_cut(cut: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return a cut in the form of rows."""
    return tuple(sorted(cut.items()))
