"""Which pages an update writes anew: those on the way to its keys, and those that it moves."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from headrace.btree.compaction import CompactionPolicy, children_below
from headrace.btree.footer_format import TreeRoot
from headrace.btree.page_format import HEADER_BYTES, INDEX, LEAF, POINTER, Fetch, Page, PageRef, open_page
from headrace.btree.search import divide_keys

NewPage = tuple[bytes, int, int, int]
"""First key, offset, length and lowest offset of a page that was written."""


class TouchedPage:
    """A page that is written anew, and what becomes of it."""

    __slots__ = ("children", "count", "high", "is_last", "low", "lowest", "new_pages", "page", "ref", "slot")

    def __init__(self, ref: PageRef, lowest: int, slot: int, low: int, high: int, *, is_last: bool) -> None:
        self.ref = ref
        self.lowest = lowest
        """Lowest offset in its subtree, before the update."""
        self.slot = slot
        self.low = low
        self.high = high
        """Keys of the batch in this page: from ``low``, up to ``high``; none if it is only moved."""
        self.is_last = is_last
        """Nothing on its level has higher keys."""
        self.page: Page = b""
        self.count = 0
        self.children: list[TouchedPage] = []
        self.new_pages: list[NewPage] = []


class TouchedPages:
    """The pages that one update writes anew, by level."""

    def __init__(self, root: TreeRoot, page: PageRef, keys: bytes, count: int) -> None:
        self._root = root
        self._keys = keys
        self.levels: list[list[TouchedPage]] = [[] for _ in range(root.height)]
        """Leaves first."""
        self.levels[-1].append(TouchedPage(page, root.lowest, 0, 0, count, is_last=True))

    @property
    def top(self) -> TouchedPage:
        """The root page."""
        return self.levels[-1][0]

    def collect(self, policy: CompactionPolicy) -> Fetch[None]:
        """Read all pages that are to be written anew."""
        yield from self._descend()
        lowest_wanted = policy.lowest_wanted(self._root)
        if self._root.lowest < lowest_wanted:
            yield from self._move(max(policy.pages_max, self._root.height), lowest_wanted)

    def _read(self, touched: Sequence[TouchedPage], level: int) -> Fetch[None]:
        """Read pages of one level."""
        kind, key_bytes = (INDEX if level else LEAF), self._root.key_bytes
        for each, data in zip(touched, (yield [each.ref for each in touched]), strict=True):
            each.page, each.count = open_page(each.ref, data, kind, key_bytes)

    def _descend(self) -> Fetch[None]:
        """Read the pages on the way to all keys of the batch, level by level."""
        keys, key_bytes = self._keys, self._root.key_bytes
        for level in range(self._root.height - 1, -1, -1):
            if not self.levels[level]:
                return  # an empty batch
            yield from self._read(self.levels[level], level)
            if level == 0:
                return
            for each in self.levels[level]:
                if each.low < each.high:
                    self._add_children(
                        each, level, divide_keys(each.page, each.count, keys, key_bytes, each.low, each.high)
                    )

    def _add_children(self, parent: TouchedPage, level: int, parts: list[tuple[int, int, int]]) -> None:
        """Note that children of a page of ``level`` are written anew: slots, with the keys in each."""
        page = parent.page
        begin, stride = HEADER_BYTES + self._root.key_bytes, self._root.key_bytes + POINTER.size
        last = parent.count - 1 if parent.is_last else -1
        children = []
        for slot, low, high in parts:
            offset, length, lowest = POINTER.unpack_from(page, begin + slot * stride)
            ref = PageRef(offset, length)
            children.append(TouchedPage(ref, lowest, slot, low, high, is_last=slot == last))
        parent.children += children
        self.levels[level - 1] += children

    def _add_moved(self, parent: TouchedPage, level: int, slot: int) -> TouchedPage:
        self._add_children(parent, level, [(slot, 0, 0)])
        return parent.children[-1]

    def _move(self, pages_max: int, lowest_wanted: int) -> Fetch[None]:
        """Write up to ``pages_max`` further pages anew, until none is left below ``lowest_wanted``."""
        key_bytes = self._root.key_bytes
        waiting: list[tuple[int, int, int]] = []
        """Lowest offset of a child, number of its parent, slot."""
        parents: list[tuple[TouchedPage, int]] = []

        def add(parent: TouchedPage, level: int) -> None:
            if parent.lowest >= lowest_wanted:
                return
            written = {child.slot for child in parent.children}
            for lowest, slot in children_below(parent.page, parent.count, key_bytes, lowest_wanted):
                if slot not in written:
                    heappush(waiting, (lowest, len(parents), slot))
            parents.append((parent, level))

        for level in range(len(self.levels) - 1, 0, -1):
            for each in self.levels[level]:
                add(each, level)
        moved = 0
        leaves: list[TouchedPage] = []
        while waiting and moved < pages_max:
            _, number, slot = heappop(waiting)
            parent, level = parents[number]
            child = self._add_moved(parent, level, slot)
            moved += 1
            if level == 1:
                leaves.append(child)
            else:
                yield from self._read((child,), level - 1)
                add(child, level - 1)
        if leaves:
            yield from self._read(leaves, 0)
