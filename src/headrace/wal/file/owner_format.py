"""The bytes that say who owns a log: the fence of the file log.

Format page: ``docs/formats/wal-owner.md``. The file ``owner`` has two slots of 4096 bytes. The slot with the
highest epoch is in force; a new owner always writes the other one. Integers are big-endian:

======  ====  ============  =================================================
offset  size  field         meaning
======  ====  ============  =================================================
0       4     magic         ``HRWO``
4       4     crc           crc32c of bytes 8..63
8       1     version       1
9       7     reserved      0
16      16    log id        chosen when the log was created, the same for ever
32      8     epoch         container epoch, from 1
40      8     files epoch   highest epoch of a segment file when this was written: they must not be missing
48      8     taken at      wall clock, ms since 1970; for people
56      8     token         random, one per ``open``; for people
======  ====  ============  =================================================
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.wal.config import BLOCK_BYTES

MAGIC: Final = b"HRWO"
VERSION: Final = 1
SLOT_BYTES: Final = BLOCK_BYTES
SLOT_COUNT: Final = 2
OWNER_RECORD_BYTES: Final = 64
TOKEN_BYTES: Final = 8

_RECORD: Final = struct.Struct(">4sIB7x16sQQQ8s")
_CRC: Final = struct.Struct(">I")

assert _RECORD.size == OWNER_RECORD_BYTES


class OwnerRecord(NamedTuple):
    """Who owns the log."""

    log_id: bytes
    epoch: int
    files_epoch: int
    taken_at_ms: int
    token: bytes


def encode_owner(record: OwnerRecord) -> bytes:
    """Return one slot."""
    slot = bytearray(_RECORD.pack(MAGIC, 0, VERSION, *record))
    _CRC.pack_into(slot, 4, crc32c(slot[8:]))
    return bytes(slot).ljust(SLOT_BYTES, b"\0")


def decode_owner(slot: memoryview) -> OwnerRecord | None:
    """Return the record in ``slot``, or None if there is none or it is damaged."""
    if len(slot) < OWNER_RECORD_BYTES:
        return None
    magic, crc, version, *fields = _RECORD.unpack_from(slot)
    if magic != MAGIC or version != VERSION or crc32c(slot[8:OWNER_RECORD_BYTES]) != crc:
        return None
    return OwnerRecord(*fields)
