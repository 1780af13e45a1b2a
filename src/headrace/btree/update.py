"""One write to a tree: changed pages, moved pages and the new root, behind each other.

Pages of a level come before those of the level above, the root page comes before the footer: whatever part of
the write is missing, a root that can be found has all its pages.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.btree.compaction import CompactionPolicy
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
)
from headrace.btree.page_writer import PageWriter, encode_pointers
from headrace.btree.search import MANY
from headrace.btree.touched_pages import NewPage, TouchedPage, TouchedPages
from headrace.errors import InvalidArgumentError

if TYPE_CHECKING:  # loads numpy
    from headrace.btree.many import Numbers

_CHILDREN_MIN: Final = 2

Note = bytes | Callable[["array[int]"], bytes]
"""Bytes of the owner, or what returns them for the value that each key had before."""


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


def update(
    root: TreeRoot,
    keys: Buffer,
    values: array[int],
    *,
    note: Note,
    policy: CompactionPolicy,
    page_bytes_max: int = PAGE_BYTES_MAX,
) -> Fetch[TreeWrite]:
    """Set the value of each key, or delete it if the value is ABSENT.

    Args:
        root: state that is changed.
        keys: ascending, none twice.
        values: one for each key.
        note: up to 128 bytes, that become those of the root.
        policy: what is moved besides, so that the log can be truncated.
        page_bytes_max: size of a page; smaller ones are for tests.

    Raises:
        InvalidArgumentError: keys out of order, or not as many values, or too long a note; nothing was read.
        DataCorruptionError: a page is not what its parent says.
    """
    key_bytes = root.key_bytes
    keys = bytes(keys)
    _check_batch(keys, values, note, key_bytes, page_bytes_max)
    return (yield from _Update(root, keys, values, policy, page_bytes_max).run(note))


def _check_batch(keys: bytes, values: array[int], note: Note, key_bytes: int, page_bytes_max: int) -> None:
    count = count_keys(keys, key_bytes)
    if len(values) != count or values.typecode != "q":
        raise InvalidArgumentError(f"{len(values)} values for {count} keys")
    if not callable(note):
        _check_note(note)
    if page_bytes_max > PAGE_BYTES_MAX or entries_max(INDEX, key_bytes, page_bytes_max) < _CHILDREN_MIN:
        raise InvalidArgumentError(f"pages of {page_bytes_max} bytes for keys of {key_bytes} bytes")
    if count >= MANY:
        from headrace.btree.many import is_ascending  # loads numpy

        ascending = is_ascending(keys, key_bytes)
    else:
        each = [keys[at : at + key_bytes] for at in range(0, len(keys), key_bytes)]
        ascending = each == sorted(set(each))
    if not ascending:
        raise InvalidArgumentError("the keys of a batch are not ascending, or one of them comes twice")


def _check_note(note: bytes) -> None:
    if len(note) > NOTE_BYTES_MAX:
        raise InvalidArgumentError(
            f"a note of {len(note)} bytes is longer than the limit of {NOTE_BYTES_MAX}"
        )


class _Update:
    """The state of one update, from the pages that it needs to those that it writes."""

    def __init__(
        self, root: TreeRoot, keys: bytes, values: array[int], policy: CompactionPolicy, page_bytes_max: int
    ) -> None:
        self._root = root
        self._keys = keys
        self._count = len(values)
        stored = array("q", values)
        if sys.byteorder == "little":
            stored.byteswap()
        self._values = stored.tobytes()
        self._previous = bytearray(ABSENT_BYTES * len(values))
        self._rows: Numbers | None = None
        self._policy = policy
        self._writer = PageWriter(root.end, root.key_bytes, page_bytes_max, append_split=policy.append_split)
        self._height = root.height
        self._entries = root.entries
        self._replaced: list[PageRef] = []

    def run(self, note: Note) -> Fetch[TreeWrite]:
        if self._root.page is None:
            pages = self._write_first_leaves()
            self._height = 1
        else:
            touched = TouchedPages(self._root, self._root.page, self._keys, self._count)
            yield from touched.collect(self._policy)
            pages = self._write_levels(touched)
        while len(pages) > 1:
            pages = self._writer.write_above(pages)
            self._height += 1
        return self._finish(pages[0] if pages else None, note)

    def _write_levels(self, touched: TouchedPages) -> list[NewPage]:
        """Write all pages anew, level by level; return what is left of the root."""
        write = self._writer.write
        for leaf in touched.levels[0]:
            page = bytearray(leaf.page) if leaf.low == leaf.high else self._merge(leaf)
            leaf.new_pages = write(LEAF, page, is_last=leaf.is_last)
        for index_pages in touched.levels[1:]:
            for each in index_pages:
                page = _replace_children(each, self._root.key_bytes)
                if each is touched.top and _has_one_child(page, self._root.key_bytes):
                    self._height -= 1
                    each.new_pages = [(b"", *POINTER.unpack_from(page, HEADER_BYTES + self._root.key_bytes))]
                else:
                    each.new_pages = write(INDEX, page, is_last=each.is_last)
        self._replaced = [each.ref for level in touched.levels for each in level]
        return touched.top.new_pages

    def _write_first_leaves(self) -> list[NewPage]:
        """Write the leaves of a tree that was empty."""
        if not self._count:
            return []
        leaf = TouchedPage(PageRef(0, 0), 0, 0, 0, self._count, is_last=True)
        leaf.page = bytes(HEADER_BYTES)
        return self._writer.write(LEAF, self._merge(leaf), is_last=True)

    def _merge(self, leaf: TouchedPage) -> bytearray:
        """Return the page of a leaf with its keys of the batch merged into it; it may be too long."""
        key_bytes, page, low, high = self._root.key_bytes, leaf.page, leaf.low, leaf.high
        if high - low < MANY:
            merged = merge_few(
                page, leaf.count, self._keys, self._values, key_bytes, low, high, self._previous
            )
        else:
            from headrace.btree.many import join_entries, merge_many  # loads numpy

            if self._rows is None:
                self._rows = join_entries(self._keys, self._values, key_bytes)
            merged = merge_many(page, leaf.count, self._rows, key_bytes, low, high, self._previous)
        self._entries += (len(merged) - len(page)) // (key_bytes + VALUE_BYTES)
        return merged

    def _finish(self, top: NewPage | None, note: Note) -> TreeWrite:
        previous = array("q", bytes(self._previous))
        if sys.byteorder == "little":
            previous.byteswap()
        if callable(note):
            note = note(previous)
            _check_note(note)
        former, pages = self._root, self._writer.pages
        end = self._writer.end + FOOTER_BYTES
        freed = sum([length for _, length in self._replaced])
        root = TreeRoot(
            end=end,
            page=None if top is None else PageRef(top[1], top[2]),
            lowest=end if top is None else top[3],
            key_bytes=former.key_bytes,
            height=0 if top is None else self._height,
            entries=self._entries,
            pages=former.pages - len(self._replaced) + len(pages),
            live_bytes=former.live_bytes - freed + self._writer.end - former.end,
            note=bytes(note),
        )
        data: list[Buffer] = [page for _, page in pages]
        data.append(encode_footer(root))
        replaced = [offset for offset, _ in self._replaced]
        return TreeWrite(data, end - former.end, root, previous, pages, replaced)


def _has_one_child(page: bytearray, key_bytes: int) -> bool:
    return len(page) == HEADER_BYTES + key_bytes + POINTER.size


def _replace_children(index_page: TouchedPage, key_bytes: int) -> bytearray:
    """Return an index page with what became of its children; it may be too long, or empty."""
    page = bytearray(index_page.page)
    begin, stride = HEADER_BYTES + key_bytes, key_bytes + POINTER.size
    pack_into = POINTER.pack_into
    others: list[TouchedPage] = []  # ascending: pages that are only moved become one page each
    for child in index_page.children:
        if len(child.new_pages) == 1:
            _, offset, length, lowest = child.new_pages[0]
            pack_into(page, begin + child.slot * stride, offset, length, lowest)
        else:
            others.append(child)
    if not others:
        return page
    parts: list[Page] = []
    copied = 0
    for child in others:
        at = HEADER_BYTES + child.slot * stride
        parts.append(page[copied:at])
        if child.new_pages:
            _, offset, length, lowest = child.new_pages[0]
            parts.append(page[at : at + key_bytes])
            parts.append(POINTER.pack(offset, length, lowest))
            parts.append(encode_pointers(child.new_pages[1:]))
        copied = at + stride
    parts.append(page[copied:])
    return bytearray().join(parts)
