"""Which segment receives which part of the key space, and how that changes when a segment is sealed. Pure.

The map is an ascending list of upper bounds, each with the segment in front of it. It follows the stream
one sealed segment at a time, so that after the first half of a merge the other half's keys still go to the
segment they went to before: that segment's own seal redirects them, behind everything that was written to
it.

Source: protocol, "Replacing ranges in the segment map".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Final

from headrace.client.vectors import find_numpy
from headrace.errors import ProtocolError
from headrace.model.key_space import KeyRange

_HIGH_TOLERANCE: Final = 1.00001
"""Peers compute bounds in floating point; the last one may miss 1.0 by a little."""

_SHORT_NUMBERS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """A segment and the part of the key space it was created with."""

    segment_id: int
    key_range: KeyRange


@dataclass(frozen=True, slots=True)
class Successor:
    """A segment with the ids of all its predecessors."""

    segment_id: int
    key_range: KeyRange
    predecessors: tuple[int, ...]


class SegmentMap:
    """Upper bounds of ranges and their segments. Mutated by one owner.

    Raises:
        ProtocolError: from the constructor and :meth:`replace`, if segments do not cover the key space.
    """

    __slots__ = ("_ranges", "highs", "ids")

    def __init__(self, segments: Iterable[SegmentRange]) -> None:
        ordered = sorted(segments, key=lambda each: each.key_range.high)
        edge = 0.0
        for each in ordered:
            if each.key_range.low != edge or each.key_range.high <= edge:
                raise ProtocolError(f"segment {each.segment_id} covers {each.key_range}, not from {edge}")
            edge = each.key_range.high
        if not 1.0 <= edge < _HIGH_TOLERANCE:
            raise ProtocolError(f"the segments of the stream end at {edge} instead of 1.0")
        self.highs: list[float] = [each.key_range.high for each in ordered]
        """Ascending upper bounds. Callers do not change them."""
        self.ids: list[int] = [each.segment_id for each in ordered]
        """The segment in front of each bound. Callers do not change them."""
        self._ranges = {each.segment_id: each.key_range for each in ordered}

    def segment_at(self, position: float) -> int:
        """Return the segment that receives events at ``position`` in [0, 1]."""
        return self.ids[min(bisect_left(self.highs, position), len(self.ids) - 1)]

    def targets(self, positions: Any) -> int | list[tuple[int, Any]]:
        """Return the segments that receive events at these positions.

        Args:
            positions: one number, a list, or a numpy array.

        Returns:
            One segment, if it receives all; otherwise segments with the indices of their events, ascending.
        """
        if isinstance(positions, float):
            return self.segment_at(positions)
        if len(self.ids) == 1:
            return self.ids[0]
        ids, bounds, order = self.arrange(positions)
        if len(ids) == 1:
            return ids[0]
        return [
            (segment_id, order[begin:end])
            for segment_id, (begin, end) in zip(ids, pairwise(bounds), strict=True)
        ]

    def arrange(self, positions: Any) -> tuple[list[int], list[int], Any]:
        """Put events in the order of the segments that receive them, and leave them in order within each.

        Args:
            positions: a list, or a numpy array; not empty.

        Returns:
            The segments; bounds, one more; the indices of events, a list or a numpy array. Segment ``i``
            receives ``indices[bounds[i]:bounds[i + 1]]``.
        """
        np = find_numpy()
        if np is None or isinstance(positions, list):
            groups: list[list[int]] = [[] for _ in self.ids]
            inner = self.highs[:-1]
            for index, position in enumerate(positions):
                groups[bisect_left(inner, position)].append(index)
            ids = [self.ids[owner] for owner, group in enumerate(groups) if group]
            groups = [group for group in groups if group]
            return ids, [0, *accumulate(map(len, groups))], list(chain(*groups))
        # Positions behind the last inner bound belong to the last segment, however its own bound was rounded.
        owners = np.searchsorted(self.highs[:-1], positions)
        if len(self.ids) <= _SHORT_NUMBERS:
            owners = owners.astype(np.uint16)  # which is sorted eight times as fast
        order = np.argsort(owners, kind="stable")
        grouped = owners[order]
        begins = [0, *(np.flatnonzero(grouped[1:] != grouped[:-1]) + 1).tolist()]
        ids = [self.ids[owner] for owner in grouped[begins].tolist()]
        return ids, [*begins, len(order)], order

    def __contains__(self, segment_id: int) -> bool:
        return segment_id in self._ranges

    def segments(self) -> list[int]:
        """Return every segment once, in the order of their ids."""
        return sorted(self._ranges)

    def range_of(self, segment_id: int) -> KeyRange:
        """Return the part of the key space that a segment was created with."""
        return self._ranges[segment_id]

    def replace(self, sealed: int, successors: Sequence[Successor]) -> None:
        """Give the part of the key space that ``sealed`` has to those of ``successors`` that continue it.

        Raises:
            ProtocolError: the successors leave a gap, or the segment is not in the map; nothing changed.
        """
        heirs = sorted(
            (each for each in successors if sealed in each.predecessors),
            key=lambda each: each.key_range.high,
        )
        self._refuse_gaps(sealed, heirs)
        highs: list[float] = []
        ids: list[int] = []
        ranges = {each.segment_id: each.key_range for each in heirs}
        low = 0.0
        for high, segment_id in zip(self.highs, self.ids, strict=True):
            if segment_id != sealed:
                highs.append(high)
                ids.append(segment_id)
            else:
                for heir in heirs:
                    # An heir takes what lies between the bound below and this one, no more.
                    if heir.key_range.high <= low or heir.key_range.low >= high:
                        continue
                    highs.append(min(heir.key_range.high, high))
                    ids.append(heir.segment_id)
            low = high
        self._adopt(highs, ids, ranges)

    def _refuse_gaps(self, sealed: int, heirs: Sequence[Successor]) -> None:
        if sealed not in self._ranges:
            raise ProtocolError(f"segment {sealed} is not one of the stream's current segments")
        if not heirs:
            raise ProtocolError(f"none of the segments that follow continues segment {sealed}")
        for below, above in pairwise(heirs):
            if below.key_range.high != above.key_range.low:
                raise ProtocolError(f"the successors of segment {sealed} leave a gap or overlap")
        mine = self._ranges[sealed]
        union = KeyRange(heirs[0].key_range.low, heirs[-1].key_range.high)
        if not union.covers(mine):
            raise ProtocolError(f"the successors of segment {sealed} cover {union}, not all of {mine}")

    def _adopt(self, highs: list[float], ids: list[int], ranges: dict[int, KeyRange]) -> None:
        """Take the new map, joining neighbours that belong to the same segment."""
        self.highs, self.ids = [], []
        for high, segment_id in zip(highs, ids, strict=True):
            if self.ids and self.ids[-1] == segment_id:
                self.highs[-1] = high
            else:
                self.highs.append(high)
                self.ids.append(segment_id)
        known = self._ranges | ranges
        self._ranges = {segment_id: known[segment_id] for segment_id in dict.fromkeys(self.ids)}
        self.check()

    def check(self) -> None:
        """Assert that the whole key space has receivers."""
        assert len(self.highs) == len(self.ids) > 0
        assert all(low < high for low, high in pairwise(self.highs))
        assert self.highs[0] > 0.0
        assert 1.0 <= self.highs[-1] < _HIGH_TOLERANCE
        assert set(self.ids) == set(self._ranges)
