"""Extents in order of use, linked through arrays, which the garbage collector does not track."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

END: Final = 0xFFFF_FFFF


class RecencyQueue:
    """One doubly linked list of extents; the links live in arrays shared by all queues, indexed by block
    number.

    The owner makes sure that an extent is in at most one queue at a time.
    """

    __slots__ = ("_after", "_before", "blocks", "count", "newest", "oldest")

    def __init__(self, before: array[int], after: array[int]) -> None:
        self._before = before
        self._after = after
        self.oldest = END
        self.newest = END
        self.count = 0
        self.blocks = 0

    def push(self, block: int, size: int) -> None:
        """Put an extent of ``size`` blocks at the newest end."""
        newest = self.newest
        self._before[block] = newest
        self._after[block] = END
        if newest == END:
            self.oldest = block
        else:
            self._after[newest] = block
        self.newest = block
        self.count += 1
        self.blocks += size

    def remove(self, block: int, size: int) -> None:
        """Remove an extent from any place."""
        before, after = self._before[block], self._after[block]
        if before == END:
            self.oldest = after
        else:
            self._after[before] = after
        if after == END:
            self.newest = before
        else:
            self._before[after] = before
        self.count -= 1
        self.blocks -= size

    def refresh(self, block: int) -> None:
        """Move an extent to the newest end."""
        if self.newest != block:
            self.remove(block, 0)
            self.push(block, 0)

    def __iter__(self) -> Iterator[int]:
        """Extents from the oldest to the newest. For checks."""
        block = self.oldest
        while block != END:
            yield block
            block = self._after[block]
