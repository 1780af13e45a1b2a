"""Stream cuts: sets of segment offsets that divide a stream into before and after.

Two forms are exchanged with other clients: a text (base64 of gzip of a colon-separated line, not canonical:
compare parsed cuts, never texts) and a binary one. The unbounded cut means the head as a start and the tail
as an end.

An offset of -1 has two historical meanings. In a cut given to a truncation it marks a segment not reached
yet; in a position it marks a segment that has been read completely. Cuts made here carry real offsets only.

Source: protocol, "StreamCut"; ``docs/formats/stream-cut.md``; pinned by ``tests/golden/stream_cut``.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.segment_id import epoch_of, make_segment_id, number_of, segment_id_text
from headrace.model.versioned import (
    VersionedReader,
    encode_compact_int,
    encode_compact_long,
    encode_compact_signed,
    encode_object,
    encode_text,
)

COMPLETED: Final = -1
_UNBOUNDED_TEXT: Final = "UNBOUNDED"
_SHOWN_CHARS: Final = 40
"""Of a text that is refused."""

_TEXT_BYTES_MAX: Final = (
    64 << 20
)  # a decompression bomb must not fill memory; a cut of a million segments fits


class Relation(Enum):
    """How one cut lies to another of the same stream."""

    BEFORE = "before"
    EQUAL_OR_AFTER = "equal or after"
    OVERLAPS = "overlaps"


@dataclass(frozen=True, slots=True)
class StreamCut:
    """Offsets by segment id for one stream. Treat ``offsets`` as read-only.

    An unbounded cut has neither names nor offsets. A bounded cut without offsets is the tail of a sealed
    stream.
    """

    scope: str
    stream: str
    offsets: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def from_offsets(cls, scope: str, stream: str, offsets: Mapping[int, int]) -> StreamCut:
        """Make a cut from segment ids and byte offsets.

        Raises:
            InvalidArgumentError: an id is negative or an offset is below -1.
        """
        for segment_id, offset in offsets.items():
            if segment_id < 0 or offset < COMPLETED:
                raise InvalidArgumentError(f"segment {segment_id} cannot be cut at {offset}")
        return cls(scope, stream, dict(sorted(offsets.items())))

    @property
    def is_unbounded(self) -> bool:
        return not self.stream

    @property
    def scoped_stream(self) -> str:
        return f"{self.scope}/{self.stream}"

    def __str__(self) -> str:
        if self.is_unbounded:
            return _UNBOUNDED_TEXT
        listed = ", ".join(f"{segment_id_text(each)}={at}" for each, at in sorted(self.offsets.items()))
        return f"{self.scoped_stream}:{listed}"

    def __hash__(self) -> int:
        return hash((self.scope, self.stream, tuple(sorted(self.offsets.items()))))

    # -------------------------------------------------------------------------------------- text form

    def as_text(self) -> str:
        """Return the text that every client of the protocol parses. Equal cuts give equal texts here."""
        if self.is_unbounded:
            return _UNBOUNDED_TEXT
        items = sorted(self.offsets.items())
        columns = (
            [str(number_of(segment_id)) for segment_id, _ in items],
            [str(epoch_of(segment_id)) for segment_id, _ in items],
            [str(offset) for _, offset in items],
        )
        body = f"0:{self.scoped_stream}:" + ":".join(",".join(column) for column in columns)
        return base64.b64encode(gzip.compress(body.encode("utf-8"), mtime=0)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> StreamCut:
        """Parse the text form, whichever client wrote it.

        Raises:
            InvalidArgumentError: it is no stream cut.
        """
        if text == _UNBOUNDED_TEXT:
            return UNBOUNDED
        try:
            packed = base64.b64decode(text.encode("ascii"), validate=True)
            unpacker = zlib.decompressobj(wbits=31)
            body = unpacker.decompress(packed, _TEXT_BYTES_MAX).decode("utf-8")
        except (binascii.Error, zlib.error, UnicodeError):
            raise InvalidArgumentError(
                f"not a stream cut: {text[:_SHOWN_CHARS]!r} is no text of one"
            ) from None
        if not unpacker.eof:
            raise InvalidArgumentError("not a stream cut: it is cut short or far too long")
        fields = body.split(":", 4)
        if len(fields) != 5:
            raise InvalidArgumentError(f"not a stream cut: {len(fields)} fields instead of 5")
        scope, stream = _split_scoped(fields[1])
        numbers, epochs, offsets = (_integers(part) for part in fields[2:])
        if not len(numbers) == len(epochs) == len(offsets):
            raise InvalidArgumentError("not a stream cut: its lists differ in length")
        for number, epoch in zip(numbers, epochs, strict=True):
            if not (0 <= number < 1 << 31 and 0 <= epoch < 1 << 31):
                raise InvalidArgumentError(f"not a stream cut: segment {number} of epoch {epoch}")
        ids = [make_segment_id(number, epoch) for number, epoch in zip(numbers, epochs, strict=True)]
        return cls.from_offsets(scope, stream, dict(zip(ids, offsets, strict=True)))

    # -------------------------------------------------------------------------------------- binary form

    def to_bytes(self) -> bytes:
        """Return the binary form (object version 1); the unbounded cut is empty."""
        if self.is_unbounded:
            return b""
        parts = [encode_text(self.scoped_stream), encode_compact_int(len(self.offsets))]
        for segment_id, offset in sorted(self.offsets.items()):
            parts.append(encode_compact_long(segment_id))
            parts.append(encode_compact_signed(offset))
        return encode_object(1, b"".join(parts))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> StreamCut:
        """Parse the binary form; version 0 (unsigned offsets) is read as well.

        Raises:
            InvalidArgumentError: it is no stream cut.
        """
        if not data:
            return UNBOUNDED
        version, revisions = VersionedReader(data).envelope()
        if version not in {0, 1} or 0 not in revisions:
            raise InvalidArgumentError(f"unknown version {version} of a stream cut")
        reader = revisions[0]
        scope, stream = _split_scoped(reader.text())
        offsets: dict[int, int] = {}
        for _ in range(reader.compact_int()):
            segment_id = reader.compact_long()
            offsets[segment_id] = reader.compact_signed() if version == 1 else reader.compact_long()
        return cls.from_offsets(scope, stream, offsets)

    # -------------------------------------------------------------------------------------- order

    def relation_to(self, other: StreamCut, ranges: Mapping[int, KeyRange] | None = None) -> Relation:
        """Compare two bounded cuts of one stream.

        Pairs with the same segment compare offsets; pairs of different segments with overlapping ranges
        compare ids, because of two overlapping segments the smaller id is the older one. ``ranges`` must
        name every segment of both cuts unless both cuts name the same segments.

        Raises:
            InvalidArgumentError: the cuts are of different streams, unbounded, or ranges are missing.
        """
        if self.is_unbounded or other.is_unbounded or self.scoped_stream != other.scoped_stream:
            raise InvalidArgumentError(f"{self} and {other} cannot be compared")
        after = before = False
        for mine, my_offset in self.offsets.items():
            for theirs, their_offset in other.offsets.items():
                if mine == theirs:
                    smaller = my_offset < their_offset
                elif self.offsets.keys() == other.offsets.keys():
                    continue
                elif ranges is None or mine not in ranges or theirs not in ranges:
                    raise InvalidArgumentError(
                        "cuts with different segments need their key ranges to be compared"
                    )
                elif ranges[mine].overlaps(ranges[theirs]):
                    smaller = mine < theirs
                else:
                    continue
                before |= smaller
                after |= not smaller
        if before and after:
            return Relation.OVERLAPS
        return Relation.BEFORE if before else Relation.EQUAL_OR_AFTER


UNBOUNDED: Final = StreamCut("", "")
"""The head of a stream where a start is wanted, its tail where an end is wanted."""


def _split_scoped(name: str) -> tuple[str, str]:
    scope, slash, stream = name.partition("/")
    if not slash or not stream:
        raise InvalidArgumentError(f"{name!r} is not scope/stream")
    return scope, stream


def _integers(listed: str) -> list[int]:
    try:
        return [int(item.strip()) for item in listed.split(",")] if listed.strip() else []
    except ValueError:
        raise InvalidArgumentError(f"{listed!r} is no list of numbers") from None
