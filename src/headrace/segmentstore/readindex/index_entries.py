"""Which extent holds which offset of a segment: two sorted arrays, invisible to the collector.

Appends go to the end, eviction takes from the front, a storage read rarely inserts in between: that moves
what lies behind, half a megabyte for a segment that has 45,000 extents.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

GONE_MAX: Final = 512
"""Entries taken from the front that are kept until they are half of all."""


class IndexEntries:
    """Offsets to block numbers. Offsets are unique; extents know their own lengths."""

    __slots__ = ("_blocks", "_gone", "_offsets")

    def __init__(self) -> None:
        self._offsets = array("Q")
        self._blocks = array("I")
        self._gone = 0  # so many at the front are not there any more

    @property
    def count(self) -> int:
        return len(self._offsets) - self._gone

    def push(self, offset: int, block: int) -> None:
        """Add an entry behind all others."""
        self._offsets.append(offset)
        self._blocks.append(block)

    def insert(self, offset: int, block: int) -> None:
        """Add an entry anywhere."""
        slot = bisect_right(self._offsets, offset, self._gone)
        self._offsets.insert(slot, offset)
        self._blocks.insert(slot, block)

    def remove(self, offset: int) -> int:
        """Take out the entry that begins at ``offset`` and answer its block. It must exist."""
        offsets, blocks = self._offsets, self._blocks
        slot = bisect_right(offsets, offset, self._gone) - 1
        assert offsets[slot] == offset
        block = blocks[slot]
        if slot > self._gone:
            del offsets[slot], blocks[slot]
            return block
        self._gone += 1
        if self._gone == len(offsets) or (self._gone > GONE_MAX and 2 * self._gone > len(offsets)):
            del offsets[: self._gone], blocks[: self._gone]
            self._gone = 0
        return block

    def floor(self, offset: int) -> tuple[int, int]:
        """Return the last entry that begins at or before ``offset`` as (offset, block), or (-1, -1)."""
        slot = bisect_right(self._offsets, offset, self._gone) - 1
        return (self._offsets[slot], self._blocks[slot]) if slot >= self._gone else (-1, -1)

    def from_floor(self, offset: int) -> Iterator[tuple[int, int]]:
        """Entries as (offset, block), from the last one that begins at or before ``offset`` (or the first)
        on.

        The map must not change while the iterator is used.
        """
        first = bisect_right(self._offsets, offset, self._gone) - 1
        for slot in range(max(first, self._gone), len(self._offsets)):
            yield self._offsets[slot], self._blocks[slot]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self.from_floor(0)

    def check(self) -> None:
        """Assert that offsets are in order, each with its block."""
        offsets = self._offsets
        assert len(offsets) == len(self._blocks)
        assert 0 <= self._gone <= GONE_MAX + len(offsets) // 2
        assert all(offsets[slot - 1] < offsets[slot] for slot in range(self._gone + 1, len(offsets)))
