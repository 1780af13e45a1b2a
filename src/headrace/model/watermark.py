"""Watermarks: up to which time a stream is complete, and where.

Each writer of a stream says from time to time that what it has written is not younger, and what it will write
not older, than a time of its own choice. A watermark sums that up: no event behind its cut is older than its
lower time, and no writer had spoken of more than its upper time. Writers of a stream choose the unit.

Watermarks of a stream are framed events of its mark stream, in ascending order of their lower times.

Source: protocol, "Writer time and watermarks"; ``docs/formats/watermark.md``; pinned by
``tests/golden/watermark``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES
from headrace.model.key_space import KeyRange
from headrace.model.versioned import VersionedReader, encode_compact_int, encode_object

NEWEST_MARK: Final = bytes.fromhex("7df9a874246cc9d69397cdd19ead68c5")
"""The attribute of the mark stream's segment that holds the offset at which its newest watermark begins."""

_TIMES: Final = struct.Struct(">qq")
_SEGMENT: Final = struct.Struct(">qdd")
_OFFSET: Final = struct.Struct(">q")
_FRAME: Final = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class MarkedSegment:
    """A segment of a watermark's cut, with the range of keys that it owns."""

    segment_id: int
    key_range: KeyRange
    offset: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """``cut`` owns every key once and is sorted by range."""

    lower: int
    upper: int
    cut: tuple[MarkedSegment, ...]

    def offsets(self) -> dict[int, int]:
        """Return the cut as offsets by segment id."""
        return {each.segment_id: each.offset for each in self.cut}


def encode_watermark(watermark: Watermark) -> bytes:
    """Return the payload of the event that holds ``watermark``."""
    parts = [_TIMES.pack(watermark.lower, watermark.upper), encode_compact_int(len(watermark.cut))]
    for each in watermark.cut:
        key = _SEGMENT.pack(each.segment_id, each.key_range.low, each.key_range.high)
        parts.append(encode_object(0, key))
        parts.append(_OFFSET.pack(each.offset))
    return encode_object(0, b"".join(parts))


def decode_watermark(payload: bytes | memoryview) -> Watermark:
    """Return the watermark, whichever controller wrote it.

    Raises:
        DataCorruptionError: the payload is no watermark.
    """
    try:
        reader = _revision(VersionedReader(payload))
        lower, upper = _TIMES.unpack(reader.take(_TIMES.size))
        cut = [_read_segment(reader) for _ in range(reader.compact_int())]
    except InvalidArgumentError as error:
        raise DataCorruptionError(f"not a watermark: {error}") from None
    if lower > upper:
        raise DataCorruptionError(f"not a watermark: it begins at {lower} and ends at {upper}")
    return Watermark(lower, upper, tuple(sorted(cut, key=lambda each: each.key_range)))


def _read_segment(reader: VersionedReader) -> MarkedSegment:
    segment_id, low, high = _SEGMENT.unpack(_revision(reader).take(_SEGMENT.size))
    (offset,) = _OFFSET.unpack(reader.take(_OFFSET.size))
    if segment_id < 0 or not 0.0 <= low < high <= 1.0:
        raise InvalidArgumentError(f"segment {segment_id} owns [{low}, {high})")
    return MarkedSegment(segment_id, KeyRange(low, high), offset)


def _revision(reader: VersionedReader) -> VersionedReader:
    version, revisions = reader.envelope()
    if version != 0 or 0 not in revisions:
        raise InvalidArgumentError(f"unknown version {version}")
    return revisions[0]


def frame_watermark(watermark: Watermark) -> bytes:
    """Return the framed event, as it is appended to a mark stream."""
    payload = encode_watermark(watermark)
    return _FRAME.pack(0, len(payload)) + payload


def split_marks(data: bytes) -> Iterator[tuple[int, memoryview]]:
    """Yield each whole event of ``data``, which begins with one: the position behind it, and its payload.

    Raises:
        DataCorruptionError: the bytes are no events.
    """
    view, position = memoryview(data), 0
    while len(data) - position >= EVENT_HEADER_BYTES:
        kind, length = _FRAME.unpack_from(data, position)
        if kind != 0 or not 0 <= length <= EVENT_BYTES_MAX:
            raise DataCorruptionError(f"no event of a mark stream has type {kind} and length {length}")
        begin = position + EVENT_HEADER_BYTES
        if begin + length > len(data):
            return
        position = begin + length
        yield position, view[begin:position]
