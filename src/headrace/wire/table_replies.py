"""Encodes the frequent replies about tables without an object per reply."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from headrace.model.tables import NOT_EXISTS, TableEntry
from headrace.wire.catalogue import TYPE_IDS
from headrace.wire.commands import TableEntriesUpdated, TableRead
from headrace.wire.fields import encode_text
from headrace.wire.frames import HEAD, encode

_UPDATED: Final = TYPE_IDS[TableEntriesUpdated]
_READ: Final = TYPE_IDS[TableRead]
_ONE_VERSION: Final = struct.Struct(">iiqiq")
_REQUEST_ID: Final = struct.Struct(">q")
_COUNT: Final = struct.Struct(">i")
_KEY_SIZES: Final = struct.Struct(">ii")
_VERSION_AND_SIZES: Final = struct.Struct(">qii")

_encode_segment = lru_cache(maxsize=4096)(encode_text)


def encode_table_entries_updated(request_id: int, versions: Sequence[int]) -> bytes:
    """Return the frame of a :class:`TableEntriesUpdated` with these fields."""
    if len(versions) == 1:
        return _ONE_VERSION.pack(_UPDATED, _ONE_VERSION.size - HEAD.size, request_id, 1, versions[0])
    return encode(TableEntriesUpdated(request_id, list(versions)))


def encode_table_read(
    request_id: int, segment: str, keys: Sequence[bytes], found: Sequence[TableEntry | None]
) -> bytes:
    """Return the frame of a :class:`TableRead` with one entry per key, small enough for a frame.

    Peers recognise a missing one by its version or its empty value.
    """
    parts = [b"", _REQUEST_ID.pack(request_id), _encode_segment(segment), _COUNT.pack(len(keys))]
    for key, entry in zip(keys, found, strict=True):
        version, value = (NOT_EXISTS, b"") if entry is None else (entry.version, entry.value)
        size = len(value)
        parts += (
            _KEY_SIZES.pack(12 + len(key), len(key)),
            key,
            _VERSION_AND_SIZES.pack(version, 4 + size, size),
            value,
        )
    parts[0] = HEAD.pack(_READ, sum(map(len, parts)))
    return b"".join(parts)
