"""Rows that hold little more than a number.

*Deleted*: the highest segment number a deleted stream or key-value table ever used, so that a later namesake
numbers on and no late request about the old one can meet a segment of the new one. *Counter*: the next free
value of a counter that is handed out in blocks, or a day that has a table of its own.

Source: ``docs/formats/controller-rows.md``, "D: deleted", "N: counter".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

DELETED_KIND: Final = b"D"
COUNTER_KIND: Final = b"N"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DeletedRow:
    highest_number: int
    deleted_ms: int


def encode_deleted(row: DeletedRow) -> bytes:
    writer = FieldWriter(DELETED_KIND, VERSION)
    writer.uint(row.highest_number)
    writer.uint(row.deleted_ms)
    return writer.to_bytes()


def decode_deleted(data: bytes) -> DeletedRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, DELETED_KIND, (VERSION,))
    row = DeletedRow(reader.uint(), reader.uint())
    reader.end()
    return row


def encode_counter(value: int) -> bytes:
    writer = FieldWriter(COUNTER_KIND, VERSION)
    writer.uint(value)
    return writer.to_bytes()


def decode_counter(data: bytes) -> int:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, COUNTER_KIND, (VERSION,))
    value = reader.uint()
    reader.end()
    return value
