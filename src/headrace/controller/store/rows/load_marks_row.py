"""What reports of the load of a stream's segments are remembered. Source:
``docs/formats/controller-rows.md``, "L: load marks".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.limits import INT64_MAX
from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"L"
VERSION: Final = 1

FOR_EVER: Final = INT64_MAX


@dataclass(frozen=True, slots=True)
class ColdMark:
    """The segment counts as cold before ``until_ms``. Loads are in thousandths of the target rate."""

    until_ms: int
    permille: int = 0


@dataclass(frozen=True, slots=True)
class SplitMark:
    """The segment is a piece of one with this load, split at ``time_ms``.

    ``in_vain``: how many splits in succession, that one not included, left almost all load in one piece.
    """

    time_ms: int
    permille: int
    in_vain: int = 0


@dataclass(frozen=True, slots=True)
class LoadMarksRow:
    """By segment id."""

    cold: dict[int, ColdMark] = field(default_factory=dict)
    splits: dict[int, SplitMark] = field(default_factory=dict)


def encode_load_marks(row: LoadMarksRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.uint(len(row.cold))
    for segment_id, mark in row.cold.items():
        writer.uint(segment_id)
        writer.uint(mark.until_ms)
        writer.uint(mark.permille)
    writer.uint(len(row.splits))
    for segment_id, split in row.splits.items():
        writer.uint(segment_id)
        writer.uint(split.time_ms)
        writer.uint(split.permille)
        writer.uint(split.in_vain)
    return writer.to_bytes()


def decode_load_marks(data: bytes) -> LoadMarksRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    cold: dict[int, ColdMark] = {}
    for _ in range(reader.count(3)):
        segment_id = reader.uint()
        cold[segment_id] = ColdMark(reader.uint(), reader.uint())
    splits: dict[int, SplitMark] = {}
    for _ in range(reader.count(4)):
        segment_id = reader.uint()
        splits[segment_id] = SplitMark(reader.uint(), reader.uint(), reader.uint())
    reader.end()
    return LoadMarksRow(cold, splits)
