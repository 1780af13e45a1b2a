"""The bytes of one page.

Format page: ``docs/formats/btree-page.md``. Integers are big-endian.

======  ====  ==================================================================================
offset  size  field
======  ====  ==================================================================================
0       4     crc32c of everything behind it
4       1     version, 1
5       1     kind: 1 leaf, 2 index
6       2     bytes of a key, 1 to 256
8       4     entries
12      8     offset of the page in its log
20      ..    entries, ascending by key, without gaps
======  ====  ==================================================================================

Entry of a leaf: key, value (8, signed). Entry of an index page: lowest key of the child, offset of the child
(8), length of the child (2), lowest offset of a page in the subtree of the child (8). The first key of an
index page is zeros: each key has a child.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from crc32c import crc32c

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.limits import INT64_MIN, KIB

Buffer = bytes | bytearray | memoryview
Page = bytes | bytearray


class PageRef(NamedTuple):
    """Where a page is in its log."""

    offset: int
    length: int


T = TypeVar("T")
Fetch = Generator[Sequence[PageRef], Sequence[Buffer], T]
"""Yields the pages that are needed now, is sent their bytes in the same order, returns ``T``.

Whoever reads a page from storage calls ``verify_page`` once, before the page is sent or cached; a page that
was verified, or written by this process, is not verified again.
"""

PAGE_VERSION: Final = 1
LEAF: Final = 1
INDEX: Final = 2
PAGE_BYTES_MAX: Final = 32 * KIB
CRC_BYTES: Final = 4
HEADER_BYTES: Final = 20
VALUE_BYTES: Final = 8
KEY_BYTES_MAX: Final = 256

ABSENT: Final = INT64_MIN
"""The value that no key can have: there is none, or there shall be none."""
ABSENT_BYTES: Final = ABSENT.to_bytes(VALUE_BYTES, "big", signed=True)

POINTER: Final = Struct(">QHQ")
"""Offset, length and lowest offset of a child, behind its key."""
LOWEST_AT: Final = 10
"""Where the lowest offset begins in a pointer."""

_CRC: Final = Struct(">I")
_HEADER_TAIL: Final = Struct(">BBHIQ")
assert CRC_BYTES + _HEADER_TAIL.size == HEADER_BYTES
assert PAGE_BYTES_MAX <= 0xFFFF


def entry_stride(kind: int, key_bytes: int) -> int:
    """Return the bytes of one entry."""
    return key_bytes + (VALUE_BYTES if kind == LEAF else POINTER.size)


def entries_max(kind: int, key_bytes: int, page_bytes_max: int) -> int:
    """Return how many entries a page holds."""
    return (page_bytes_max - HEADER_BYTES) // entry_stride(kind, key_bytes)


def count_keys(keys: Buffer, key_bytes: int) -> int:
    """Return how many keys lie in ``keys``.

    Raises:
        InvalidArgumentError: the last one is not whole.
    """
    count, rest = divmod(len(keys), key_bytes)
    if rest:
        raise InvalidArgumentError(f"{len(keys)} bytes are not keys of {key_bytes} bytes")
    return count


def seal_page(page: bytearray, kind: int, key_bytes: int, count: int, offset: int) -> None:
    """Write the header of ``page``, which has its place at ``offset``."""
    _HEADER_TAIL.pack_into(page, CRC_BYTES, PAGE_VERSION, kind, key_bytes, count, offset)
    _CRC.pack_into(page, 0, crc32c(memoryview(page)[CRC_BYTES:]))


def open_page(ref: PageRef, data: Buffer, kind: int, key_bytes: int) -> tuple[Page, int]:
    """Return the page in ``data`` as bytes that can be compared, and how many entries it has.

    The checksum is not looked at (see ``Fetch``).

    Raises:
        DataCorruptionError: it is not the page that ``ref`` is about.
    """
    offset, length = ref
    count, rest = divmod(length - HEADER_BYTES, key_bytes + (VALUE_BYTES if kind == LEAF else POINTER.size))
    if len(data) == length and count >= 0 == rest:
        header = _HEADER_TAIL.pack(PAGE_VERSION, kind, key_bytes, count, offset)
        if data[CRC_BYTES:HEADER_BYTES] == header:
            return (bytes(data) if isinstance(data, memoryview) else data), count
    raise DataCorruptionError(
        f"no page of a tree with keys of {key_bytes} bytes at offset {ref.offset}, {len(data)} bytes",
        offset=ref.offset,
    )


def verify_page(ref: PageRef, data: Buffer, key_bytes: int) -> None:
    """Verify the header and the checksum of a page that was read from storage.

    Raises:
        DataCorruptionError: these are not the bytes that were written at ``ref``; carries its offset.
    """
    kind = data[5] if len(data) >= HEADER_BYTES else LEAF
    if kind not in {LEAF, INDEX}:
        raise DataCorruptionError(f"page at offset {ref.offset} is of no known kind", offset=ref.offset)
    open_page(ref, data, kind, key_bytes)
    if crc32c(memoryview(data)[CRC_BYTES:]) != _CRC.unpack_from(data)[0]:
        raise DataCorruptionError(
            f"page at offset {ref.offset}, {ref.length} bytes, fails its checksum", offset=ref.offset
        )


def is_index_page(data: Buffer) -> bool:
    """Whether a verified page is an index page, whose entries lead to other pages."""
    return data[5] == INDEX
