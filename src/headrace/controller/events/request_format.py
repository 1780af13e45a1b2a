"""The bytes of one request. Source: ``docs/formats/request-events.md``."""

from __future__ import annotations

from typing import Final

from headrace.controller.events.event import EventKind, RequestEvent
from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"Q"
VERSION: Final = 1
PAYLOAD_BYTES_MAX: Final = 4096
EVENT_BYTES_MAX: Final = 8192
"""What an event with the longest names and payload fits into."""


def encode_event(event: RequestEvent) -> bytes:
    assert len(event.payload) <= PAYLOAD_BYTES_MAX
    writer = FieldWriter(KIND, VERSION)
    writer.uint(event.kind)
    writer.text(event.scope)
    writer.text(event.stream)
    writer.blob(event.payload)
    return writer.to_bytes()


def decode_event(data: bytes) -> RequestEvent:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    number = reader.uint()
    try:
        kind = EventKind(number)
    except ValueError:
        raise DataCorruptionError(f"there is no request of kind {number}") from None
    event = RequestEvent(kind, reader.text(), reader.text(), reader.blob())
    reader.end()
    return event
