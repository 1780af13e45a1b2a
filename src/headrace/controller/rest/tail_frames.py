"""The last events of a segment, found in its last bytes: where events begin is not written down. Pure.

From a true beginning every header leads to the next one, and the last to the end of the segment. Bytes inside
an event may look so, too, if an event holds others: what lies inside another one that leads to the end is
left out, so at most the first few can be wrong.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.limits import EVENT_HEADER_BYTES

_LENGTH: Final = struct.Struct(">q")
_ZEROS: Final = bytes(4)
"""The type of an event, which its header begins with."""


def last_frames(data: bytes, *, from_start: bool) -> list[tuple[int, int]]:
    """Return (begin, end) of the events at the end of ``data``, headers included, in their order.

    ``from_start``: data begin with an event.
    """
    size = len(data)
    leading: dict[int, int] = {}
    """Where a header leads to the end of the data, by its beginning."""
    at = data.rfind(_ZEROS)
    while at >= 0:
        if at + EVENT_HEADER_BYTES <= size:
            (length,) = _LENGTH.unpack_from(data, at)
            end = at + EVENT_HEADER_BYTES + length
            if length > 0 and (end == size or end in leading):
                leading[at] = end
        at = data.rfind(_ZEROS, 0, at + 3)
    begin = 0 if from_start else min(leading, default=size)
    found = []
    while begin in leading:
        found.append((begin, leading[begin]))
        begin = leading[begin]
    return found
