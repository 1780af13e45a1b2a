"""Which chunk holds which byte of one segment, as far as that was needed.

Chunks are linked from the first to the last, one row each, so a chunk is found by offset only after the
links were followed once. That is done as far as needed, as many rows at a time as the caller allows.

The last chunk is not in here: it grows, and the layout has it. No other one ever changes, so appending and
linking change nothing here; truncating removes chunks at the front.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from headrace.storage.chunks.segment_layout import GetRow, SegmentLayout, check_link, load_chunk


class ChunkIndex:
    """Names and offsets of the chunks of a segment that are known, from its first on.

    All methods but :meth:`find` take the layout that is true now.
    """

    __slots__ = ("_names", "_next", "_next_start", "_starts")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._starts = array("q")
        """Offset in the segment of each chunk's first byte."""

        self._next = ""
        """The chunk behind those known; where it starts follows."""

        self._next_start = 0

    def __len__(self) -> int:
        return len(self._names)

    def extend(self, layout: SegmentLayout, begin: int, end: int, get: GetRow, rows_max: int) -> int:
        """Follow the links until all chunks of ``[begin, end)`` are known but the last one of the segment. If
        that holds it all, no row is read.

        Returns:
            How many of ``rows_max`` rows are left; -1 if they were not enough.

        Raises:
            DataCorruptionError: a row is damaged or missing, or they contradict each other.
        """
        self._align(layout)
        if begin >= layout.last_start:
            return rows_max
        end = min(end, layout.last_start)
        while self._next_start < end:
            if rows_max <= 0:
                return -1
            rows_max -= 1
            chunk, following = load_chunk(self._next, get)
            check_link(layout, chunk, self._next_start, following, len(self._names) + 1)
            self._names.append(chunk.name)
            self._starts.append(self._next_start)
            self._next = following
            self._next_start += chunk.length
        return rows_max

    def find(self, offset: int) -> tuple[int, str, int]:
        """Return number from 0, name and start of the known chunk that holds ``offset``. O(log chunks)."""
        number = bisect_right(self._starts, offset) - 1
        assert number >= 0
        assert offset < self._next_start
        return number, self._names[number], self._starts[number]

    def _align(self, layout: SegmentLayout) -> None:
        """Drop the chunks that the segment has lost at its front; all of them if it is another one now."""
        begin = layout.first_chunk_start
        if self._starts and self._starts[0] < begin <= self._next_start:
            dropped = bisect_left(self._starts, begin)
            del self._names[:dropped], self._starts[:dropped]
        first, start = (self._names[0], self._starts[0]) if self._names else (self._next, self._next_start)
        if first != layout.first_chunk or start != begin or len(self._names) >= max(1, layout.chunk_count):
            self._names.clear()
            self._starts = array("q")
            self._next, self._next_start = layout.first_chunk, begin
