"""One write to a tree: changed pages, moved pages and the new root, behind each other.

Pages of a level come before those of the level above, the root page comes before the footer: whatever part of
the write is missing, a root that can be found has all its pages.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from headrace.btree.compaction import CompactionPolicy, OldestChildren, find_lowest, lowest_of_children
from headrace.btree.footer_format import FOOTER_BYTES, NOTE_BYTES_MAX, TreeRoot, encode_footer
from headrace.btree.merge import merge_few
from headrace.btree.page_format import (
    ABSENT_BYTES,
    HEADER_BYTES,
    INDEX,
    LEAF,
    PAGE_BYTES_MAX,
    POINTER,
    VALUE_BYTES,
    Buffer,
    Fetch,
    Page,
    PageRef,
    count_keys,
    entries_max,
    entry_stride,
    open_page,
    seal_page,
)
from headrace.btree.search import MANY, divide_keys
from headrace.errors import DataCorruptionError, InvalidArgumentError

_CHILDREN_MIN: Final = 2
_NO_PAGE: Final = PageRef(0, 0)

_Pointer = tuple[bytes, int, int, int]
"""First key, offset, length and lowest offset of a page that was written."""

if TYPE_CHECKING:  # loads numpy
    from headrace.btree.many import Numbers


@dataclass(frozen=True, slots=True)
class TreeWrite:
    """What the owner appends to the log at the end of the former root, in one write."""

    data: list[Buffer]
    size: int
    root: TreeRoot
    """The state of the tree once the write is durable."""
    previous: array[int]
    """The value that each key of the batch had before; ABSENT if none."""
    new_pages: list[tuple[PageRef, Buffer]]
    replaced: list[int]
    """Offsets of the pages that belong to the former root only."""


@dataclass(slots=True, eq=False)
class _Node:
    """A page that is written anew, and what becomes of it."""

    ref: PageRef
    slot: int
    is_last: bool
    low: int = 0
    high: int = 0
    page: Page = b""
    count: int = 0
    children: list[_Node] = field(default_factory=list)
    pointers: list[_Pointer] = field(default_factory=list)
    """What stands in its parent afterwards."""


def update(
    root: TreeRoot,
    keys: Buffer,
    values: array[int],
    *,
    note: bytes,
    policy: CompactionPolicy,
    start: int,
    page_bytes_max: int = PAGE_BYTES_MAX,
) -> Fetch[TreeWrite]:
    """Set the value of each key, or delete it if the value is ABSENT.

    Args:
        root: state that is changed.
        keys: ascending, none twice.
        values: one for each key.
        note: bytes of the owner, up to 128, that become those of the root.
        policy: what is moved besides, so that the log can be truncated.
        start: offset at which the log begins now.
        page_bytes_max: size of a page; smaller ones are for tests.

    Raises:
        InvalidArgumentError: keys out of order, or not as many values, or too long a note; nothing was read.
        DataCorruptionError: a page is not what its parent says.
    """
    key_bytes = root.key_bytes
    keys = bytes(keys)
    _check_batch(keys, values, note, key_bytes, page_bytes_max)
    return (yield from _Update(root, keys, values, policy, page_bytes_max).run(note, start))


def _check_batch(keys: bytes, values: array[int], note: bytes, key_bytes: int, page_bytes_max: int) -> None:
    count = count_keys(keys, key_bytes)
    if len(values) != count or values.typecode != "q":
        raise InvalidArgumentError(f"{len(values)} values for {count} keys")
    if len(note) > NOTE_BYTES_MAX:
        raise InvalidArgumentError(
            f"a note of {len(note)} bytes is longer than the limit of {NOTE_BYTES_MAX}"
        )
    if page_bytes_max > PAGE_BYTES_MAX or entries_max(INDEX, key_bytes, page_bytes_max) < _CHILDREN_MIN:
        raise InvalidArgumentError(f"pages of {page_bytes_max} bytes for keys of {key_bytes} bytes")
    if count >= MANY:
        from headrace.btree.many import is_ascending  # loads numpy

        ascending = is_ascending(keys, key_bytes)
    else:
        each = [keys[at : at + key_bytes] for at in range(0, len(keys), key_bytes)]
        ascending = all(below < above for below, above in pairwise(each))
    if not ascending:
        raise InvalidArgumentError("the keys of a batch are not ascending, or one of them comes twice")


class _Update:
    """The state of one update, from the pages that it needs to those that it writes."""

    def __init__(
        self, root: TreeRoot, keys: bytes, values: array[int], policy: CompactionPolicy, page_bytes_max: int
    ) -> None:
        self._root = root
        self._keys = keys
        self._policy = policy
        self._page_bytes_max = page_bytes_max
        stored = array("q", values)
        if sys.byteorder == "little":
            stored.byteswap()
        self._values = stored.tobytes()
        self._previous = bytearray(ABSENT_BYTES * len(values))
        self._rows: Numbers | None = None
        self._levels: list[list[_Node]] = [[] for _ in range(root.height)]
        """Pages to be written anew by level, leaves first."""
        self._end = root.end
        self._height = root.height
        self._data: list[Buffer] = []
        self._new_pages: list[tuple[PageRef, Buffer]] = []
        self._entries = root.entries
        self._live_bytes = root.live_bytes

    def run(self, note: bytes, start: int) -> Fetch[TreeWrite]:
        former = self._root
        if former.page is not None:
            top = _Node(former.page, 0, is_last=True, low=0, high=len(self._values) // VALUE_BYTES)
            self._levels[-1].append(top)
            yield from self._descend()
            if self._policy.move_lowest:
                yield from self._move_lowest(top)
            if self._policy.wants_more(former.end - start, former.live_bytes):
                yield from self._move_more(start)
            pointers = self._write_levels()
        else:
            pointers = self._write_first_leaves()
            self._height = 1
        while len(pointers) > 1:
            pointers = self._write_pages(INDEX, self._encode(pointers), is_last=True)
            self._height += 1
        return self._finish(pointers[0] if pointers else None, note)

    # ------------------------------------------------------------------------------------------ the way down

    def _read(self, nodes: Sequence[_Node], level: int) -> Fetch[None]:
        """Read the pages of nodes of one level."""
        kind = INDEX if level else LEAF
        for node, data in zip(nodes, (yield [node.ref for node in nodes]), strict=True):
            node.page, node.count = open_page(node.ref, data, kind, self._root.key_bytes)

    def _descend(self) -> Fetch[None]:
        """Read the pages on the way to all keys of the batch, level by level."""
        for level in range(self._root.height - 1, -1, -1):
            nodes = self._levels[level]
            if not nodes:
                return
            yield from self._read(nodes, level)
            if level == 0:
                return
            for node in nodes:
                parts = divide_keys(
                    node.page, node.count, self._keys, self._root.key_bytes, node.low, node.high
                )
                for slot, low, high in parts:
                    child = self._add_child(node, slot, level)
                    child.low, child.high = low, high

    def _add_child(self, node: _Node, slot: int, level: int) -> _Node:
        """Note that the child in ``slot`` of a node of ``level`` is written anew."""
        at = HEADER_BYTES + slot * entry_stride(INDEX, self._root.key_bytes) + self._root.key_bytes
        offset, length, _ = POINTER.unpack_from(node.page, at)
        child = _Node(PageRef(offset, length), slot, node.is_last and slot == node.count - 1)
        node.children.append(child)
        self._levels[level - 1].append(child)
        return child

    def _move_lowest(self, top: _Node) -> Fetch[None]:
        """Write the page with the lowest offset anew, and those above it."""
        lowest = self._root.lowest
        node, level = top, self._root.height - 1
        while node.ref.offset != lowest:
            slot = find_lowest(node.page, lowest, self._root.key_bytes) if level else None
            if slot is None or slot >= node.count:
                raise DataCorruptionError(f"no page at the lowest offset {lowest} of the tree", offset=lowest)
            child = next((child for child in node.children if child.slot == slot), None)
            level -= 1
            if child is None:
                child = self._add_child(node, slot, level + 1)
                yield from self._read((child,), level)
            node = child

    def _move_more(self, start: int) -> Fetch[None]:
        """Write further pages anew, the one with the lowest offset first, until the log can be truncated."""
        policy = self._policy
        oldest = OldestChildren(self._root.key_bytes)
        parents: list[tuple[_Node, int, set[int]]] = []

        def add(node: _Node, level: int) -> None:
            oldest.add(node.page, node.count)
            parents.append((node, level, {child.slot for child in node.children}))

        for level in range(len(self._levels) - 1, 0, -1):
            for node in self._levels[level]:
                add(node, level)
        moved = 0
        leaves: list[_Node] = []
        while moved < policy.pages_max:
            lowest = oldest.peek()
            if lowest is None or lowest - start >= policy.step_bytes:
                break
            number, slot = oldest.pop()
            node, level, written = parents[number]
            if slot in written:
                continue
            child = self._add_child(node, slot, level)
            moved += 1
            if level == 1:
                leaves.append(child)
            else:
                yield from self._read((child,), level - 1)
                add(child, level - 1)
        if leaves:
            yield from self._read(leaves, 0)

    # -------------------------------------------------------------------------------------------- the way up

    def _write_levels(self) -> list[_Pointer]:
        """Write all nodes, level by level; return what is left of the root."""
        for leaf in self._levels[0]:
            if leaf.low == leaf.high:
                page = bytearray(leaf.page)
            else:
                page = self._merge(leaf)
                self._entries += (len(page) - len(leaf.page)) // entry_stride(LEAF, self._root.key_bytes)
            leaf.pointers = self._write_pages(LEAF, page, is_last=leaf.is_last)
            self._live_bytes -= leaf.ref.length
        for nodes in self._levels[1:]:
            for node in nodes:
                node.pointers = self._write_index(node)
                self._live_bytes -= node.ref.length
        return self._levels[-1][0].pointers

    def _write_first_leaves(self) -> list[_Pointer]:
        """Write the leaves of a tree that was empty."""
        if not self._values:
            return []
        leaf = _Node(_NO_PAGE, 0, is_last=True, low=0, high=len(self._values) // VALUE_BYTES)
        leaf.page = bytes(HEADER_BYTES)
        page = self._merge(leaf)
        self._entries = (len(page) - HEADER_BYTES) // entry_stride(LEAF, self._root.key_bytes)
        return self._write_pages(LEAF, page, is_last=True)

    def _merge(self, leaf: _Node) -> bytearray:
        """Return the page of a leaf with its keys of the batch merged into it; it may be too long."""
        key_bytes = self._root.key_bytes
        if leaf.high - leaf.low < MANY:
            return merge_few(
                leaf.page,
                leaf.count,
                self._keys,
                self._values,
                key_bytes,
                leaf.low,
                leaf.high,
                self._previous,
            )
        from headrace.btree.many import join_entries, merge_many  # loads numpy

        if self._rows is None:
            self._rows = join_entries(self._keys, self._values, key_bytes)
        page = bytearray(HEADER_BYTES)
        page += merge_many(leaf.page, leaf.count, self._rows, key_bytes, leaf.low, leaf.high, self._previous)
        return page

    def _write_index(self, node: _Node) -> list[_Pointer]:
        """Write an index page, with what became of its children."""
        key_bytes = self._root.key_bytes
        stride = entry_stride(INDEX, key_bytes)
        pack_into = POINTER.pack_into
        page = bytearray(node.page)
        at = HEADER_BYTES + key_bytes
        others: list[_Node] = []
        for child in node.children:
            if len(child.pointers) == 1:
                _, offset, length, lowest = child.pointers[0]
                pack_into(page, at + child.slot * stride, offset, length, lowest)
            else:
                others.append(child)
        if others:
            page = self._splice(page, others)
        if len(page) == HEADER_BYTES + stride and node is self._levels[-1][0]:
            self._height -= 1
            return [(bytes(key_bytes), *POINTER.unpack_from(page, at))]
        return self._write_pages(INDEX, page, is_last=node.is_last)

    def _splice(self, page: bytearray, children: list[_Node]) -> bytearray:
        """Return an index page with the pointers of split and empty children."""
        key_bytes = self._root.key_bytes
        stride = entry_stride(INDEX, key_bytes)
        children.sort(key=_slot_of)
        parts: list[Page] = []
        copied = 0
        for child in children:
            at = HEADER_BYTES + child.slot * stride
            parts.append(page[copied:at])
            if child.pointers:
                _, *first = child.pointers[0]
                parts.append(page[at : at + key_bytes])
                parts.append(POINTER.pack(*first))
                parts.append(self._encode(child.pointers[1:])[HEADER_BYTES:])
            copied = at + stride
        parts.append(page[copied:])
        return bytearray().join(parts)

    def _encode(self, pointers: list[_Pointer]) -> bytearray:
        """Return an index page with pointers, without its header; it may be too long."""
        page = bytearray(HEADER_BYTES)
        for key, offset, length, lowest in pointers:
            page += key
            page += POINTER.pack(offset, length, lowest)
        return page

    def _write_pages(self, kind: int, page: bytearray, *, is_last: bool) -> list[_Pointer]:
        """Write a page, or the several pages that it takes, or none if it is empty."""
        key_bytes = self._root.key_bytes
        stride = entry_stride(kind, key_bytes)
        count = (len(page) - HEADER_BYTES) // stride
        if len(page) <= self._page_bytes_max:
            return [self._write_page(kind, page, count)] if count else []
        pointers = []
        at = HEADER_BYTES
        count_max = entries_max(kind, key_bytes, self._page_bytes_max)
        view = memoryview(page)
        for part in split_evenly(count, count_max, fill=is_last and self._policy.append_split):
            piece = bytearray(HEADER_BYTES)
            piece += view[at : at + part * stride]
            pointers.append(self._write_page(kind, piece, part))
            at += part * stride
        return pointers

    def _write_page(self, kind: int, page: bytearray, count: int) -> _Pointer:
        key_bytes = self._root.key_bytes
        first = bytes(page[HEADER_BYTES : HEADER_BYTES + key_bytes])
        offset, length = self._end, len(page)
        lowest = offset
        if kind == INDEX:
            page[HEADER_BYTES : HEADER_BYTES + key_bytes] = bytes(key_bytes)
            lowest = lowest_of_children(page, count, key_bytes)
        seal_page(page, kind, key_bytes, count, offset)
        self._end += length
        self._live_bytes += length
        self._data.append(page)
        self._new_pages.append((PageRef(offset, length), page))
        return first, offset, length, lowest

    def _finish(self, top: _Pointer | None, note: bytes) -> TreeWrite:
        former = self._root
        replaced = [node.ref.offset for nodes in self._levels for node in nodes]
        end = self._end + FOOTER_BYTES
        root = TreeRoot(
            end=end,
            page=None if top is None else PageRef(top[1], top[2]),
            lowest=end if top is None else top[3],
            key_bytes=former.key_bytes,
            height=0 if top is None else self._height,
            entries=self._entries,
            pages=former.pages - len(replaced) + len(self._new_pages),
            live_bytes=self._live_bytes,
            note=bytes(note),
        )
        self._data.append(encode_footer(root))
        previous = array("q", bytes(self._previous))
        if sys.byteorder == "little":
            previous.byteswap()
        return TreeWrite(self._data, end - former.end, root, previous, self._new_pages, replaced)


def split_evenly(count: int, count_max: int, *, fill: bool) -> list[int]:
    """Return how many of ``count`` entries go to each page: as many as fit, or equal numbers."""
    if fill:
        full, rest = divmod(count, count_max)
        return [count_max] * full + [rest] * (rest > 0)
    pages = -(-count // count_max)
    each, more = divmod(count, pages)
    return [each + 1] * more + [each] * (pages - more)


def _slot_of(node: _Node) -> int:
    return node.slot
