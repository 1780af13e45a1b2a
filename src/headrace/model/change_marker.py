"""What a look for changed segments remembers for the next look, and its bytes. Pure.

One marker is about any number of containers, wherever they run: when each was looked at, by the clock of its
owner, and in which epoch. Another epoch means another owner, whose clock and memory are others: everything in
that container counts as changed then. So markers of several stores are joined into one, which is given to
each of them. A marker lives in memory only: 20 bytes of each container, its id, epoch and time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.errors import InvalidArgumentError

_ENTRY: Final = struct.Struct(">iqq")

MARKER_BYTES_MAX: Final = 64 * 1024
"""Of more than 3,000 containers."""


class Looked(NamedTuple):
    """When a container was looked at: by the clock of its owner, in ms, in the epoch of that owner."""

    epoch: int
    time_ms: int


def encode_marker(looks: Mapping[int, Looked]) -> bytes:
    """Return the marker about these containers."""
    return b"".join(_ENTRY.pack(container_id, *looks[container_id]) for container_id in sorted(looks))


def decode_marker(marker: bytes) -> dict[int, Looked]:
    """Raises InvalidArgumentError: those bytes are no marker."""
    if len(marker) % _ENTRY.size or len(marker) > MARKER_BYTES_MAX:
        raise InvalidArgumentError(f"{len(marker)} bytes are no marker of changes; begin with an empty one")
    return {
        container_id: Looked(epoch, time_ms) for container_id, epoch, time_ms in _ENTRY.iter_unpack(marker)
    }


def extend_marker(marker: bytes, former: bytes) -> bytes:
    """Return ``marker`` with what ``former`` has of containers that are not in it: nobody looked at them."""
    return encode_marker({**decode_marker(former), **decode_marker(marker)})


def join_markers(markers: Iterable[bytes]) -> bytes:
    """Return one marker about the containers of all. Of a container with two owners the later one counts."""
    joined: dict[int, Looked] = {}
    for marker in markers:
        for container_id, looked in decode_marker(marker).items():
            joined[container_id] = max(looked, joined.get(container_id, looked))
    return encode_marker(joined)
