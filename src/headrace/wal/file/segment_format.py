"""The name and the head of a segment file of the log, and the place of its truncation point.

Format page: ``docs/formats/wal-segment-file.md``. Integers are big-endian. Name:
``<number>-<epoch>.wal``, both decimal with twelve digits. Number is unique in a log and grows with every
file and every reuse of a file.

========  ====  ==========================================================================
offset    size  block
========  ====  ==========================================================================
0         4096  head, written once per use of the file, durable before its first record
4096      4096  truncation mark A
8192      4096  truncation mark B
12288     ..    records (``record_format``), zeros or old records behind the last
========  ====  ==========================================================================

Head: magic ``HRWF``, crc32c of bytes 8..71, version 2 (1 byte), 7 zero bytes, log id (16), epoch (8),
number (8), first sequence of the container epoch (8), truncation sequence when the file was prepared (8),
size of the file in bytes (8): one that is shorter has lost its end. Version 1 has no size; its checksum
covers 8..63.

Mark: magic ``HRWT``, crc32c of bytes 8..71, version 2 (1 byte), 7 zero bytes, log id (16), epoch (8),
number (8), mark number (8), truncation sequence (8), highest durable sequence (8). Version 1 has no durable
sequence; its checksum covers 8..63. Marks A and B are written alternately: the other one stays whole.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from headrace.wal.config import BLOCK_BYTES

HEAD_MAGIC: Final = b"HRWF"
MARK_MAGIC: Final = b"HRWT"
VERSION: Final = 1
LONG_VERSION: Final = 2
DATA_OFFSET: Final = 3 * BLOCK_BYTES
MARK_OFFSETS: Final = (BLOCK_BYTES, 2 * BLOCK_BYTES)
LOG_ID_BYTES: Final = 16

_BLOCK: Final = struct.Struct(">4sIB7x16sQQQQ")
_LONG_BLOCK: Final = struct.Struct(">4sIB7x16sQQQQQ")
_CRC: Final = struct.Struct(">I")
_NAME: Final = re.compile(r"([0-9]{12})-([0-9]{12})\.wal")
_DRAFT_NAME: Final = re.compile(r"[0-9]{12}-[0-9]{12}\.draft")

assert _BLOCK.size == 64


class FileHead(NamedTuple):
    """What the head of a segment file says."""

    log_id: bytes
    epoch: int
    """Container epoch."""
    number: int
    epoch_first_sequence: int
    truncation_sequence: int
    file_bytes: int = 0
    """Size of the file since it was made; 0 if unknown (version 1)."""


class TruncationMark(NamedTuple):
    """A truncation point stored in a segment file."""

    log_id: bytes
    epoch: int
    """Container epoch."""
    number: int
    mark_number: int
    truncation_sequence: int
    durable_sequence: int = 0
    """Records up to this one are known to be durable; 0 if unknown (version 1)."""


def format_name(number: int, container_epoch: int) -> str:
    """Return the name of segment file ``number`` of the owner of ``container_epoch``."""
    return f"{number:012d}-{container_epoch:012d}.wal"


def format_draft_name(number: int, container_epoch: int) -> str:
    """Return the name under which a segment file is prepared."""
    return f"{number:012d}-{container_epoch:012d}.draft"


def is_draft_name(name: str) -> bool:
    """Say whether ``name`` is that of a file in preparation."""
    return _DRAFT_NAME.fullmatch(name) is not None


def parse_name(name: str) -> tuple[int, int] | None:
    """Return (number, epoch), or None if ``name`` is not that of a segment file."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def short_log_id(log_id: bytes) -> int:
    """Return the half of the log's id that each record carries."""
    return int.from_bytes(log_id[:8], "big")


def encode_head(head: FileHead) -> bytes:
    """Return the first three blocks of a file: its head and two empty truncation marks."""
    return _encode(HEAD_MAGIC, head).ljust(DATA_OFFSET, b"\0")


def decode_head(data: memoryview) -> FileHead | None:
    """Return the head in ``data``, or None if it is damaged or of another version."""
    fields = _decode(HEAD_MAGIC, data)
    return None if fields is None else FileHead(*fields)


def encode_mark(mark: TruncationMark) -> bytes:
    """Return one block."""
    return _encode(MARK_MAGIC, mark).ljust(BLOCK_BYTES, b"\0")


def decode_mark(data: memoryview) -> TruncationMark | None:
    """Return the mark in ``data``, or None if there is none or it is damaged."""
    fields = _decode(MARK_MAGIC, data)
    return None if fields is None else TruncationMark(*fields)


def _encode(magic: bytes, fields: tuple[bytes, int, int, int, int, int]) -> bytes:
    """Return a block of version 2, or of version 1 if there is no last field."""
    if fields[-1]:
        block = bytearray(_LONG_BLOCK.pack(magic, 0, LONG_VERSION, *fields))
    else:
        block = bytearray(_BLOCK.pack(magic, 0, VERSION, *fields[:-1]))
    _CRC.pack_into(block, 4, crc32c(block[8:]))
    return bytes(block)


def _decode(magic: bytes, data: memoryview) -> list[Any] | None:
    """Return log id, epoch, number and what follows them, or None."""
    for layout, version in ((_LONG_BLOCK, LONG_VERSION), (_BLOCK, VERSION)):
        if len(data) >= layout.size:
            found, crc, found_version, *fields = layout.unpack_from(data)
            if (found, found_version) == (magic, version) and crc32c(data[8 : layout.size]) == crc:
                return fields
    return None
