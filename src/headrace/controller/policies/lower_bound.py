"""The lower bound of subscribers: a position behind which lies everything that one of them still needs. Pure.

At every key it is the least of what the subscribers reported, over whatever scales lie between their
positions: of two segments that share keys the one with the smaller id is older.

Source: protocol, "Retention", "Subscribers and reader groups".
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.model.key_space import KeyRange

FindSegment = Callable[[int], SegmentRecord | None]


class LowerBound:
    """Grows by one reported cut after the other; ``offsets`` is a cut, or empty while nothing was reported.

    The time of one cut follows its length, as long as few segments of the bound overlap each other.
    """

    def __init__(self, find_segment: FindSegment) -> None:
        self.offsets: dict[int, int] = {}
        self._find = find_segment
        self._ranges: dict[int, KeyRange] = {}
        self._order: list[tuple[float, int]] = []
        """(lower bound of the range, id) of every entry, sorted."""
        self._widest = 0.0

    def include(self, cut: Mapping[int, int]) -> None:
        """Take the position of one more subscriber into account. Segments that never were are ignored."""
        for segment_id, offset in sorted(cut.items()):
            present = self.offsets.get(segment_id)
            if present is not None:
                self.offsets[segment_id] = min(present, offset)
                continue
            segment = self._find(segment_id)
            if segment is not None:
                self._include(segment, offset)

    def _include(self, segment: SegmentRecord, offset: int) -> None:
        overlapping = list(self._overlapping(segment.key_range))
        older = [each for each in overlapping if each < segment.segment_id]
        if self._are_covering(older, segment.key_range) if offset < 0 else older:
            return
        self._add(segment, offset)
        for other in overlapping:
            # A future segment, too, replaces younger ones: they cannot be reached before it is.
            if other > segment.segment_id and (self.offsets[other] >= 0 or self._is_covered(other)):
                self._remove(other)

    def _is_covered(self, segment_id: int) -> bool:
        """Whether entries that are older share all of its keys."""
        key_range = self._ranges[segment_id]
        older = [each for each in self._overlapping(key_range) if each < segment_id]
        return self._are_covering(older, key_range)

    def _are_covering(self, entries: list[int], key_range: KeyRange) -> bool:
        edge = key_range.low
        for part in sorted((self._ranges[each] for each in entries), key=lambda each: each.low):
            if part.low > edge:
                return False
            edge = max(edge, part.high)
        return edge >= key_range.high

    def _overlapping(self, key_range: KeyRange) -> Iterator[int]:
        at = bisect_left(self._order, (key_range.high, -1)) - 1
        while at >= 0 and self._order[at][0] + self._widest > key_range.low:
            segment_id = self._order[at][1]
            if self._ranges[segment_id].high > key_range.low:
                yield segment_id
            at -= 1

    def _add(self, segment: SegmentRecord, offset: int) -> None:
        self.offsets[segment.segment_id] = offset
        self._ranges[segment.segment_id] = segment.key_range
        self._widest = max(self._widest, segment.key_range.high - segment.key_range.low)
        insort(self._order, (segment.key_range.low, segment.segment_id))

    def _remove(self, segment_id: int) -> None:
        low = self._ranges.pop(segment_id).low
        del self.offsets[segment_id]
        del self._order[bisect_left(self._order, (low, segment_id))]
