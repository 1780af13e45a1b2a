"""What an export writes, wherever its bytes come from: parts and a header a segment, a list in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from crc32c import crc32c

from headrace.cli.storage.export_places import open_place
from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.runtime.clock import SystemClock
from headrace.storage.identity_format import IDENTITY_NAME
from headrace.storage.providers.files.chunk_paths import encode_chunk_path
from headrace.storage.transfer.export_format import LIST_NAME, ExportedSegment, encode_list
from headrace.storage.transfer.header_layout import HeaderEntry, encode_header, header_name, part_name
from headrace.storage.transfer.plain_files import ExportPlace

PART_BYTES: Final = 64 * MIB

_OF_STORES: Final = (IDENTITY_NAME, encode_chunk_path(IDENTITY_NAME))
"""What a store of chunks has: an object, or a file."""


@contextmanager
def open_new_export(target: str) -> Iterator[ExportPlace]:
    """Open a place that has no export yet. Raises InvalidArgumentError: it has one, or is a store."""
    with open_place(target) as place:
        if any(place.find_length(name) is not None for name in _OF_STORES):
            raise InvalidArgumentError(f"{target} is the store of a system: choose another place")
        if place.find_length(LIST_NAME) is not None:
            raise InvalidArgumentError(f"{target} holds an export already: choose another place")
        yield place


def put_segment(
    place: ExportPlace, name: str, start: int, pieces: Iterable[bytes | bytearray | memoryview]
) -> int:
    """Write a segment whose bytes from ``start`` on are in ``pieces``; return their checksum.

    Raises:
        InvalidArgumentError: there is one of this name.
    """
    if place.find_length(header_name(name)) is not None:
        raise InvalidArgumentError(f"there is a segment {name!r} already: choose another place")
    entries: list[HeaderEntry] = []
    checksum, pending, size = 0, list[bytes](), 0
    offset = start

    def put_part() -> None:
        nonlocal offset, size
        entries.append(HeaderEntry(offset, part_name(name, offset)))
        place.put(entries[-1].name, pending)
        offset += size
        size = 0
        pending.clear()

    for piece in pieces:
        checksum = crc32c(piece, checksum)
        for begin in range(0, len(piece), PART_BYTES):
            part = bytes(piece[begin : begin + PART_BYTES])
            if size + len(part) > PART_BYTES:
                put_part()
            pending.append(part)
            size += len(part)
    put_part()  # also of no bytes: the header says where the segment begins
    place.put(header_name(name), [encode_header(entries)])
    return checksum


def put_list(place: ExportPlace, exported: Sequence[ExportedSegment]) -> None:
    """End an export."""
    place.put(LIST_NAME, [encode_list(exported, SystemClock().now_ms())])
