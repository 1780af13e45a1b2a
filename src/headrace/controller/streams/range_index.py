"""Which segments of a set overlap a range, without looking at all of them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.model.key_space import KeyRange


class RangeIndex:
    """A fixed set of segments. A query costs a binary search and little more than its answers, as long as few
    of the segments overlap each other (those of one epoch or of one cut do not).
    """

    __slots__ = ("_highest", "_lows", "_segments")

    def __init__(self, segments: Iterable[SegmentRecord]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.key_range.low)
        self._lows = [segment.key_range.low for segment in self._segments]
        self._highest: list[float] = []
        """The highest upper bound up to each position: where to stop looking to the left."""
        highest = 0.0
        for segment in self._segments:
            highest = max(highest, segment.key_range.high)
            self._highest.append(highest)

    def overlapping(self, key_range: KeyRange) -> Iterator[SegmentRecord]:
        """Yield the segments that share a part of ``key_range``, from right to left."""
        position = bisect_left(self._lows, key_range.high) - 1
        while position >= 0 and self._highest[position] > key_range.low:
            segment = self._segments[position]
            if segment.key_range.high > key_range.low:
                yield segment
            position -= 1
