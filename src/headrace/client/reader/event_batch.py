"""Consecutive events of one segment, as they were read: raw bytes and where each event starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from typing import Any, ClassVar

from headrace.client.framing.event_framing import payload_column, payloads
from headrace.client.serializers import Codec
from headrace.client.vectors import get_arrow
from headrace.limits import EVENT_HEADER_BYTES


class _Remembered:
    """Remembers the value of an event once it was asked for; costs nothing before."""

    __slots__ = ("_value",)
    _value: Any


@dataclass(slots=True)
class Event(_Remembered):
    """One event and where it is stored."""

    data: bytes
    segment_id: int
    offset: int
    """Of its header."""
    decoder: Decoder | None = field(default=None, compare=False, repr=False)
    """Of its reader; None: it has no serializer."""

    @property
    def value(self) -> Any:
        """What the serializer of the reader makes of ``data``; without one ``data`` itself.

        Raises:
            EventNotDecodedError: the serializer does not take it; reading may go on.
        """
        try:
            return self._value
        except AttributeError:
            decoder = self.decoder
            self._value = value = (
                self.data if decoder is None else decoder.decode(self.data, self.segment_id, self.offset)
            )
            return value

    @property
    def time(self) -> datetime | None:
        """Of a :class:`Record`; None: the stream has no records."""
        return None

    @property
    def key(self) -> bytes | None:
        """Of a :class:`Record`, if it has one."""
        return None

    @property
    def headers(self) -> Mapping[str, bytes]:
        """Of a :class:`Record`; empty: it has none, or the stream has no records."""
        return {}

    @property
    def end_offset(self) -> int:
        """Where the next event of the segment starts."""
        return self.offset + EVENT_HEADER_BYTES + len(self.data)


class Decoder:
    """Makes values of the events of a stream."""

    __slots__ = ("_codec", "stream")

    def __init__(self, codec: Codec | None, scope: str, stream: str) -> None:
        """``codec`` None: values are bytes."""
        self._codec = codec
        self.stream = f"{scope}/{stream}"

    def decode(self, data: bytes, segment_id: int, offset: int) -> Any:
        """Return the value of an event. Raises EventNotDecodedError."""
        return data if self._codec is None else self._codec.decode(data, self.stream, segment_id, offset)


class EventBatch:
    """Whole events, contiguous in one segment, in order. Its buffer belongs to the owner of the batch."""

    __slots__ = ("_base", "buffer", "decoder", "frames", "scope", "segment_id", "start_offset", "stream")

    event_type: ClassVar[type[Event]] = Event
    """What is made of ``stored_payloads``, with segment, offset and decoder."""

    def __init__(
        self, scope: str, stream: str, segment_id: int, buffer: bytearray | bytes, frames: Any, offset: int
    ) -> None:
        """Describe the events at ``frames`` of ``buffer``; the first one starts at ``offset`` of the
        segment.
        """
        assert len(frames) >= 2
        self.scope = scope
        self.stream = stream
        self.segment_id = segment_id
        self.start_offset = offset
        """Where the first event starts in the segment."""
        self.buffer = buffer
        self.frames = frames
        """Where in ``buffer`` each event starts, then where the last one ends."""
        self._base = offset - int(frames[0])
        self.decoder: Decoder | None = None
        """Of the reader that gave it; None: it has no serializer."""

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.frames) - 1

    def first(self, count: int) -> EventBatch:
        """Return the first events, at least one of them, in the same buffer."""
        if count >= len(self):
            return self
        frames = self.frames[: count + 1]
        part = EventBatch(self.scope, self.stream, self.segment_id, self.buffer, frames, self.start_offset)
        part.decoder = self.decoder
        return part

    @property
    def end_offset(self) -> int:
        """Where the event behind the last one starts in the segment."""
        return self._base + int(self.frames[-1])

    @property
    def size_bytes(self) -> int:
        """Bytes in the segment, headers included."""
        return self.end_offset - self.start_offset

    @property
    def raw(self) -> memoryview:
        """The bytes of the segment: headers and payloads."""
        return memoryview(self.buffer)[int(self.frames[0]) : int(self.frames[-1])]

    def offsets(self) -> Any:
        """Return where each event starts in the segment (numpy array; list without numpy)."""
        if isinstance(self.frames, list) or not hasattr(self.frames, "dtype"):
            return [frame + self._base for frame in self.frames[:-1]]
        return self.frames[:-1] + self._base

    def payloads(self) -> list[bytes]:
        """Return the events as ``bytes`` objects."""
        return payloads(self.buffer, self.frames)

    def stored_payloads(self) -> list[bytes]:
        """Return the events as they are stored, which for records is not what :meth:`payloads` returns."""
        return self.payloads()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.payloads())

    def event_offsets(self) -> list[int]:
        """Return what :meth:`offsets` returns, as a list in any case."""
        offsets = self.offsets()
        return offsets if isinstance(offsets, list) else list(offsets.tolist())

    def behind(self, count: int) -> EventBatch:
        """Return the batch without its first ``count`` events, of the same bytes; at least one is left."""
        frames = self.frames[count:]
        offset = self._base + int(frames[0])
        rest = EventBatch(self.scope, self.stream, self.segment_id, self.buffer, frames, offset)
        rest.decoder = self.decoder
        return rest

    def events(self) -> Iterator[Event]:
        """Return an iterator over all events with their places."""
        places = self.event_offsets()
        events, segment_ids = self.stored_payloads(), repeat(self.segment_id)
        if self.decoder is None:
            return map(self.event_type, events, segment_ids, places)
        return map(self.event_type, events, segment_ids, places, repeat(self.decoder))

    def values(self) -> list[Any]:
        """Return what the serializer of the reader makes of the events. Raises EventNotDecodedError."""
        return [event.value for event in self.events()]

    def to_arrow(self) -> Any:
        """Return the events as a ``pyarrow.BinaryArray`` without an object per event."""
        return payload_column(self.buffer, self.frames)

    def to_record_batch(self) -> Any:
        """Return the events as a ``pyarrow.RecordBatch`` of one column, ``event``; records have more."""
        return get_arrow().record_batch([self.to_arrow()], names=["event"])

    def __repr__(self) -> str:
        return (
            f"<{len(self)} events of {self.scope}/{self.stream}/{self.segment_id}"
            f" in [{self.start_offset}, {self.end_offset})>"
        )
