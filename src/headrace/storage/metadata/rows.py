"""Rows of chunk metadata, byte for byte.

Everything is big-endian; a name is a 16-bit length and that many bytes of UTF-8. Each row begins with its
version and ends with the crc32c of all bytes before, so that a damaged row is recognised wherever it was.

=================  ===================================  ===================================================
Key                Row                                  Life
=================  ===================================  ===================================================
``i``              IncarnationRow                       written before the first object; drawn anew if the
                                                        log turns out to be older than its objects
``s/<segment>``    SegmentRow                           from create to delete or concat
``c/<chunk>``      ChunkRow                             from the commit that makes it part of a segment until
                                                        its object is deleted
``k/<chunk>/<n>``  ChecksumRow, n as 8 hex digits       with its chunk; never changed
``g/<id>``         GarbageRow, id as 16 hex digits      from the commit that drops chunks until the last of
                                                        their objects is deleted
``n``              GarbageNumbersRow                    written before the first garbage batch of an owner
=================  ===================================  ===================================================

Source: docs/formats/storage-rows.md; pinned by tests/golden/storage_rows.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct, unpack_from
from sys import byteorder
from typing import Final

from crc32c import crc32c

from headrace.errors import ChecksumMismatchError, DataCorruptionError

INCARNATION_KEY: Final = "i"
NUMBERS_KEY: Final = "n"
SEGMENT_PREFIX: Final = "s/"
CHUNK_PREFIX: Final = "c/"
CHECKSUM_PREFIX: Final = "k/"
GARBAGE_PREFIX: Final = "g/"

ROW_VERSION: Final = 1
CHECKSUM_GROUP_BLOCKS: Final = 256
"""Checksums of so many blocks make one ChecksumRow; fewer are still in the ChunkRow. Part of the format."""

_OVERHEAD: Final = 16
"""What a row takes in the log besides its key and itself, at most."""

_SEALED: Final = 1
_SEGMENT: Final = Struct(">BBqqqqqI")
_CHUNK: Final = Struct(">BqqI")
_GARBAGE: Final = Struct(">BI")
_NUMBERS: Final = Struct(">Bqq")
_NAME: Final = Struct(">H")
_COUNT: Final = Struct(">I")
_CRC: Final = Struct(">I")


def size_of(changes: Mapping[str, bytes | None]) -> int:
    """Return how many bytes a commit of these rows takes in the log, at most; None removes a row."""
    return sum(_OVERHEAD + len(key) + len(row or b"") for key, row in changes.items())


def segment_key(segment: str) -> str:
    return SEGMENT_PREFIX + segment


def chunk_key(chunk: str) -> str:
    return CHUNK_PREFIX + chunk


def checksum_key(chunk: str, group: int) -> str:
    return f"{CHECKSUM_PREFIX}{chunk}/{group:08x}"


def garbage_key(number: int) -> str:
    return f"{GARBAGE_PREFIX}{number:016x}"


def garbage_number(key: str) -> int:
    """Return the number of the batch of a garbage row."""
    return int(key[len(GARBAGE_PREFIX) :], 16)


@dataclass(slots=True)
class SegmentRow:
    """One segment. Offsets and lengths in bytes.

    ``chunk_count`` chunks, linked from ``first_chunk``, hold ``[first_chunk_start, length)``; without chunks
    the name is empty and ``first_chunk_start`` is ``length``.
    """

    owner_epoch: int
    length: int
    start_offset: int
    sealed: bool
    rollover_bytes: int
    first_chunk_start: int
    chunk_count: int
    first_chunk: str = ""
    last_chunk: str = ""


@dataclass(slots=True)
class ChunkRow:
    """One chunk: ``length`` bytes belong to the segment, whatever else the object may hold.

    ``checksums`` are the crc32c of its blocks of ``block_bytes`` (the last may be short), from the first
    block that no ChecksumRow covers. ``next_chunk`` is empty at the end of the segment.
    """

    epoch: int
    """Container epoch."""
    length: int
    block_bytes: int
    checksums: array[int] = field(default_factory=lambda: array("I"))
    next_chunk: str = ""


@dataclass(slots=True)
class GarbageRow:
    """``chunk_count`` linked chunks from ``first_chunk`` on that no segment uses any more."""

    first_chunk: str
    chunk_count: int


@dataclass(slots=True)
class GarbageNumbersRow:
    """Garbage rows have numbers from ``first`` up to ``end``, which is not one of them."""

    first: int
    end: int


def encode_segment_row(row: SegmentRow) -> bytes:
    return _close(
        _SEGMENT.pack(
            ROW_VERSION,
            _SEALED if row.sealed else 0,
            row.owner_epoch,
            row.length,
            row.start_offset,
            row.rollover_bytes,
            row.first_chunk_start,
            row.chunk_count,
        )
        + _encode_name(row.first_chunk)
        + _encode_name(row.last_chunk)
    )


def decode_segment_row(data: bytes, key: str = "?") -> SegmentRow:
    """Raises: DataCorruptionError."""
    body = _open(key, data)
    try:
        _, flags, epoch, length, start, rollover, first_start, count = _SEGMENT.unpack_from(body)
        first, at = _decode_name(body, _SEGMENT.size)
        last, at = _decode_name(body, at)
    except (struct.error, ValueError) as error:
        raise _damaged(key, str(error)) from error
    _check_end(key, body, at)
    if flags & ~_SEALED:
        raise _damaged(key, f"unknown flags {flags:#x}")
    return SegmentRow(epoch, length, start, bool(flags & _SEALED), rollover, first_start, count, first, last)


def encode_chunk_row(row: ChunkRow) -> bytes:
    return _close(
        _CHUNK.pack(ROW_VERSION, row.epoch, row.length, row.block_bytes)
        + _encode_name(row.next_chunk)
        + _encode_checksums(row.checksums)
    )


def decode_chunk_row(data: bytes, key: str = "?") -> ChunkRow:
    """Raises: DataCorruptionError."""
    body = _open(key, data)
    try:
        _, epoch, length, block_bytes = _CHUNK.unpack_from(body)
        next_chunk, at = _decode_name(body, _CHUNK.size)
        checksums, at = _decode_checksums(body, at)
    except (struct.error, ValueError) as error:
        raise _damaged(key, str(error)) from error
    _check_end(key, body, at)
    if length < 0 or block_bytes == 0:
        raise _damaged(key, f"{length} bytes in blocks of {block_bytes}")
    if len(checksums) != tail_block_count(length, block_bytes):
        raise _damaged(key, f"{len(checksums)} checksums for {length} bytes in blocks of {block_bytes}")
    return ChunkRow(epoch, length, block_bytes, checksums, next_chunk)


def encode_checksum_row(checksums: array[int]) -> bytes:
    assert len(checksums) == CHECKSUM_GROUP_BLOCKS
    return _close(bytes([ROW_VERSION]) + _encode_checksums(checksums))


def decode_checksum_row(data: bytes, key: str = "?") -> array[int]:
    """Raises: DataCorruptionError."""
    body = _open(key, data)
    try:
        checksums, at = _decode_checksums(body, 1)
    except struct.error as error:
        raise _damaged(key, str(error)) from error
    _check_end(key, body, at)
    if len(checksums) != CHECKSUM_GROUP_BLOCKS:
        raise _damaged(key, f"{len(checksums)} checksums")
    return checksums


def encode_garbage_row(row: GarbageRow) -> bytes:
    return _close(_GARBAGE.pack(ROW_VERSION, row.chunk_count) + _encode_name(row.first_chunk))


def decode_garbage_row(data: bytes, key: str = "?") -> GarbageRow:
    """Raises: DataCorruptionError."""
    body = _open(key, data)
    try:
        _, count = _GARBAGE.unpack_from(body)
        first, at = _decode_name(body, _GARBAGE.size)
    except (struct.error, ValueError) as error:
        raise _damaged(key, str(error)) from error
    _check_end(key, body, at)
    return GarbageRow(first, count)


def encode_numbers_row(row: GarbageNumbersRow) -> bytes:
    return _close(_NUMBERS.pack(ROW_VERSION, row.first, row.end))


def decode_numbers_row(data: bytes) -> GarbageNumbersRow:
    """Raises: DataCorruptionError."""
    body = _open(NUMBERS_KEY, data)
    _check_end(NUMBERS_KEY, body, _NUMBERS.size)
    _, first, end = _NUMBERS.unpack(body)
    if not 0 <= first <= end:
        raise _damaged(NUMBERS_KEY, f"numbers from {first} to {end}")
    return GarbageNumbersRow(first, end)


def encode_incarnation_row(incarnation: str) -> bytes:
    return _close(bytes([ROW_VERSION]) + _encode_name(incarnation))


def decode_incarnation_row(data: bytes) -> str:
    """Raises: DataCorruptionError."""
    body = _open(INCARNATION_KEY, data)
    try:
        incarnation, at = _decode_name(body, 1)
    except (struct.error, ValueError) as error:
        raise _damaged(INCARNATION_KEY, str(error)) from error
    _check_end(INCARNATION_KEY, body, at)
    return incarnation


def full_group_count(length: int, block_bytes: int) -> int:
    """Return how many ChecksumRows a chunk of ``length`` bytes has."""
    return length // block_bytes // CHECKSUM_GROUP_BLOCKS


def tail_block_count(length: int, block_bytes: int) -> int:
    """Return how many checksums are in the ChunkRow of a chunk of ``length`` bytes."""
    return -(-length // block_bytes) - full_group_count(length, block_bytes) * CHECKSUM_GROUP_BLOCKS


# -------------------------------------------------------------------------------------- pieces


def _close(body: bytes) -> bytes:
    return body + _CRC.pack(crc32c(body))


def _open(key: str, data: bytes) -> bytes:
    body = data[:-4]
    if not body:
        raise _damaged(key, f"{len(data)} bytes")
    if _CRC.unpack_from(data, len(body))[0] != crc32c(body):
        raise ChecksumMismatchError(f"row {key!r} fails its checksum")
    if body[0] != ROW_VERSION:
        raise _damaged(key, f"unknown version {body[0]}")
    return body


def _check_end(key: str, body: bytes, at: int) -> None:
    if at != len(body):
        raise _damaged(key, f"{len(body) - at} bytes too many")


def _damaged(key: str, what: str) -> DataCorruptionError:
    return DataCorruptionError(f"row {key!r} is damaged: {what}")


def _encode_name(name: str) -> bytes:
    data = name.encode("utf-8", "surrogatepass")
    return _NAME.pack(len(data)) + data


def _decode_name(body: bytes, at: int) -> tuple[str, int]:
    begin = at + 2
    end = begin + _NAME.unpack_from(body, at)[0]
    if end > len(body):
        raise ValueError(f"a name ends {end - len(body)} bytes after the row")
    return body[begin:end].decode("utf-8", "surrogatepass"), end


def _encode_checksums(checksums: array[int]) -> bytes:
    words = checksums[:]
    if byteorder == "little":
        words.byteswap()
    return _COUNT.pack(len(words)) + words.tobytes()  # a format for each count would have to be compiled


def _decode_checksums(body: bytes, at: int) -> tuple[array[int], int]:
    (count,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    if count > CHECKSUM_GROUP_BLOCKS:
        raise struct.error(f"{count} checksums in one row")
    return array("I", unpack_from(f">{count}I", body, at)), at + 4 * count
