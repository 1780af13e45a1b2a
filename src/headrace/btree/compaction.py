"""Which pages an update moves to the end of the log, so that the log can be truncated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.btree.footer_format import TreeRoot
from headrace.btree.page_format import HEADER_BYTES, POINTER, Page

_FEW_CHILDREN: Final = 64


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """How many pages an update moves besides those that it changes."""

    move_lowest: bool = True
    """The page with the lowest offset is written by every update, changed or not."""
    pages_max: int = 64
    """Further pages that one update moves, at most; 0: the log has no bound."""
    factor: float = 2.5
    """Pages are moved while the log behind the lowest offset is longer than so many times the live bytes."""
    append_split: bool = True
    """The last page of a level stays full when it is split."""

    def lowest_wanted(self, root: TreeRoot) -> int:
        """Return the offset below which pages of a tree are to be moved."""
        if root.page is None:
            return 0
        moved = root.lowest + 1 if self.move_lowest else 0
        return max(moved, root.end - int(self.factor * root.live_bytes)) if self.pages_max else moved


def lowest_of_children(page: Page, count: int, key_bytes: int) -> int:
    """Return the lowest offset in the subtrees of an index page."""
    if count >= _FEW_CHILDREN:
        from headrace.btree.many import read_lowest  # loads numpy

        return int(read_lowest(page, count, key_bytes).min())
    return min(_read_lowest(page, count, key_bytes))


def children_below(page: Page, count: int, key_bytes: int, bound: int) -> list[tuple[int, int]]:
    """Return the children of an index page whose subtrees begin below ``bound``: lowest offset, slot."""
    if count >= _FEW_CHILDREN:
        from headrace.btree.many import find_below, read_lowest  # loads numpy

        return find_below(read_lowest(page, count, key_bytes), bound)
    lowest = _read_lowest(page, count, key_bytes)
    return [(offset, slot) for slot, offset in enumerate(lowest) if offset < bound]


def _read_lowest(page: Page, count: int, key_bytes: int) -> list[int]:
    at, stride = HEADER_BYTES + key_bytes, key_bytes + POINTER.size
    return [POINTER.unpack_from(page, at + slot * stride)[2] for slot in range(count)]
