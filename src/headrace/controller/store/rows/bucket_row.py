"""One stream of a bucket, for one kind of background work. Source: ``docs/formats/controller-rows.md``, "B:
member of a bucket".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"B"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class BucketRow:
    """There has been work for the stream since ``since_ms``."""

    since_ms: int


def encode_bucket_member(row: BucketRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.uint(row.since_ms)
    return writer.to_bytes()


def decode_bucket_member(data: bytes) -> BucketRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    row = BucketRow(reader.uint())
    reader.end()
    return row
