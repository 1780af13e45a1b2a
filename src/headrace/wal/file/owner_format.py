"""The bytes that name the owner of a log: the fence of the file log.

Format page: ``docs/formats/wal-owner.md``. The file ``owner`` has two slots of 4096 bytes. The slot with the
highest container epoch is in force; a new owner always writes the other one. Integers are big-endian:

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

Four more slots of the same size follow. They name the newest log file: the one that the last records are in
or will be in, so that losing it is noticed. Owners of even epochs alternate between the first two, those of
odd epochs between the last two. The valid one with the highest container epoch, and of that the highest
number, is in force:

======  ====  ============  =================================================
offset  size  field         meaning
======  ====  ============  =================================================
0       4     magic         ``HRWN``
4       4     crc           crc32c of bytes 8..63
8       1     version       1
9       7     reserved      0
16      16    log id        that of the owner record
32      8     epoch         of the file
40      8     number        of the file
48      16    reserved      0
======  ====  ============  =================================================
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.wal.config import BLOCK_BYTES

MAGIC: Final = b"HRWO"
VERSION: Final = 1
SLOT_BYTES: Final = BLOCK_BYTES
SLOT_COUNT: Final = 2
OWNER_RECORD_BYTES: Final = 64
TOKEN_BYTES: Final = 8

NEWEST_MAGIC: Final = b"HRWN"
NEWEST_SLOTS_AT: Final = SLOT_COUNT * SLOT_BYTES
"""Where the slots begin that name the newest file."""
NEWEST_SLOT_COUNT: Final = 4

_RECORD: Final = struct.Struct(">4sIB7x16sQQQ8s")
_NEWEST: Final = struct.Struct(">4sIB7x16sQQ16x")
_CRC: Final = struct.Struct(">I")

assert _RECORD.size == _NEWEST.size == OWNER_RECORD_BYTES


class OwnerRecord(NamedTuple):
    """The owner of the log."""

    log_id: bytes
    epoch: int
    """Container epoch."""
    files_epoch: int
    taken_at_ms: int
    token: bytes


class NewestFile(NamedTuple):
    """The newest file of a log, which must be there unless a newer owner has one."""

    log_id: bytes
    epoch: int
    """Container epoch."""
    number: int


def encode_owner(record: OwnerRecord) -> bytes:
    """Return one slot."""
    return _seal(bytearray(_RECORD.pack(MAGIC, 0, VERSION, *record)))


def encode_newest(newest: NewestFile) -> bytes:
    """Return one slot."""
    return _seal(bytearray(_NEWEST.pack(NEWEST_MAGIC, 0, VERSION, *newest)))


def _seal(record: bytearray) -> bytes:
    _CRC.pack_into(record, 4, crc32c(record[8:]))
    return bytes(record).ljust(SLOT_BYTES, b"\0")


def decode_owner(slot: memoryview) -> OwnerRecord | None:
    """Return the record in ``slot``, or None if there is none or it is damaged."""
    if len(slot) < OWNER_RECORD_BYTES:
        return None
    magic, crc, version, *fields = _RECORD.unpack_from(slot)
    if magic != MAGIC or version != VERSION or crc32c(slot[8:OWNER_RECORD_BYTES]) != crc:
        return None
    return OwnerRecord(*fields)


def decode_newest(slot: memoryview) -> NewestFile | None:
    """Return what ``slot`` names, or None if that is nothing or damaged."""
    if len(slot) < OWNER_RECORD_BYTES:
        return None
    magic, crc, version, *fields = _NEWEST.unpack_from(slot)
    if magic != NEWEST_MAGIC or version != VERSION or crc32c(slot[8:OWNER_RECORD_BYTES]) != crc:
        return None
    return NewestFile(*fields)


def find_named(slots: Sequence[bytes]) -> tuple[list[NewestFile], list[int]]:
    """Return the files that the last owner to name any has named, and the slots neither empty nor whole.

    The newest file comes first, then the one before it, if it had one. None are known if there are such
    slots: they were torn, or have been damaged since; whole ones may be out of date then, and prove nothing.
    """
    names = [decode_newest(memoryview(slot)) for slot in slots]
    damaged = [index for index, name in enumerate(names) if name is None and any(slots[index])]
    if damaged:
        return [], damaged
    valid = sorted((name for name in names if name is not None), key=_age, reverse=True)
    return [name for name in valid if name.epoch == valid[0].epoch], damaged


def _age(name: NewestFile) -> tuple[int, int]:
    return name.epoch, name.number


def choose_newest_slot(container_epoch: int, names_written: int) -> int:
    """Return the slot of the next name that the owner of ``container_epoch`` writes.

    Neighbouring epochs share no slot: an owner that does not know yet that it has a successor overwrites
    nothing of it.
    """
    return container_epoch % 2 * 2 + names_written % 2
