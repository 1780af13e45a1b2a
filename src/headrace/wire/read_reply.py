r"""Encodes answers to reads around the data, which the caller writes piece by piece without joining them.

The frame is head, then the views of the data, then trailer::

    type  length  segment  offset  at_tail  end_of_segment  data length | data ... | request id
    \--------------------------- head --------------------------------/            \-trailer-/
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from headrace.wire.catalogue import TYPE_IDS
from headrace.wire.commands import SegmentRead
from headrace.wire.fields import encode_text
from headrace.wire.frames import HEAD

_TYPE_ID: Final = TYPE_IDS[SegmentRead]
_MIDDLE: Final = struct.Struct(">q??i")
_TRAILER: Final = struct.Struct(">q")

_encode_segment = lru_cache(maxsize=4096)(encode_text)


def encode_segment_read_header(
    segment: str, offset: int, at_tail: bool, end_of_segment: bool, data_bytes: int
) -> bytes:
    """Return everything of the frame in front of its ``data_bytes`` bytes of data."""
    name = _encode_segment(segment)
    size = len(name) + _MIDDLE.size + data_bytes + _TRAILER.size
    return HEAD.pack(_TYPE_ID, size) + name + _MIDDLE.pack(offset, at_tail, end_of_segment, data_bytes)


def encode_segment_read_trailer(request_id: int) -> bytes:
    """Return everything of the frame behind its data."""
    return _TRAILER.pack(request_id)
