"""The bytes of one entry in the log of a table, so that a table can be rebuilt from its segment alone.

======  ====  ==================================================================================
offset  size  field
======  ====  ==================================================================================
0       1     format version, 1
1       4     key length in bytes, 1 to 8192
5       4     value length in bytes, 0 to 1,040,384; -1 for a removal, which has no value
9       8     entry version: NO_VERSION for what a caller wrote; for a copy made by compaction the
              version the entry had before
17      k     key
17 + k  v     value
======  ====  ==================================================================================

All numbers are big-endian and signed. The version of an entry a caller wrote is its offset in the segment.
Later entries replace earlier ones; there is no padding and no other framing.

Source: docs/formats/table-entry.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import TABLE_KEY_BYTES_MAX, TABLE_VALUE_BYTES_MAX
from headrace.model.tables import NO_VERSION, TableEntry

ENTRY_FORMAT_VERSION: Final = 1


class NoEntryError(DataCorruptionError):
    """Bytes that were read correctly are no entry: damage, or an offset at which no entry begins."""


ENTRY_HEADER_BYTES: Final = 17
REMOVAL: Final = -1
"""Value length of a removal."""

_HEADER: Final = Struct(">biiq")
assert _HEADER.size == ENTRY_HEADER_BYTES

Buffer = bytes | bytearray | memoryview


LoggedEntry = tuple[int, int, bytes, int, int, int]
"""One entry found in a log: offset in the segment, offset of its end there, key, value length, version, and
where in the data that were read its value begins. A plain tuple: logs hold millions of them."""


def encode_entries(entries: Iterable[TableEntry], *, copies: bool = False) -> tuple[bytes, list[int]]:
    """Encode entries as a caller writes them, or ``copies`` that keep the version they carry.

    Returns:
        The bytes, and for each entry where it begins in them.
    """
    pieces: list[bytes] = []
    starts: list[int] = []
    at = 0
    pack = _HEADER.pack
    for entry in entries:
        key, value = entry.key, entry.value
        version = entry.version if copies else NO_VERSION
        assert not copies or version >= 0
        pieces += (pack(ENTRY_FORMAT_VERSION, len(key), len(value), version), key, value)
        starts.append(at)
        at += ENTRY_HEADER_BYTES + len(key) + len(value)
    return b"".join(pieces), starts


def encode_entry(key: bytes, value: bytes) -> tuple[bytes, bytes, bytes]:
    """Encode an entry as a caller writes it, in pieces."""
    return _HEADER.pack(ENTRY_FORMAT_VERSION, len(key), len(value), NO_VERSION), key, value


def encode_removals(keys: Iterable[bytes]) -> bytes:
    """Encode the removal of keys."""
    pieces: list[bytes] = []
    for key in keys:
        pieces += (_HEADER.pack(ENTRY_FORMAT_VERSION, len(key), REMOVAL, NO_VERSION), key)
    return b"".join(pieces)


def decode_entries(data: Buffer, offset: int, segment: str) -> tuple[list[LoggedEntry], int]:
    """Decode the whole entries at the beginning of ``data``, which was read from ``offset`` of ``segment``.

    Returns:
        The entries, and how many bytes of ``data`` they take: what remains is the beginning of an entry.

    Raises:
        NoEntryError: these bytes are no entry; carries where it would have begun.
    """
    entries: list[LoggedEntry] = []
    at, length = 0, len(data)
    unpack = _HEADER.unpack_from
    while length - at >= ENTRY_HEADER_BYTES:
        format_version, key_length, value_length, version = unpack(data, at)
        if (
            format_version != ENTRY_FORMAT_VERSION
            or not 0 < key_length <= TABLE_KEY_BYTES_MAX
            or not REMOVAL <= value_length <= TABLE_VALUE_BYTES_MAX
            or (version != NO_VERSION and not 0 <= version < offset + at)
        ):
            raise NoEntryError(
                f"no table entry: format version {format_version}, key of {key_length} bytes,"
                f" value of {value_length} bytes, entry version {version}",
                path=segment,
                offset=offset + at,
            )
        value_at = at + ENTRY_HEADER_BYTES + key_length
        end = value_at + value_length if value_length > 0 else value_at
        if end > length:
            break
        begins = offset + at
        entries.append(
            (
                begins,
                offset + end,
                bytes(data[at + ENTRY_HEADER_BYTES : value_at]),
                value_length,
                begins if version == NO_VERSION else version,
                value_at,
            )
        )
        at = end
    return entries, at


def decode_entry(
    data: Buffer, at: int, offset: int, segment: str, *, with_value: bool = True
) -> tuple[bytes, bytes, int] | None:
    """Return key, value and version of the entry at ``data[at:]``, which lies at ``offset`` of ``segment``;
    None if it is not all there. Without ``with_value`` that one is empty, and need not be there.

    Raises:
        NoEntryError: no put is there.
    """
    if len(data) - at < ENTRY_HEADER_BYTES:
        return None
    format_version, key_length, value_length, version = _HEADER.unpack_from(data, at)
    if (
        format_version != ENTRY_FORMAT_VERSION
        or not 0 < key_length <= TABLE_KEY_BYTES_MAX
        or not 0 <= value_length <= TABLE_VALUE_BYTES_MAX
        or (version != NO_VERSION and not 0 <= version < offset)
    ):
        raise NoEntryError("no table entry where the index has one", path=segment, offset=offset)
    key_at = at + ENTRY_HEADER_BYTES
    value_at = key_at + key_length
    end = value_at + value_length if with_value else value_at
    if len(data) < end:
        return None
    return (
        bytes(data[key_at:value_at]),
        bytes(data[value_at:end]),
        offset if version == NO_VERSION else version,
    )


def decode_version(header: Buffer, offset: int, segment: str) -> int:
    """Return the version of the copy whose header lies at ``offset`` of ``segment``.

    Raises:
        NoEntryError: no copy is there.
    """
    format_version, _, value_length, version = _HEADER.unpack_from(header)
    if format_version != ENTRY_FORMAT_VERSION or value_length < 0 or not 0 <= version < offset:
        raise NoEntryError("no copy where the index has one", path=segment, offset=offset)
    return int(version)
