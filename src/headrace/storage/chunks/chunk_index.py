"""Which chunk holds which byte of one segment, as far as that was needed.

Chunks are linked from the first to the last, one row each, so a chunk is found by offset only after the
links were followed once. That is done as far as needed, as many rows at a time as the caller allows.

The last chunk is not in here: it grows, and the layout has it. No other one ever changes, so appending and
linking change nothing here; truncating removes chunks at the front, and a rewrite says what it replaces.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.storage.chunks.segment_layout import GetRow, SegmentLayout, check_link, load_chunk


@dataclass(slots=True)
class Neighbours:
    """Chunks of a segment that follow each other: the ``number``-th, from 0, is the first of them."""

    number: int
    names: list[str]
    starts: array[int]
    """Where in the segment each of them starts, and where the last of them ends."""


class ChunkIndex:
    """Names and offsets of the chunks of a segment that are known, from its first on.

    Methods that take a layout take the one that is true now.
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

    def neighbours(self, layout: SegmentLayout, offset: int, count_max: int) -> Neighbours:
        """Return the chunk that holds ``offset`` and those behind it, up to one that is not known.

        :meth:`extend` has reached ``offset``, and the segment has a chunk there.
        """
        last, starts = layout.last, self._starts
        assert last is not None
        if offset >= layout.last_start:
            return Neighbours(
                layout.chunk_count - 1, [last.name], array("q", (layout.last_start, layout.length))
            )
        number, _, _ = self.find(offset)
        names = self._names[number : number + count_max]
        found = Neighbours(number, names, starts[number : number + len(names) + 1])
        if number + len(names) == len(starts):
            found.starts.append(self._next_start)
            if self._next_start == layout.last_start and len(names) < count_max:
                names.append(last.name)
                found.starts.append(layout.length)
        return found

    def name_at(self, number: int) -> str:
        """Return the name of a known chunk."""
        return self._names[number]

    def replace(self, old: Neighbours, names: Sequence[str], starts: Sequence[int]) -> None:
        """The chunks ``old`` were replaced by others, which hold the same bytes.

        What is behind them may have to be found again.
        """
        begin, count = old.number, len(old.names)
        known = self._names[begin : begin + count]
        if known == old.names:
            self._names[begin : begin + count] = names
            self._starts[begin : begin + count] = array("q", starts)
        elif known == old.names[:-1] and self._next == old.names[-1]:  # the last one was the segment's, too
            self._names[begin:] = names[:-1]
            self._starts[begin:] = array("q", starts[:-1])
            self._next, self._next_start = names[-1], starts[-1]
        else:
            self.clear()

    def clear(self) -> None:
        """Forget all chunks: they are found again when they are needed."""
        self._names.clear()
        self._starts = array("q")
        self._next, self._next_start = "", -1

    def _align(self, layout: SegmentLayout) -> None:
        """Drop the chunks that the segment has lost at its front; all of them if it is another one now."""
        begin = layout.first_chunk_start
        if self._starts and self._starts[0] < begin <= self._next_start:
            dropped = bisect_left(self._starts, begin)
            del self._names[:dropped], self._starts[:dropped]
        first, start = (self._names[0], self._starts[0]) if self._names else (self._next, self._next_start)
        if first != layout.first_chunk or start != begin or len(self._names) >= max(1, layout.chunk_count):
            self.clear()
            self._next, self._next_start = layout.first_chunk, begin
