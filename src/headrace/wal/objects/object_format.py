"""The bytes of one object of a log in a bucket.

Format page: ``docs/formats/wal-object.md``. Integers are big-endian.

======  ====  ============  ==========================================================================
offset  size  field         meaning
======  ====  ============  ==========================================================================
0       4     magic         ``HRLO``
4       4     crc           crc32c of bytes 8 up to the end
8       1     version       1
9       1     kind          1 claim; 2 start; 3 record; 4 fence; 5 head; 6 system
10      2     reserved      0
12      4     frames        log frames of a record, from 1; else 0
16      8     container     of a system: how many there are
24      8     epoch         container epoch of the name
32      8     sequence      of the name; 0 of a claim and a start
40      8     address       of the first frame; of a head the truncation point; else 0
48      8     acknowledged  of a record: all below this sequence were confirmed when it was made; else 0
56      16    write id      drawn by the owner that made it; zeros in a start and a head; id of a system
72      ..    lengths       of a record: 4 bytes for each frame
..      ..    contents      of a record: the frames
======  ====  ============  ==========================================================================

A record has at least one frame, so it is longer than all others: its length in a listing tells it apart.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.errors import DataCorruptionError
from headrace.limits import INT64_MAX, KIB, MIB
from headrace.runtime.checksums import release_mode

MAGIC: Final = b"HRLO"
VERSION: Final = 1
HEADER_BYTES: Final = 72
FRAMES_MAX: Final = 1024
"""Of one record."""
OBJECT_BYTES_MAX: Final = 64 * MIB
WRITE_ID_BYTES: Final = 16
NO_WRITE_ID: Final = bytes(WRITE_ID_BYTES)

FIRST_ADDRESS: Final = 1
"""Of the first frame of a log; each further one has the next."""

_HEADER: Final = struct.Struct(">4sIBBHIQQQQQ16s")
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 4
_CRC_FROM: Final = 8
_LENGTH: Final = struct.Struct(">I")
_HOLD_GIL_BYTES_MAX: Final = 256 * KIB

assert _HEADER.size == HEADER_BYTES

Buffer = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What an object says."""

    CLAIM = 1
    """An owner has this container epoch."""
    START = 2
    """The log was made for a system that is rebuilt; no owner has had this container epoch."""
    RECORD = 3
    FENCE = 4
    """No record here or above is acknowledged, if all below are records."""
    HEAD = 5
    """The log begins here."""
    SYSTEM = 6
    """Whose logs these are."""


_KINDS: Final = frozenset(Kind)


class ObjectHeader(NamedTuple):
    """What an object says but for its frames."""

    kind: Kind
    container: int
    epoch: int
    """Container epoch."""
    sequence: int = 0
    address: int = 0
    acknowledged: int = 0
    write_id: bytes = NO_WRITE_ID


class LogObject(NamedTuple):
    """A whole object."""

    header: ObjectHeader
    frames: list[memoryview]
    """In the bytes that it was decoded from."""


def is_record_length(length: int) -> bool:
    """Whether an object of this length is a record; see the module."""
    return length > HEADER_BYTES


def encode_object(header: ObjectHeader, frames: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return an object as buffers: the header with the lengths, then the frames, which are not copied."""
    assert (header.kind is Kind.RECORD) == bool(frames)
    assert len(frames) <= FRAMES_MAX
    lengths = [len(frame) for frame in frames]
    front = bytearray(HEADER_BYTES + _LENGTH.size * len(frames))
    _HEADER.pack_into(
        front,
        0,
        MAGIC,
        0,
        VERSION,
        header.kind,
        0,
        len(frames),
        header.container,
        header.epoch,
        header.sequence,
        header.address,
        header.acknowledged,
        header.write_id,
    )
    struct.pack_into(f">{len(frames)}I", front, HEADER_BYTES, *lengths)
    release = release_mode(sum(lengths), _HOLD_GIL_BYTES_MAX)
    crc = crc32c(memoryview(front)[_CRC_FROM:])
    for frame in frames:
        crc = crc32c(frame, crc, release)
    _CRC.pack_into(front, _CRC_AT, crc)
    return [bytes(front), *frames]


def object_bytes(found: LogObject) -> int:
    """Return the length of an object."""
    return HEADER_BYTES + sum(_LENGTH.size + len(frame) for frame in found.frames)


def decode_object(raw: Buffer, path: str) -> LogObject:
    """Return the object that these bytes are; ``path`` is for messages.

    Raises:
        DataCorruptionError: they are none, are not whole, or are of a newer version.
    """
    view = memoryview(raw)
    if len(view) < HEADER_BYTES or bytes(view[: len(MAGIC)]) != MAGIC:
        raise DataCorruptionError("this is no object of a log", path=path, offset=0)
    _, crc, version, kind, reserved, count, container, epoch, sequence, address, acknowledged, write_id = (
        _HEADER.unpack_from(view)
    )
    if version > VERSION:
        raise DataCorruptionError(
            f"the object has version {version} of its format, and this release reads {VERSION}: use the "
            "release that wrote it, or a newer one",
            path=path,
            offset=8,
        )
    if crc32c(view[_CRC_FROM:]) != crc:
        raise DataCorruptionError("the object does not match its checksum", path=path, offset=4)
    largest = max(container, epoch, sequence, address, acknowledged)
    if version < VERSION or kind not in _KINDS or reserved or largest > INT64_MAX:
        raise DataCorruptionError("the header has impossible values", path=path, offset=8)
    header = ObjectHeader(Kind(kind), container, epoch, sequence, address, acknowledged, write_id)
    if (header.kind is Kind.RECORD) != (count > 0) or count > FRAMES_MAX:
        raise DataCorruptionError(f"{header.kind.name} with {count} frames", path=path, offset=12)
    at = HEADER_BYTES + _LENGTH.size * count
    if at > len(view):
        raise DataCorruptionError("the frames have no lengths", path=path, offset=HEADER_BYTES)
    frames: list[memoryview] = []
    for length in struct.unpack_from(f">{count}I", view, HEADER_BYTES):
        frames.append(view[at : at + length])
        at += length
    if at != len(view):
        raise DataCorruptionError(
            f"the object has {len(view)} bytes and its frames need {at}", path=path, offset=HEADER_BYTES
        )
    return LogObject(header, frames)
