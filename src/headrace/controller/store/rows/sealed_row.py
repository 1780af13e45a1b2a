"""A segment that takes no more appends: since which stream epoch, and how long it became.

The row is written before the segment is sealed, so that a caller that finds it sealed finds what follows it.
The length is added once the segment is sealed; from then on the row never changes.

Source: ``docs/formats/controller-rows.md``, "Z: sealed segment".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"Z"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SealedRow:
    """``epoch`` is the first stream epoch without the segment; None: it was sealed with its stream.

    ``length`` in bytes, counted from the beginning of the segment; None while it is not known.
    """

    epoch: int | None
    length: int | None = None


def encode_sealed(row: SealedRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    for value in (row.epoch, row.length):
        writer.flag(value is not None)
        if value is not None:
            writer.uint(value)
    return writer.to_bytes()


def decode_sealed(data: bytes) -> SealedRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    epoch = reader.uint() if reader.flag() else None
    length = reader.uint() if reader.flag() else None
    reader.end()
    return SealedRow(epoch, length)
