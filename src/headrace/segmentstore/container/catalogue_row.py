"""Bytes of one row of the segment catalogue: what is left of a segment that is not in memory.

::

    0    1   version (1)
    1    ..  segment row, as in metadata checkpoints
    ..   4   crc32c of all bytes before

Source: ``docs/formats/catalogue-row.md``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from headrace.errors import DataCorruptionError
from headrace.limits import KIB
from headrace.segmentstore.container.metadata_checkpoint import decode_segment_row, encode_segment_row
from headrace.segmentstore.container.segment_state import SegmentState

ROW_BYTES_MAX: Final = 64 * KIB
"""A segment whose row would be larger (about 2,500 writers) stays in memory."""

_VERSION: Final = 1
_CRC: Final = struct.Struct(">I")


@dataclass(slots=True)
class CatalogueRow:
    """One row: the segment as it was when it left, and the bytes of its segment row."""

    segment: SegmentState
    segment_row: bytes
    data: bytes


def encode_row(segment: SegmentState) -> bytes:
    """Return the row of a segment with nothing in flight."""
    body = bytes((_VERSION,)) + encode_segment_row(segment)
    return body + _CRC.pack(crc32c(body))


def decode_row(name: str, data: bytes) -> CatalogueRow:
    """Decode the row that was found under ``name``.

    Raises:
        DataCorruptionError: it is damaged, or that of another segment.
    """
    body = data[: -_CRC.size]
    if len(data) <= 1 + _CRC.size or _CRC.unpack_from(data, len(body))[0] != crc32c(body):
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} is damaged")
    if body[0] != _VERSION:
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} is of unknown version {body[0]}")
    segment = decode_segment_row(body[1:])
    if segment.name != name or segment.deleted or segment.merged:
        raise DataCorruptionError(f"the catalogue's row of segment {name!r} is about {segment.name!r}")
    return CatalogueRow(segment, body[1:], data)
