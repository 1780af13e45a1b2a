"""Which pages an update moves to the end of the log, so that the log can be truncated."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.btree.page_format import HEADER_BYTES, LOWEST_AT, POINTER, VALUE_BYTES, Page
from headrace.limits import MIB

_FEW_CHILDREN: Final = 64


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """How many pages an update moves besides those that it changes."""

    move_lowest: bool = True
    """The page with the lowest offset is written by every update, changed or not."""
    pages_max: int = 64
    """Further pages that one update moves, at most; 0: the log has no bound."""
    factor: float = 2.5
    """Pages are moved while the log is longer than so many times its live bytes ..."""
    step_bytes: int = 16 * MIB
    """... and longer than this: the log is truncated in steps of about so many bytes."""
    append_split: bool = True
    """The last page of a level stays full when it is split."""

    def wants_more(self, log_bytes: int, live_bytes: int) -> bool:
        """Say whether a log is longer than it is to be."""
        return self.pages_max > 0 and log_bytes > max(self.factor * live_bytes, self.step_bytes)


def find_lowest(page: Page, lowest: int, key_bytes: int) -> int | None:
    """Return the slot of the child of an index page that has ``lowest`` in its subtree, or None."""
    stride = key_bytes + POINTER.size
    begin = HEADER_BYTES + key_bytes + LOWEST_AT
    pattern = lowest.to_bytes(VALUE_BYTES, "big")
    at = page.find(pattern, begin)
    while at >= 0:
        slot, rest = divmod(at - begin, stride)
        if rest == 0:
            return slot
        at = page.find(pattern, at + 1)
    return None


def lowest_of_children(page: Page, count: int, key_bytes: int) -> int:
    """Return the lowest offset in the subtrees of an index page."""
    if count >= _FEW_CHILDREN:
        from headrace.btree.many import read_lowest  # loads numpy

        return int(read_lowest(page, count, key_bytes).min())
    at = HEADER_BYTES + key_bytes
    return min(pointer[2] for pointer in _pointers(page, at, count, key_bytes))


def _pointers(page: Page, at: int, count: int, key_bytes: int) -> Iterator[tuple[int, int, int]]:
    stride = key_bytes + POINTER.size
    for _ in range(count):
        yield POINTER.unpack_from(page, at)
        at += stride


class OldestChildren:
    """The children of index pages in the order of the lowest offset in their subtrees."""

    def __init__(self, key_bytes: int) -> None:
        self._key_bytes = key_bytes
        self._heap: list[tuple[int, int, int]] = []
        """Lowest offset of a child, number of its page, place in the order of the page."""
        self._pages: list[tuple[Page, int]] = []
        self._orders: dict[int, list[tuple[int, int]]] = {}
        """Lowest offset and slot of each child of a page, ascending, once one was popped."""

    def add(self, page: Page, count: int) -> None:
        """Take up the children of a page; ``pop`` names the pages by their number, from 0."""
        heapq.heappush(self._heap, (lowest_of_children(page, count, self._key_bytes), len(self._pages), 0))
        self._pages.append((page, count))

    def peek(self) -> int | None:
        """Return the lowest offset of all children that were not popped."""
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[int, int]:
        """Take out the child with the lowest offset; return the number of its page, and its slot."""
        _, number, place = self._heap[0]
        order = self._orders.get(number)
        if order is None:
            page, count = self._pages[number]
            pointers = _pointers(page, HEADER_BYTES + self._key_bytes, count, self._key_bytes)
            order = self._orders[number] = sorted((pointer[2], slot) for slot, pointer in enumerate(pointers))
        if place + 1 < len(order):
            heapq.heapreplace(self._heap, (order[place + 1][0], number, place + 1))
        else:
            heapq.heappop(self._heap)
        return number, order[place][1]
