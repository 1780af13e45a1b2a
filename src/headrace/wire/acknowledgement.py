"""Encodes acknowledgements of appends without an object per acknowledgement."""

from __future__ import annotations

import struct
from typing import Final

from headrace.wire.catalogue import TYPE_IDS
from headrace.wire.commands import DataAppended

_DATA_APPENDED: Final = struct.Struct(">ii16sqqqq")
_TYPE_ID: Final = TYPE_IDS[DataAppended]
_PAYLOAD_BYTES: Final = _DATA_APPENDED.size - 8


def encode_data_appended(
    writer_id: bytes, event_number: int, previous_event_number: int, request_id: int, write_offset: int
) -> bytes:
    """Return the frame of a :class:`DataAppended` with these fields."""
    return _DATA_APPENDED.pack(
        _TYPE_ID, _PAYLOAD_BYTES, writer_id, event_number, previous_event_number, request_id, write_offset
    )
