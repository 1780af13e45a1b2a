"""Pages of indexes in memory, of all containers of the process: within a bound of bytes, inner pages before
leaves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.btree.page_format import Buffer, PageRef
from headrace.limits import MIB

PAGE_CACHE_BYTES: Final = 128 * MIB

_INNER_SHARE: Final = 2
"""Inner pages are evicted only while they have more than one part in so many of the cache."""

Key = tuple[int, int]


@dataclass(slots=True)
class PageCacheStatistics:
    """Gauges of now and counts since creation."""

    pages: int
    bytes: int
    bytes_max: int
    inner_bytes: int
    """Of pages that lead to others."""
    found: int
    missed: int


class PageCache:
    """Pages by tree and offset, least recently used first. A page is never changed once it is here.

    All containers of a process share one, on one loop. The pages of a container that has ended leave by
    themselves.
    """

    def __init__(self, bytes_max: int = PAGE_CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._leaves: OrderedDict[Key, Buffer] = OrderedDict()
        self._inner: OrderedDict[Key, Buffer] = OrderedDict()
        self._leaf_bytes = 0
        self._inner_bytes = 0
        self._trees = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._leaves) + len(self._inner)

    @property
    def size_bytes(self) -> int:
        return self._leaf_bytes + self._inner_bytes

    def new_tree(self) -> int:
        """Return a number for a tree: its pages are never mistaken for those of another one."""
        self._trees += 1
        return self._trees

    def find(self, tree: int, offset: int) -> Buffer | None:
        key = (tree, offset)
        for pages in (self._inner, self._leaves):
            page = pages.get(key)
            if page is not None:
                pages.move_to_end(key)
                self.hits += 1
                return page
        self.misses += 1
        return None

    def find_all(self, tree: int, refs: Sequence[PageRef]) -> list[Buffer] | None:
        """Return the pages, or None if one is missing."""
        found: list[Buffer] = []
        for ref in refs:
            page = self.find(tree, ref.offset)
            if page is None:
                return None
            found.append(page)
        return found

    def put(self, tree: int, offset: int, page: Buffer, *, inner: bool) -> None:
        """Add a page; others leave for it. One that is larger than the cache is not added."""
        size = len(page)
        if size > self._bytes_max:
            return
        key = (tree, offset)
        self.drop(tree, offset)
        if inner:
            self._inner[key] = page
            self._inner_bytes += size
        else:
            self._leaves[key] = page
            self._leaf_bytes += size
        while self.size_bytes > self._bytes_max:
            if self._leaves and (inner or self._inner_bytes * _INNER_SHARE <= self._bytes_max):
                _, page = self._leaves.popitem(last=False)
                self._leaf_bytes -= len(page)
            elif self._inner:
                _, page = self._inner.popitem(last=False)
                self._inner_bytes -= len(page)
            else:
                _, page = self._leaves.popitem(last=False)
                self._leaf_bytes -= len(page)

    def drop(self, tree: int, offset: int) -> None:
        """Forget a page that is no longer part of its tree. Fine if it is not here."""
        page = self._leaves.pop((tree, offset), None)
        if page is not None:
            self._leaf_bytes -= len(page)
        page = self._inner.pop((tree, offset), None)
        if page is not None:
            self._inner_bytes -= len(page)

    def statistics(self) -> PageCacheStatistics:
        return PageCacheStatistics(
            pages=len(self),
            bytes=self.size_bytes,
            bytes_max=self._bytes_max,
            inner_bytes=self._inner_bytes,
            found=self.hits,
            missed=self.misses,
        )

    def check(self) -> None:
        """Assert that sizes add up. Touches every page."""
        assert self._leaf_bytes == sum(map(len, self._leaves.values()))
        assert self._inner_bytes == sum(map(len, self._inner.values()))
        assert self.size_bytes <= self._bytes_max
