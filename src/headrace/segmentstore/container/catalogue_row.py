"""Bytes of one row of the segment catalogue, which stands for an inactive segment.

::

    0    1   version (1: without rows of storage, 2: with)
    1    ..  version 1: segment row, as in metadata checkpoints
             version 2: u32 length, segment row; rows of long-term storage, as in operations. Not written any
             more
    ..   4   crc32c of all bytes before

Source: ``docs/formats/catalogue-row.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from headrace.errors import DataCorruptionError
from headrace.limits import KIB
from headrace.segmentstore.operations.codec import decode_rows
from headrace.segmentstore.state.metadata_checkpoint import (
    decode_segment_row,
    encode_segment_row,
    is_of_version_1,
)
from headrace.segmentstore.state.segment_state import SegmentState

ROW_BYTES_MAX: Final = 64 * KIB
"""A segment whose row would be larger stays active."""

_VERSION: Final = 1
_VERSION_WITH_STORAGE: Final = 2
_LENGTH: Final = struct.Struct(">I")
_CRC: Final = struct.Struct(">I")


@dataclass(slots=True)
class CatalogueRow:
    """One row: the segment as it was when evicted, and the bytes of its segment row."""

    segment: SegmentState
    """All of it is stored."""
    data: bytes
    storage_rows: Mapping[str, bytes] = field(default_factory=dict)
    """Rows of long-term storage that an earlier release evicted with it; the container's table has those of
    all others."""


def encode_row(segment: SegmentState) -> bytes:
    """Return the row of a segment with nothing in flight."""
    body = bytes((_VERSION,)) + encode_segment_row(segment)
    return body + _CRC.pack(crc32c(body))


def decode_row(name: str, data: bytes) -> CatalogueRow:
    """Decode the row that was found under ``name``.

    Raises:
        DataCorruptionError: the row is damaged, or is that of another segment.
    """
    body = data[: -_CRC.size]
    if len(data) <= 1 + _CRC.size or _CRC.unpack_from(data, len(body))[0] != crc32c(body):
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} is damaged")
    if body[0] == _VERSION:
        segment_row = body[1:]
        storage_rows: dict[str, bytes] = {}
    elif body[0] == _VERSION_WITH_STORAGE:
        segment_row, storage_rows = _split(name, body)
    else:
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} is of unknown version {body[0]}")
    segment = decode_segment_row(segment_row)
    if segment.name != name or segment.deleted or segment.merged:
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} is about {segment.name!r}")
    segment.note_all_stored()
    if is_of_version_1(segment_row):
        segment.note_index()  # it may have one
    return CatalogueRow(segment, data, storage_rows)


def _split(name: str, body: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the segment row and the rows of storage of a row of version 2."""
    begin = 1 + _LENGTH.size
    try:
        end = begin + _LENGTH.unpack_from(body, 1)[0]
        rows, last = decode_rows(memoryview(body), end)
    except (struct.error, UnicodeDecodeError) as error:
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} does not decode") from error
    storage_rows = {key: row for key, row in rows.items() if row is not None}
    if last != len(body) or not storage_rows or len(storage_rows) != len(rows):
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} has no whole rows of storage")
    return body[begin:end], storage_rows
