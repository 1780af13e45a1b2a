"""Encodes answers to updates of tables without an object per answer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from headrace.wire.catalogue import TYPE_IDS
from headrace.wire.commands import TableEntriesUpdated
from headrace.wire.frames import encode

_ONE_VERSION: Final = struct.Struct(">iiqiq")
_TYPE_ID: Final = TYPE_IDS[TableEntriesUpdated]
_PAYLOAD_BYTES: Final = _ONE_VERSION.size - 8


def encode_table_entries_updated(request_id: int, versions: Sequence[int]) -> bytes:
    """Return the frame of a :class:`TableEntriesUpdated` with these fields."""
    if len(versions) == 1:
        return _ONE_VERSION.pack(_TYPE_ID, _PAYLOAD_BYTES, request_id, 1, versions[0])
    return encode(TableEntriesUpdated(request_id, list(versions)))
