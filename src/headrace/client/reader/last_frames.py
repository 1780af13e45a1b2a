"""Where the last events of a segment begin, found from its end backwards. Pure.

A segment says nowhere where its events begin but at its head. Looking backwards, an event begins where a
header leads to the beginning of the next one, and so on to the end. Bytes within an event may look the same;
such a series joins the true one where that event ends. So the first of a series is never trusted, unless the
head of the segment is in sight.

Source: protocol, "Bytes in a segment".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES, KIB

WINDOW_BYTES_MIN: Final = 64 * KIB
WINDOW_BYTES_MAX: Final = 4 * (EVENT_BYTES_MAX + EVENT_HEADER_BYTES)
"""Three events of the largest size of one append are whole in it, and two of them are found."""


def find_last_frames(data: bytes | memoryview, *, from_boundary: bool) -> list[int]:
    """Return where events begin in ``data``, ascending; the last one ends with it.

    ``from_boundary``: an event begins with ``data``. Empty if that is not known and no beginning is found;
    more bytes in front may help.
    """
    found = _leading_to_end(data)
    if from_boundary:
        return found if found and found[0] == 0 else []
    return found[1:]


def _leading_to_end(data: bytes | memoryview) -> list[int]:
    """Return the longest series of events that ends with ``data``."""
    after = {len(data): len(data)}  # where an event begins, and where the next one does
    positions, ends = _candidates(data)
    for position, end in zip(reversed(positions), reversed(ends), strict=True):
        if end in after:
            after[position] = end
    first = min(after)
    series = []
    while first < len(data):
        series.append(first)
        first = after[first]
    return series


def _candidates(data: bytes | memoryview) -> tuple[list[int], list[int]]:
    """Return places with what may be a header, and where their events would end within ``data``."""
    places = len(data) - EVENT_HEADER_BYTES
    if places <= 0:
        return [], []
    raw = np.frombuffer(data, np.uint8)
    zeros = raw[:-7] == 0
    for number in (1, 2, 3):  # the type, of four bytes, is 0
        zeros &= raw[number : len(raw) - 7 + number] == 0
    at = np.flatnonzero(zeros)
    lengths = np.zeros(len(at), np.int64)
    for number in range(4, 8):
        lengths = lengths * 256 + raw[at + number]
    ends = at + EVENT_HEADER_BYTES + lengths
    # An empty event is no event: runs of zeros would be full of them.
    usable = (lengths > 0) & (ends <= len(data))
    return at[usable].tolist(), ends[usable].tolist()
