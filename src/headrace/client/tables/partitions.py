"""Which partition of a table has a primary key. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from headrace.client.segment_map import SegmentRange
from headrace.model.key_space import table_key_position


class Partitions:
    """The segments of a table in the order of their key ranges; they never change."""

    __slots__ = ("_highs", "segment_ids")

    def __init__(self, ranges: Iterable[SegmentRange]) -> None:
        ordered = sorted(ranges, key=lambda each: each.key_range.high)
        self._highs = [each.key_range.high for each in ordered[:-1]]  # the last one has all that is above
        self.segment_ids = [each.segment_id for each in ordered]

    def segment_of(self, primary_key: bytes) -> int:
        """Return the id of the segment that has the key."""
        if not self._highs:
            return self.segment_ids[0]
        return self.segment_ids[bisect_left(self._highs, table_key_position(primary_key))]
