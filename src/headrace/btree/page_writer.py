"""New pages of one write, one behind the other."""

from __future__ import annotations

from headrace.btree.compaction import lowest_of_children
from headrace.btree.page_format import (
    HEADER_BYTES,
    INDEX,
    LEAF,
    POINTER,
    Buffer,
    PageRef,
    entries_max,
    entry_stride,
    seal_page,
)
from headrace.btree.touched_pages import NewPage


class PageWriter:
    """Gives each page its offset and its header, splits those that are too long."""

    def __init__(self, end: int, key_bytes: int, page_bytes_max: int, *, append_split: bool) -> None:
        self.end = end
        """Where the next page begins."""
        self.pages: list[tuple[PageRef, Buffer]] = []
        self._key_bytes = key_bytes
        self._page_bytes_max = page_bytes_max
        self._append_split = append_split
        self._strides = {kind: entry_stride(kind, key_bytes) for kind in (LEAF, INDEX)}

    def write(self, kind: int, page: bytearray, *, is_last: bool) -> list[NewPage]:
        """Write a page whose entries stand behind a header that is not filled in.

        Returns:
            The page, or those that its entries take, or none if there are no entries. The first key of the
            first one is left out: its parent has it.
        """
        stride = self._strides[kind]
        count = (len(page) - HEADER_BYTES) // stride
        if len(page) <= self._page_bytes_max:
            return [self._write_one(kind, page, count, b"")] if count else []
        key_bytes = self._key_bytes
        written = []
        at = HEADER_BYTES
        count_max = entries_max(kind, key_bytes, self._page_bytes_max)
        view = memoryview(page)
        for part in split_count(count, count_max, fill=is_last and self._append_split):
            piece = bytearray(HEADER_BYTES)
            piece += view[at : at + part * stride]
            first = b"" if at == HEADER_BYTES else bytes(view[at : at + key_bytes])
            written.append(self._write_one(kind, piece, part, first))
            at += part * stride
        return written

    def write_above(self, children: list[NewPage]) -> list[NewPage]:
        """Write the index page, or pages, over the pages of a level that has no other ones."""
        page = bytearray(HEADER_BYTES + self._key_bytes)
        page += POINTER.pack(*children[0][1:])
        page += encode_pointers(children[1:])
        return self.write(INDEX, page, is_last=True)

    def _write_one(self, kind: int, page: bytearray, count: int, first: bytes) -> NewPage:
        key_bytes = self._key_bytes
        lowest = offset = self.end
        if kind == INDEX:
            page[HEADER_BYTES : HEADER_BYTES + key_bytes] = bytes(key_bytes)
            lowest = lowest_of_children(page, count, key_bytes)
        seal_page(page, kind, key_bytes, count, offset)
        length = len(page)
        self.end = offset + length
        self.pages.append((PageRef(offset, length), page))
        return first, offset, length, lowest


def encode_pointers(pages: list[NewPage]) -> bytes:
    """Return the entries of an index page for pages that were written."""
    return b"".join([first + POINTER.pack(offset, length, lowest) for first, offset, length, lowest in pages])


def split_count(count: int, count_max: int, *, fill: bool) -> list[int]:
    """Return how many of ``count`` entries go to each page: as many as fit, or equal numbers."""
    if fill:
        full, rest = divmod(count, count_max)
        return [count_max] * full + [rest] * (rest > 0)
    pages = -(-count // count_max)
    each, more = divmod(count, pages)
    return [each + 1] * more + [each] * (pages - more)
