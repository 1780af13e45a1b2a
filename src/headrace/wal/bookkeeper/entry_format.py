"""The bytes of an entry at a bookie: whose it is, what its writer knew to be durable, digest and payload.

Format page: ``docs/formats/bookkeeper.md``. Integers are big-endian:

======  ====  ==============  ==================================================================
offset  size  field           meaning
======  ====  ==============  ==================================================================
0       8     ledger
8       8     entry           number in the ledger, from 0, without gaps
16      8     last confirmed  highest entry that was acknowledged when this was sent; -1: none
24      8     length          bytes of all payloads of the ledger up to and with this one
32      4     digest          crc32c of bytes 0..31 and of the payload
36      ..    payload
======  ====  ==============  ==================================================================
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.errors import ChecksumMismatchError, DataCorruptionError
from headrace.limits import KIB
from headrace.runtime.checksums import release_mode

NO_ENTRY: Final = -1
"""The last confirmed entry of a ledger without any."""

_FIELDS: Final = struct.Struct(">qqqq")
_DIGEST: Final = struct.Struct(">I")
ENTRY_HEAD_BYTES: Final = _FIELDS.size + _DIGEST.size
_HOLD_GIL_BYTES_MAX: Final = 256 * KIB


class Entry(NamedTuple):
    """An entry as a bookie has it, whose digest is right."""

    ledger: int
    entry: int
    last_confirmed: int
    length: int
    payload: memoryview


def encode_entry_head(
    ledger: int, entry: int, last_confirmed: int, length: int, payload: bytes | memoryview
) -> bytes:
    """Return what stands in front of ``payload``; ``length`` counts it already."""
    assert NO_ENTRY <= last_confirmed < entry
    assert length >= len(payload)
    fields = _FIELDS.pack(ledger, entry, last_confirmed, length)
    return fields + _DIGEST.pack(_digest(fields, payload))


def decode_entry(data: bytes | memoryview, ledger: int, entry: int | None = None) -> Entry:
    """Take an entry apart that a bookie sent as number ``entry`` of ``ledger``; None: whichever was last.

    Raises:
        ChecksumMismatchError: its digest is wrong.
        DataCorruptionError: it is another entry, or none at all.
    """
    view = memoryview(data)
    place = f"ledger {ledger}" + ("" if entry is None else f" entry {entry}")
    if len(view) < ENTRY_HEAD_BYTES:
        raise DataCorruptionError(f"{len(view)} bytes are too few for an entry", path=place)
    fields = view[: _FIELDS.size]
    payload = view[ENTRY_HEAD_BYTES:]
    (digest,) = _DIGEST.unpack_from(view, _FIELDS.size)
    if _digest(fields, payload) != digest:
        raise ChecksumMismatchError("an entry has a wrong digest", path=place)
    number, found_entry, last_confirmed, length = _FIELDS.unpack(fields)
    found = Entry(number, found_entry, last_confirmed, length, payload)
    if found.ledger != ledger or entry not in {None, found.entry}:
        raise DataCorruptionError(
            f"a bookie has entry {found.entry} of ledger {found.ledger} in this place", path=place
        )
    if not NO_ENTRY <= found.last_confirmed < found.entry or found.length < len(payload):
        raise DataCorruptionError("an entry contradicts itself", path=place)
    return found


def _digest(fields: bytes | memoryview, payload: bytes | memoryview) -> int:
    digest: int = crc32c(payload, crc32c(fields), release_mode(len(payload), _HOLD_GIL_BYTES_MAX))
    return digest
