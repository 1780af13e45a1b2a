"""Bytes of a data frame, the content of one WAL record.

::

    offset  bytes  field
    0       1      format version (1)
    1       1      flags (0; 1: the log was moved, the content is where to)
    2       2      reserved, zero
    4       4      content length: bytes of entries behind this header
    8       8      time the frame was sealed, milliseconds since the epoch
    16      ..     entries

    entry
    0       4      length of the bytes that follow the entry's header
    4       1      flags: 1 = first entry of an operation, 2 = last entry of an operation
    5       ..     bytes

An operation is one or more entries, over one or more frames. Checksums, epoch and order of frames are the
WAL's. Source: ``docs/formats/data-frame.md``; pinned by ``tests/golden/data-frame``.
"""

from __future__ import annotations

import struct
from typing import Final

VERSION: Final = 1
MOVED: Final = 1  # a flag of the frame
FRAME_HEADER: Final = struct.Struct(">BBHIq")
ENTRY_HEADER: Final = struct.Struct(">IB")

FIRST: Final = 1
LAST: Final = 2
WHOLE: Final = FIRST | LAST


def encode_moved(place: str, time_ms: int) -> bytes:
    """Return the last frame of a log that goes on at ``place``: no owner goes on here."""
    return FRAME_HEADER.pack(VERSION, MOVED, 0, len(place.encode()), time_ms) + place.encode()


def find_moved(frame: memoryview) -> str:
    """Return the place that :func:`encode_moved` was given; "" for all other frames."""
    return str(frame[FRAME_HEADER.size :], "utf-8", "replace") if frame[1:2] == bytes([MOVED]) else ""
