"""The row of a key-value table. Source: ``docs/formats/controller-rows.md``, "K: key-value table"."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"K"
VERSION: Final = 1


class TableState(IntEnum):
    CREATING = 1
    ACTIVE = 2
    DELETING = 3


@dataclass(frozen=True, slots=True)
class TableRow:
    """Lengths in bytes; partitions are numbered from ``first_number``."""

    created_ms: int
    state: TableState
    first_number: int
    partitions: int
    primary_key_bytes: int
    secondary_key_bytes: int
    rollover_bytes: int


def encode_table(row: TableRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.uint(row.created_ms)
    writer.uint(row.state)
    writer.uint(row.first_number)
    writer.uint(row.partitions)
    writer.uint(row.primary_key_bytes)
    writer.uint(row.secondary_key_bytes)
    writer.uint(row.rollover_bytes)
    return writer.to_bytes()


def decode_table(data: bytes) -> TableRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    try:
        row = TableRow(
            created_ms=reader.uint(),
            state=TableState(reader.uint()),
            first_number=reader.uint(),
            partitions=reader.uint(),
            primary_key_bytes=reader.uint(),
            secondary_key_bytes=reader.uint(),
            rollover_bytes=reader.uint(),
        )
    except ValueError as error:
        raise DataCorruptionError(f"a key-value table row holds {error}") from None
    reader.end()
    return row
