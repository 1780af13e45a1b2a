"""What each writer of a stream last said about time. Source: ``docs/formats/controller-rows.md``, "M:
marks".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"M"
VERSION: Final = 2
_WITHOUT_LISTED: Final = 1


@dataclass(frozen=True, slots=True)
class WriterMark:
    """At ``time`` the writer was at ``position`` (segment id -> offset, not necessarily a full cut)."""

    time: int
    position: tuple[tuple[int, int], ...]
    alive: bool = True


@dataclass(frozen=True, slots=True)
class MarksRow:
    """All writers of one stream, by id.

    ``listed``: the stream is in the index of its bucket, so that watermarks are made of the marks. Marks that
    an earlier release wrote are not.
    """

    writers: dict[str, WriterMark] = field(default_factory=dict)
    listed: bool = False


def encode_marks(row: MarksRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.flag(row.listed)
    writer.uint(len(row.writers))
    for name, mark in row.writers.items():
        writer.text(name)
        writer.sint(mark.time)
        writer.flag(mark.alive)
        writer.uint(len(mark.position))
        for segment_id, offset in mark.position:
            writer.uint(segment_id)
            writer.sint(offset)
    return writer.to_bytes()


def decode_marks(data: bytes) -> MarksRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (_WITHOUT_LISTED, VERSION))
    listed = reader.version != _WITHOUT_LISTED and reader.flag()
    writers: dict[str, WriterMark] = {}
    for _ in range(reader.count(4)):
        name, time, alive = reader.text(), reader.sint(), reader.flag()
        position = tuple((reader.uint(), reader.sint()) for _ in range(reader.count(2)))
        writers[name] = WriterMark(time, position, alive)
    reader.end()
    return MarksRow(writers, listed)
