"""Which extent has which offset of a segment: two sorted arrays, which the collector does not track.

Appends add at the end, eviction removes from the front, a storage read rarely inserts in between: that moves
the entries behind, half a megabyte for a segment of 45,000 extents.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

REMOVED_MAX: Final = 512
"""Removed entries at the front; more are deleted once they are half of all."""


class IndexEntries:
    """Offsets to block numbers. Offsets are unique; extents know their own lengths."""

    __slots__ = ("_blocks", "_offsets", "_removed")

    def __init__(self) -> None:
        self._offsets = array("Q")
        self._blocks = array("I")
        self._removed = 0  # removed entries at the front

    @property
    def count(self) -> int:
        return len(self._offsets) - self._removed

    def push(self, offset: int, block: int) -> None:
        """Add an entry behind all others."""
        self._offsets.append(offset)
        self._blocks.append(block)

    def insert(self, offset: int, block: int) -> None:
        """Add an entry anywhere."""
        slot = bisect_right(self._offsets, offset, self._removed)
        self._offsets.insert(slot, offset)
        self._blocks.insert(slot, block)

    def remove(self, offset: int) -> int:
        """Remove the entry that begins at ``offset`` and return its block. It must exist."""
        offsets, blocks = self._offsets, self._blocks
        slot = bisect_right(offsets, offset, self._removed) - 1
        assert offsets[slot] == offset
        block = blocks[slot]
        if slot > self._removed:
            del offsets[slot], blocks[slot]
            return block
        self._removed += 1
        if self._removed == len(offsets) or (
            self._removed > REMOVED_MAX and 2 * self._removed > len(offsets)
        ):
            del offsets[: self._removed], blocks[: self._removed]
            self._removed = 0
        return block

    def floor(self, offset: int) -> tuple[int, int]:
        """Return the last entry that begins at or before ``offset`` as (offset, block), or (-1, -1)."""
        slot = bisect_right(self._offsets, offset, self._removed) - 1
        return (self._offsets[slot], self._blocks[slot]) if slot >= self._removed else (-1, -1)

    def from_floor(self, offset: int) -> Iterator[tuple[int, int]]:
        """Entries as (offset, block), from the last one that begins at or before ``offset`` (or the first)
        on.

        The map must not change while the iterator is used.
        """
        first = bisect_right(self._offsets, offset, self._removed) - 1
        for slot in range(max(first, self._removed), len(self._offsets)):
            yield self._offsets[slot], self._blocks[slot]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self.from_floor(0)

    def check(self) -> None:
        """Assert that offsets are in order, each with its block."""
        offsets = self._offsets
        assert len(offsets) == len(self._blocks)
        assert 0 <= self._removed <= REMOVED_MAX + len(offsets) // 2
        assert all(offsets[slot - 1] < offsets[slot] for slot in range(self._removed + 1, len(offsets)))
