"""Finds where events begin again in bytes whose beginning is the rest of an event that was lost."""

from __future__ import annotations

from struct import Struct
from typing import Final

from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES

SEARCHED_BYTES: Final = 2 * (EVENT_BYTES_MAX + EVENT_HEADER_BYTES)
"""Enough to see where the lost event ended, however large it was, and a whole one behind it."""

_HEADER: Final = Struct(">ii")
_KIND: Final = bytes(4)


def find_boundary(content: memoryview, *, is_end: bool) -> int | None:
    """Return the first place from which events follow each other without a gap; None if there is none.

    At least one event is whole. ``is_end``: the segment ends with ``content``, and so has the last event;
    otherwise it may go on behind. Bytes of a lost event that look like whole events are taken for such.
    """
    data = bytes(content)
    known = bytearray(len(data))
    """1 where a walk has failed."""
    at = 0
    while (at := data.find(_KIND, at)) >= 0 and at <= EVENT_BYTES_MAX + EVENT_HEADER_BYTES:
        if _leads_to_end(data, at, known, is_end=is_end):
            return at
        at += 1
    return None


def _leads_to_end(data: bytes, begin: int, known: bytearray, *, is_end: bool) -> bool:
    at, whole = begin, 0
    while at < len(data) and not known[at]:
        known[at] = 1
        if len(data) - at < EVENT_HEADER_BYTES:
            return whole > 0 and not is_end and not any(data[at : at + 4])
        kind, length = _HEADER.unpack_from(data, at)
        if kind != 0 or not 0 <= length <= EVENT_BYTES_MAX:
            return False
        at += EVENT_HEADER_BYTES + length
        whole += at <= len(data)
    if at == len(data):
        return whole > 0
    return at > len(data) and whole > 0 and not is_end
