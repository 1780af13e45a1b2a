"""The bytes behind the pages of one write: the root of the tree.

Format page: ``docs/formats/btree-page.md``. Integers are big-endian.

======  ====  ==================================================================================
offset  size  field
======  ====  ==================================================================================
0       4     magic ``HRBF``
4       4     crc32c of everything behind it
8       1     version, 1
9       1     height: levels of pages, 0 if the tree is empty
10      2     bytes of a key, 1 to 256
12      2     length of the root page, 0 if the tree is empty
14      2     length of the note, 0 to 128
16      8     length of the log up to the end of this footer
24      8     offset of the root page
32      8     lowest offset of a page; the length of the log if the tree is empty
40      8     entries
48      8     pages
56      8     bytes of all pages
64      128   note, then zeros
======  ====  ==================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from crc32c import crc32c

from headrace.btree.page_format import KEY_BYTES_MAX, PAGE_BYTES_MAX, Buffer, PageRef
from headrace.errors import DataCorruptionError, InvalidArgumentError

FOOTER_MAGIC: Final = b"HRBF"
FOOTER_VERSION: Final = 1
FOOTER_BYTES: Final = 192
NOTE_BYTES_MAX: Final = 128

_FOOTER: Final = Struct(">4sIBBHHHQQQQQQ128s")
_CRC: Final = Struct(">I")
assert _FOOTER.size == FOOTER_BYTES


@dataclass(frozen=True, slots=True)
class TreeRoot:
    """A state of the tree, which stays readable until the log is truncated above its ``lowest``."""

    end: int
    """Where the next write begins: the length of the log up to and with the footer."""
    page: PageRef | None
    """The root page; None if the tree is empty."""
    lowest: int
    """The tree needs nothing of the log below this offset; ``end`` if the tree is empty."""
    key_bytes: int
    height: int
    entries: int
    pages: int
    live_bytes: int
    note: bytes = b""
    """Up to 128 bytes of the owner's, changed together with the root."""

    def moved(self, end: int) -> TreeRoot:
        """Return the root for a log that has grown to ``end`` by bytes that belong to no tree."""
        assert end >= self.end
        return replace(self, end=end, lowest=end if self.page is None else self.lowest)


def empty_root(key_bytes: int, end: int = 0) -> TreeRoot:
    """Return the root of an empty tree whose first write begins at ``end``.

    Raises:
        InvalidArgumentError: there are no keys of this size.
    """
    if not 1 <= key_bytes <= KEY_BYTES_MAX:
        raise InvalidArgumentError(
            f"keys of {key_bytes} bytes: a tree has keys of 1 to {KEY_BYTES_MAX} bytes"
        )
    return TreeRoot(end, None, end, key_bytes, 0, 0, 0, 0)


def encode_footer(root: TreeRoot) -> bytes:
    """Return the footer that ends at ``root.end``."""
    offset, length = root.page or (0, 0)
    footer = bytearray(FOOTER_BYTES)
    _FOOTER.pack_into(
        footer,
        0,
        FOOTER_MAGIC,
        0,
        FOOTER_VERSION,
        root.height,
        root.key_bytes,
        length,
        len(root.note),
        root.end,
        offset,
        root.lowest,
        root.entries,
        root.pages,
        root.live_bytes,
        root.note,
    )
    _CRC.pack_into(footer, 4, crc32c(memoryview(footer)[8:]))
    return bytes(footer)


def decode_footer(data: Buffer, end: int) -> TreeRoot:
    """Return the root that the last bytes of ``data`` tell of, which end at offset ``end`` of the log.

    Raises:
        DataCorruptionError: no footer ends there.
    """
    root = _decode(memoryview(data)[-FOOTER_BYTES:], end)
    if root is None:
        raise DataCorruptionError(f"no footer of a tree ends at offset {end}", offset=end)
    return root


def find_footer(tail: Buffer, end: int) -> TreeRoot | None:
    """Return the root by the last footer in ``tail``, which ends at ``end``; None if there is none.

    What lies behind the footer is the torn end of a write that was not acknowledged. The log goes on behind
    it: ``root.moved(end)``.
    """
    data = bytes(tail)
    start = end - len(data)
    at = len(data) - FOOTER_BYTES
    while at >= 0 and (at := data.rfind(FOOTER_MAGIC, 0, at + 4)) >= 0:
        root = _decode(memoryview(data)[at : at + FOOTER_BYTES], start + at + FOOTER_BYTES)
        if root is not None:
            return root
        at -= 1
    return None


def _decode(data: memoryview, end: int) -> TreeRoot | None:
    """Return the root, or None if these bytes are no footer that ends at ``end``."""
    if len(data) != FOOTER_BYTES:
        return None
    (magic, crc, version, height, key_bytes, length, note_length, *numbers, note) = _FOOTER.unpack(data)
    found_end, offset, lowest, entries, pages, live_bytes = numbers
    if (
        magic != FOOTER_MAGIC
        or version != FOOTER_VERSION
        or found_end != end
        or crc != crc32c(data[8:])
        or not 1 <= key_bytes <= KEY_BYTES_MAX
        or note_length > NOTE_BYTES_MAX
        or length > PAGE_BYTES_MAX
        or offset + length > end - FOOTER_BYTES
        or lowest > (offset if length else end)
        or (height == 0) != (length == 0)
    ):
        return None
    page = PageRef(offset, length) if length else None
    return TreeRoot(end, page, lowest, key_bytes, height, entries, pages, live_bytes, note[:note_length])
