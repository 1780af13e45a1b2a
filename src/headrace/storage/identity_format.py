"""Whose objects a store has: the bytes of its identity, and what a start makes of them.

Source: docs/formats/store-identity.md; pinned by tests/golden/store_identity.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from crc32c import crc32c

from headrace.errors import ChecksumMismatchError, DataCorruptionError, InvalidArgumentError

IDENTITY_NAME: Final = "_system/identity"
"""The object that has it, beside the chunks."""

SYSTEM_BYTES: Final = 16
"""Of the id of a system, which is these bytes in hex."""

IDENTITY_BYTES: Final = 21

_VERSION: Final = 1
_IDENTITY: Final = Struct(f">B{SYSTEM_BYTES}s")
_CRC: Final = Struct(">I")
_SYSTEM: Final = re.compile(f"[0-9a-f]{{{2 * SYSTEM_BYTES}}}")


def is_system(text: object) -> bool:
    """Whether this is the id of a system."""
    return isinstance(text, str) and _SYSTEM.fullmatch(text) is not None


def encode_identity(system: str) -> bytes:
    body = _IDENTITY.pack(_VERSION, bytes.fromhex(system))
    return body + _CRC.pack(crc32c(body))


def decode_identity(data: bytes) -> str:
    """Return the id of the system.

    Raises:
        DataCorruptionError: it is damaged, or was cut short.
        InvalidArgumentError: it is of a newer version.
    """
    if data and data[0] > _VERSION:
        raise InvalidArgumentError(
            f"{IDENTITY_NAME} of the store is of version {data[0]}, this version of Headrace reads {_VERSION}"
        )
    if len(data) != IDENTITY_BYTES or data[0] != _VERSION:
        raise DataCorruptionError(f"{len(data)} bytes are no identity of a store", path=IDENTITY_NAME)
    body = data[: _IDENTITY.size]
    if _CRC.unpack(data[_IDENTITY.size :])[0] != crc32c(body):
        raise ChecksumMismatchError("the identity of the store fails its checksum", path=IDENTITY_NAME)
    return str(_IDENTITY.unpack(body)[1].hex())


def judge_identity(
    where: str, found: str | None, system: str, advice: str, *, is_new: bool, adopts: bool, other: str
) -> bool:
    """Whether a server may make its identity in a store; False if it has it already.

    Args:
        where: the store, for errors.
        found: the system whose identity is there, if any.
        system: that of the data directory.
        advice: what to do if the store is another's, for errors; "" for nothing better than is said anyway.
        is_new: nothing was ever written with this data directory.
        adopts: the store is known to be the right one, by other means than an identity.
        other: an object that is there without an identity; "" if there is none.

    Raises:
        InvalidArgumentError: a new directory, and a store that others use.
        DataCorruptionError: a directory that was used, and not its store.
    """
    if found == system:
        return False
    if found is not None and is_new:
        raise InvalidArgumentError(
            f"{where} has the data of another system ({found}), and nothing was changed: use another prefix"
            + (advice and f"; {advice}")
        )
    if found is not None:
        raise DataCorruptionError(
            f"{where} has the data of another system ({found}); those of this data directory ({system}) are "
            f"elsewhere: {advice or 'name their store'}"
        )
    if adopts:
        return True
    if not is_new:
        raise DataCorruptionError(
            f"{where} is not the store of this data directory, or was emptied: it has no {IDENTITY_NAME}. "
            f"{advice or 'Name the right store'}; headrace storage copy moves one"
        )
    if other:
        raise InvalidArgumentError(
            f"{where} is not empty, and no system says that it is its own: it has {other!r}; use another "
            "prefix"
        )
    return True
