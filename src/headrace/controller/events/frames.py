"""Requests in the bytes of a segment: framed like every event, found again behind damaged bytes. Pure.

Source: ``docs/formats/request-events.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from headrace.controller.events.event import RequestEvent
from headrace.controller.events.request_format import EVENT_BYTES_MAX, decode_event, encode_event
from headrace.errors import DataCorruptionError
from headrace.limits import EVENT_HEADER_BYTES

_HEADER: Final = Struct(">iI")
_HEADER_BEGINNING: Final = bytes(6)
"""Type 0, and a length below 64 KiB."""


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """What the segment holds from ``offset`` to ``end``: an event, or bytes that are none and why."""

    offset: int
    end: int
    event: RequestEvent | None
    data: bytes
    reason: str = ""


def frame_event(event: RequestEvent) -> bytes:
    data = encode_event(event)
    return _HEADER.pack(0, len(data)) + data


def find_events(data: bytes, offset: int, *, at_tail: bool) -> list[FoundEvent]:
    """Return what ``data``, the segment's bytes from ``offset`` on, holds, without gaps.

    An event that is cut short at the end is left out, unless ``at_tail``: appends are atomic, so it is
    damaged.
    """
    found: list[FoundEvent] = []
    position = 0
    while position < len(data):
        end, reason = _end_of_frame(data, position)
        event = None
        if end > len(data):
            if not at_tail:
                break
            reason = "the event is cut short"
        if not reason:
            try:
                event = decode_event(data[position + EVENT_HEADER_BYTES : end])
            except DataCorruptionError as error:
                reason = str(error)
        elif (resumed := _find_frame(data, position + 1)) is not None:
            end = resumed
        elif at_tail:
            end = len(data)
        else:
            # What could be the beginning of a whole event is looked at again with the bytes behind it.
            end = max(position, len(data) - EVENT_HEADER_BYTES - EVENT_BYTES_MAX)
            if end == position:
                break
        found.append(FoundEvent(offset + position, offset + end, event, data[position:end], reason))
        position = end
    return found


def _end_of_frame(data: bytes, position: int) -> tuple[int, str]:
    """Return where the frame ends, and why it is none."""
    if len(data) - position < EVENT_HEADER_BYTES:
        return len(data) + 1, ""
    kind, length = _HEADER.unpack_from(data, position)
    if kind or not 0 < length <= EVENT_BYTES_MAX:
        return position, f"no event begins with type {kind} and length {length}"
    return position + EVENT_HEADER_BYTES + int(length), ""


def _find_frame(data: bytes, start: int) -> int | None:
    """Return where the next frame with a whole event begins."""
    while (start := data.find(_HEADER_BEGINNING, start)) >= 0:
        end, reason = _end_of_frame(data, start)
        if not reason and end <= len(data):
            try:
                decode_event(data[start + EVENT_HEADER_BYTES : end])
            except DataCorruptionError:
                pass
            else:
                return start
        start += 1
    return None
