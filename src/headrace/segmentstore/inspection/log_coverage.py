"""Which bytes of each segment are in a log: the read index of a replay, with ranges instead of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(slots=True)
class LogRange:
    """``[offset, end)`` of a segment is in the log, or is the content of ``source`` when it was merged."""

    offset: int
    end: int
    source: SegmentState | None = None


class LogCoverage:
    """Receives from a replay what a read index would. Consecutive appends are joined, so its size depends on
    the segments, not on the events.
    """

    def __init__(self) -> None:
        self._ranges: dict[SegmentState, list[LogRange]] = {}

    def append(self, segment: SegmentState, offset: int, data: memoryview) -> None:
        """See ``ReadIndex.append``; the bytes are not stored."""
        ranges = self._ranges.setdefault(segment, [])
        if ranges and ranges[-1].end == offset and ranges[-1].source is None:
            ranges[-1].end += len(data)
        else:
            ranges.append(LogRange(offset, offset + len(data)))

    def begin_merge(self, target: SegmentState, offset: int, source: SegmentState, length: int) -> None:
        """See ``ReadIndex.begin_merge``."""
        if length:
            self._ranges.setdefault(target, []).append(LogRange(offset, offset + length, source))

    def on_changed(self, segment: SegmentState) -> None:
        """See ``ReadIndex.on_changed``; there are no readers, and nothing is freed."""

    def drop(self, segment: SegmentState) -> None:
        """See ``ReadIndex.drop``: the segment was evicted."""
        self._ranges.pop(segment, None)

    def free_unneeded(self, segment: SegmentState) -> None:
        """See ``ReadIndex.free_unneeded``; the ranges stay, they are reported and take little memory."""

    def ranges(self, segment: SegmentState) -> list[LogRange]:
        """Return the ranges of a segment in the log, in order, stored or not."""
        return self._ranges.get(segment, [])

    def unstored(self, segment: SegmentState) -> list[LogRange]:
        """Return the unstored ranges of a segment."""
        stored = segment.stored_length
        return [
            LogRange(max(item.offset, stored), item.end, item.source)
            for item in self.ranges(segment)
            if item.end > stored
        ]

    def first_uncovered(self, segment: SegmentState) -> int | None:
        """Return the first durable offset that is neither in storage nor in the log, or None.

        A merged range is covered if its source is, while storage has not joined them.
        """
        # Merges nest without a bound: a list, innermost sources last, and no recursion.
        involved = [segment]
        for each in involved:
            involved += [item.source for item in self.unstored(each) if item.source is not None]
        missing: dict[SegmentState, int | None] = {}
        for each in reversed(involved):
            missing[each] = self._first_missing(each, missing)
        return missing[segment]

    def _first_missing(self, segment: SegmentState, missing: dict[SegmentState, int | None]) -> int | None:
        """Answer for one segment, given the answers for its sources."""
        position = segment.stored_length
        for item in self.unstored(segment):
            if item.offset > position or (item.source is not None and missing[item.source] is not None):
                break
            position = max(position, item.end)
        return position if position < segment.durable_length else None
