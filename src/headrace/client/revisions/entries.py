"""The entries of a shared state: a state as a whole, or updates of it. Pure.

::

    state    i32 1, then the bytes of the state; what follows them is ignored
    updates  i32 2, then for each update: i32 length, its bytes

Source: protocol, "StateSynchronizer: entries, replay, compaction"; ``docs/formats/shared-state.md``; pinned
by ``tests/golden/test_shared_state.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError

_KIND: Final = struct.Struct(">i")
_STATE: Final = 1
_UPDATES: Final = 2

ENTRY_HEAD_BYTES: Final = _KIND.size
UPDATE_HEAD_BYTES: Final = _KIND.size


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A whole state, which nothing in front of it is needed for."""

    state: memoryview


@dataclass(frozen=True, slots=True)
class UpdatesEntry:
    """Updates that happen together, in order."""

    updates: tuple[memoryview, ...]


def encode_state(state: bytes) -> bytes:
    return _KIND.pack(_STATE) + state


def encode_updates(updates: Sequence[bytes]) -> bytes:
    parts = [_KIND.pack(_UPDATES)]
    for update in updates:
        parts += _KIND.pack(len(update)), update
    return b"".join(parts)


def decode_entry(payload: bytes | memoryview) -> StateEntry | UpdatesEntry:
    """Return what an entry says, whichever client wrote it.

    Raises:
        DataCorruptionError: it is none; what follows it in the stream must not be applied.
    """
    view = memoryview(payload)
    if len(view) < _KIND.size:
        raise DataCorruptionError(f"an entry of {len(view)} bytes is too short: {view.hex()}")
    (kind,) = _KIND.unpack_from(view)
    if kind == _STATE:
        return StateEntry(view[_KIND.size :])
    if kind != _UPDATES:
        raise DataCorruptionError(f"no entry is of kind {kind}: it begins with {view[:32].hex()}")
    updates, at = list[memoryview](), _KIND.size
    while at < len(view):
        if len(view) - at < _KIND.size:
            raise DataCorruptionError(f"an entry ends inside the length of an update, at byte {at}")
        (length,) = _KIND.unpack_from(view, at)
        at += _KIND.size
        if not 0 <= length <= len(view) - at:
            raise DataCorruptionError(f"an update at byte {at} of an entry has {length} bytes")
        updates.append(view[at : at + length])
        at += length
    return UpdatesEntry(tuple(updates))
