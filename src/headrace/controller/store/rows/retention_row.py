"""The retention set of a stream, and one of its cuts. Source: ``docs/formats/controller-rows.md``, "R:
retention set", "Q: cut".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"R"
CUT_KIND: Final = b"Q"
VERSION: Final = 1

Cut = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RetentionRow:
    """(time in ms, bytes of the stream up to the cut) of each member, oldest first."""

    members: tuple[tuple[int, int], ...] = ()


def encode_retention(row: RetentionRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.uint(len(row.members))
    for time_ms, size_bytes in row.members:
        writer.uint(time_ms)
        writer.uint(size_bytes)
    return writer.to_bytes()


def decode_retention(data: bytes) -> RetentionRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    row = RetentionRow(tuple((reader.uint(), reader.uint()) for _ in range(reader.count(2))))
    reader.end()
    return row


def encode_retention_cut(cut: Cut) -> bytes:
    writer = FieldWriter(CUT_KIND, VERSION)
    writer.uint(len(cut))
    for segment_id, offset in cut:
        writer.uint(segment_id)
        writer.sint(offset)
    return writer.to_bytes()


def decode_retention_cut(data: bytes) -> Cut:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, CUT_KIND, (VERSION,))
    cut = tuple((reader.uint(), reader.sint()) for _ in range(reader.count(2)))
    reader.end()
    return cut
