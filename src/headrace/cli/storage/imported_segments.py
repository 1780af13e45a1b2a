"""Segments in the header-file layout, as an import reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from crc32c import crc32c

from headrace.client.framing.event_framing import STORED_EVENT_BYTES_MAX
from headrace.errors import DataCorruptionError
from headrace.limits import EVENT_HEADER_BYTES, MIB
from headrace.model.names import find_stream_segment
from headrace.storage.transfer.export_format import LIST_NAME, ExportedSegment, decode_list
from headrace.storage.transfer.header_layout import (
    HEADER_BYTES_MAX,
    HeaderEntry,
    decode_header,
    header_name,
    segment_of_header,
)
from headrace.storage.transfer.plain_files import ExportPlace

_READ_BYTES: Final = 8 * MIB
_HEADER: Final = Struct(">ii")


@dataclass(slots=True)
class FoundStream:
    """The segments of one stream in an export, in the order in which they were made."""

    scope: str
    stream: str
    segments: list[tuple[int, int, str]] = field(default_factory=list)
    """Stream epoch, number and name."""

    @property
    def never_scaled(self) -> bool:
        """Whether the segments are those with which the stream was made."""
        return [(epoch, number) for epoch, number, _ in self.segments] == [
            (0, number) for number in range(len(self.segments))
        ]


class ImportedSegments:
    """The segments in a place, with what the list of an export says of them, if there is one.

    Raises:
        DataCorruptionError: that list is damaged.
    """

    def __init__(self, place: ExportPlace) -> None:
        self._place = place
        self._listed: dict[str, ExportedSegment] = {}
        length = place.find_length(LIST_NAME)
        if length is not None:
            found = decode_list(bytes(place.read(LIST_NAME, 0, length)))
            self._listed = {segment.segment: segment for segment in found}
        self.names = sorted(
            segment for name in place.names() if (segment := segment_of_header(name)) is not None
        )

    def streams(self) -> dict[str, FoundStream]:
        """Return the streams, by ``SCOPE/STREAM``, of those segments that are some of a stream."""
        found: dict[str, FoundStream] = {}
        for name in self.names:
            parts = find_stream_segment(name)
            if parts is not None:
                scope, stream, segment_id = parts
                of_stream = found.setdefault(f"{scope}/{stream}", FoundStream(scope, stream))
                of_stream.segments.append((segment_id >> 32, segment_id & 0xFFFF_FFFF, name))
        for of_stream in found.values():
            of_stream.segments.sort()
        return found

    def is_sealed(self, name: str) -> bool:
        """Whether the export says so; a header alone does not."""
        listed = self._listed.get(name)
        return listed is not None and listed.sealed

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a segment; compare them with the list in the end.

        Raises:
            DataCorruptionError: a part is missing or has another length, or the bytes are not those that were
                exported.
        """
        length = self._place.find_length(header_name(name)) or 0
        if length > HEADER_BYTES_MAX:
            raise DataCorruptionError(f"a header of {length} bytes", path=header_name(name))
        entries = decode_header(bytes(self._place.read(header_name(name), 0, length)), header_name(name))
        checksum = 0
        for number, entry in enumerate(entries):
            end = entries[number + 1].offset if number + 1 < len(entries) else None
            for piece in self._part(entry, end):
                checksum = crc32c(piece, checksum)
                yield piece
        listed = self._listed.get(name)
        if listed is not None and listed.crc32c != checksum:
            raise DataCorruptionError("its bytes are not those that were exported", path=name)

    def _part(self, entry: HeaderEntry, end: int | None) -> Iterator[bytes]:
        length = self._place.find_length(entry.name)
        if length is None:
            raise DataCorruptionError("an object that the header lists is missing", path=entry.name)
        if end is not None and length != end - entry.offset:
            raise DataCorruptionError(
                f"it has {length} bytes, the header gives it {end - entry.offset}", path=entry.name
            )
        for offset in range(0, length, _READ_BYTES):
            yield bytes(self._place.read(entry.name, offset, min(_READ_BYTES, length - offset)))

    def events(self, name: str) -> Iterator[list[bytes]]:
        """Yield the events of a segment, some at a time.

        Raises:
            DataCorruptionError: as :meth:`pieces`; or the bytes are no events.
        """
        rest, position = b"", 0
        for piece in self.pieces(name):
            joined = rest + piece
            events, taken = _split(joined, name, position)
            if events:
                yield events
            rest = joined[taken:]
            position += taken
        if rest:
            raise DataCorruptionError(f"it ends within an event, after {position} bytes", path=name)


def _split(data: bytes, name: str, position: int) -> tuple[list[bytes], int]:
    """Return the whole events at the beginning of ``data``, and how many bytes they take."""
    events: list[bytes] = []
    at = 0
    while len(data) - at >= EVENT_HEADER_BYTES:
        kind, length = _HEADER.unpack_from(data, at)
        if kind != 0 or not 0 <= length <= STORED_EVENT_BYTES_MAX:
            raise DataCorruptionError(
                f"no event begins after {position + at} bytes: was it a stream of bytes? (--bytes)", path=name
            )
        if length == 0:
            raise DataCorruptionError(
                f"an event of no bytes after {position + at} bytes: it cannot be written again", path=name
            )
        end = at + EVENT_HEADER_BYTES + length
        if end > len(data):
            break
        events.append(data[at + EVENT_HEADER_BYTES : end])
        at = end
    return events, at
