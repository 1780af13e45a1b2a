"""What the processor of a bucket's events remembers: how far it is, and which events it set aside.

Source: ``docs/formats/controller-rows.md``, "P: progress", "A: event set aside".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

PROGRESS_KIND: Final = b"P"
FAILED_KIND: Final = b"A"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """Every event below ``offset`` is done; ``failed`` of all events so far were set aside."""

    offset: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class FailedEventRow:
    """An event that was given up: ``data`` are its bytes (the first of them, if they are damaged)."""

    offset: int
    time_ms: int
    controller: str
    reason: str
    data: bytes


def encode_progress(row: ProgressRow) -> bytes:
    writer = FieldWriter(PROGRESS_KIND, VERSION)
    writer.uint(row.offset)
    writer.uint(row.failed)
    return writer.to_bytes()


def decode_progress(data: bytes) -> ProgressRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, PROGRESS_KIND, (VERSION,))
    row = ProgressRow(reader.uint(), reader.uint())
    reader.end()
    return row


def encode_failed_event(row: FailedEventRow) -> bytes:
    writer = FieldWriter(FAILED_KIND, VERSION)
    writer.uint(row.offset)
    writer.uint(row.time_ms)
    writer.text(row.controller)
    writer.text(row.reason)
    writer.blob(row.data)
    return writer.to_bytes()


def decode_failed_event(data: bytes) -> FailedEventRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, FAILED_KIND, (VERSION,))
    row = FailedEventRow(reader.uint(), reader.uint(), reader.text(), reader.text(), reader.blob())
    reader.end()
    return row
