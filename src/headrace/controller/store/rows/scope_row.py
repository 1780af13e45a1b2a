"""The row of a scope. Source: ``docs/formats/controller-rows.md``, "C: scope"."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"C"
VERSION: Final = 1


class ScopeState(IntEnum):
    CREATING = 1
    ACTIVE = 2
    CLOSED = 3
    """Takes nothing new: its recursive deletion is in progress."""
    DELETING = 4
    """Found empty; its table is being deleted, unless it is not empty after all."""


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """``uid`` names the table of its members and distinguishes it from earlier scopes of the same name."""

    uid: bytes
    created_ms: int
    state: ScopeState


def encode_scope(row: ScopeRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.fixed(row.uid)
    writer.uint(row.created_ms)
    writer.uint(row.state)
    return writer.to_bytes()


def decode_scope(data: bytes) -> ScopeRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    try:
        row = ScopeRow(reader.fixed(16), reader.uint(), ScopeState(reader.uint()))
    except ValueError as error:
        raise DataCorruptionError(f"a scope row holds {error}") from None
    reader.end()
    return row
