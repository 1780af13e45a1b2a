"""One stream epoch: which segments divide the key space, since when.

An epoch is immutable once written. Its *reference* is the epoch itself, except for the duplicates that a
rolling transaction makes: they refer to the epoch they repeat.

Source: ``docs/formats/controller-rows.md``, "E: epoch".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter
from headrace.model.key_space import KeyRange, covers_key_space
from headrace.model.segment_id import number_of

KIND: Final = b"E"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """A segment of a stream: its id carries the epoch that created it and its number."""

    segment_id: int
    created_ms: int
    key_range: KeyRange

    @property
    def number(self) -> int:
        return number_of(self.segment_id)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Segments are sorted by range. ``splits`` and ``merges`` count against the previous epoch."""

    epoch: int
    reference: int
    created_ms: int
    segments: tuple[SegmentRecord, ...]
    splits: int = 0
    merges: int = 0

    def segment_ids(self) -> list[int]:
        return [segment.segment_id for segment in self.segments]

    def find(self, segment_id: int) -> SegmentRecord | None:
        for segment in self.segments:
            if segment.segment_id == segment_id:
                return segment
        return None

    def check(self) -> None:
        """Assert that the segments divide the key space and are numbered apart."""
        assert 0 <= self.reference <= self.epoch
        assert covers_key_space(segment.key_range for segment in self.segments)
        assert len({segment.number for segment in self.segments}) == len(self.segments)


def sorted_segments(segments: Iterable[SegmentRecord]) -> tuple[SegmentRecord, ...]:
    return tuple(sorted(segments, key=lambda segment: segment.key_range.low))


def write_epoch(writer: FieldWriter, record: EpochRecord) -> None:
    writer.uint(record.epoch)
    writer.uint(record.reference)
    writer.uint(record.created_ms)
    writer.uint(record.splits)
    writer.uint(record.merges)
    writer.uint(len(record.segments))
    for segment in record.segments:
        writer.uint(segment.segment_id)
        writer.uint(segment.created_ms)
        writer.f64(segment.key_range.low)
        writer.f64(segment.key_range.high)


def read_epoch(reader: FieldReader) -> EpochRecord:
    epoch, reference, created_ms = reader.uint(), reader.uint(), reader.uint()
    splits, merges = reader.uint(), reader.uint()
    segments = []
    for _ in range(reader.count(18)):
        segment_id, segment_created_ms, low, high = reader.uint(), reader.uint(), reader.f64(), reader.f64()
        if not 0.0 <= low < high <= 1.0:
            raise DataCorruptionError(f"an epoch row holds the range [{low}, {high})")
        segments.append(SegmentRecord(segment_id, segment_created_ms, KeyRange(low, high)))
    return EpochRecord(epoch, reference, created_ms, tuple(segments), splits, merges)


def encode_epoch(record: EpochRecord) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    write_epoch(writer, record)
    return writer.to_bytes()


def decode_epoch(data: bytes) -> EpochRecord:
    reader = FieldReader(data, KIND, (VERSION,))
    record = read_epoch(reader)
    reader.end()
    return record
