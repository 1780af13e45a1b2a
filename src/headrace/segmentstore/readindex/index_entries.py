"""Which extent holds which offset of a segment: a sorted map in two levels of arrays, invisible to the
collector.

Appends go to the end, eviction takes from the front, a storage read rarely inserts in between. Pages of up to
512 entries keep the worst of these a move of a few kilobytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

PAGE_ENTRIES_MAX: Final = 512


class IndexEntries:
    """Offsets to block numbers. Offsets are unique; extents know their own lengths."""

    __slots__ = ("_blocks", "_firsts", "_offsets", "count")

    def __init__(self) -> None:
        self._firsts = array("Q")  # first offset of each page; pages are never empty
        self._offsets: list[array[int]] = []
        self._blocks: list[array[int]] = []
        self.count = 0

    def push(self, offset: int, block: int) -> None:
        """Add an entry behind all others."""
        pages = self._offsets
        if not pages or len(pages[-1]) >= PAGE_ENTRIES_MAX:
            self._firsts.append(offset)
            pages.append(array("Q"))
            self._blocks.append(array("I"))
        pages[-1].append(offset)
        self._blocks[-1].append(block)
        self.count += 1

    def insert(self, offset: int, block: int) -> None:
        """Add an entry anywhere."""
        page = bisect_right(self._firsts, offset) - 1
        if page == len(self._firsts) - 1 and (page < 0 or offset > self._offsets[page][-1]):
            self.push(offset, block)
            return
        page = max(page, 0)
        offsets, blocks = self._offsets[page], self._blocks[page]
        slot = bisect_right(offsets, offset)
        offsets.insert(slot, offset)
        blocks.insert(slot, block)
        self._firsts[page] = offsets[0]
        self.count += 1
        if len(offsets) > PAGE_ENTRIES_MAX:
            half = len(offsets) // 2
            self._firsts.insert(page + 1, offsets[half])
            self._offsets.insert(page + 1, offsets[half:])
            self._blocks.insert(page + 1, blocks[half:])
            del offsets[half:]
            del blocks[half:]

    def remove(self, offset: int) -> int:
        """Take out the entry that begins at ``offset`` and answer its block. It must exist."""
        page = bisect_right(self._firsts, offset) - 1
        offsets = self._offsets[page]
        slot = bisect_right(offsets, offset) - 1
        assert offsets[slot] == offset
        block = self._blocks[page][slot]
        self.count -= 1
        if len(offsets) == 1:
            del self._firsts[page], self._offsets[page], self._blocks[page]
        else:
            del offsets[slot], self._blocks[page][slot]
            if not slot:
                self._firsts[page] = offsets[0]
        return block

    def floor(self, offset: int) -> tuple[int, int]:
        """Return the last entry that begins at or before ``offset`` as (offset, block), or (-1, -1)."""
        page = bisect_right(self._firsts, offset) - 1
        if page < 0:
            return -1, -1
        offsets = self._offsets[page]
        slot = bisect_right(offsets, offset) - 1
        return offsets[slot], self._blocks[page][slot]

    def from_floor(self, offset: int) -> Iterator[tuple[int, int]]:
        """Entries as (offset, block), from the last one that begins at or before ``offset`` (or the first)
        on.

        The map must not change while the iterator is used.
        """
        page = bisect_right(self._firsts, offset) - 1
        slot = 0 if page < 0 else bisect_right(self._offsets[page], offset) - 1
        for number in range(max(page, 0), len(self._offsets)):
            offsets, blocks = self._offsets[number], self._blocks[number]
            while slot < len(offsets):
                yield offsets[slot], blocks[slot]
                slot += 1
            slot = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self.from_floor(0)

    def check(self) -> None:
        """Assert order and the directory of pages."""
        assert len(self._firsts) == len(self._offsets) == len(self._blocks)
        before = -1
        count = 0
        for first, offsets, blocks in zip(self._firsts, self._offsets, self._blocks, strict=True):
            assert 0 < len(offsets) <= PAGE_ENTRIES_MAX
            assert len(offsets) == len(blocks)
            assert first == offsets[0]
            for offset in offsets:
                assert offset > before
                before = offset
            count += len(offsets)
        assert count == self.count
