"""Names of chunks: unique for ever, and readable when only the objects are left.

``<segment>.E-<epoch>-O-<offset>.<incarnation><random>``: the segment it was created for, the container epoch
that created it, the offset of its first byte in that segment, eight hex digits naming the metadata it belongs
to, and 24 random ones, of which an owner draws the first eight once. An object is never written by another
epoch than the one in its name. A merged segment keeps the chunks of its sources, under the sources' names.

Source: docs/formats/chunk-names.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.limits import INT64_MAX

INCARNATION_CHARS: Final = 8
RANDOM_BYTES: Final = 12
OWNER_BYTES: Final = 4
"""Of these: the same in all names that one owner makes."""

CHUNK_SUFFIX_BYTES_MAX: Final = (
    len(".E--O-.") + 2 * len(str(INT64_MAX)) + INCARNATION_CHARS + 2 * RANDOM_BYTES
)
"""What the name of a chunk adds to that of its segment, at most."""

_NAME: Final = re.compile(
    r"(?P<segment>.+)\.E-(?P<epoch>\d{1,19})-O-(?P<offset>\d{1,19})"
    r"\.(?P<incarnation>[0-9a-f]{8})(?P<owner>[0-9a-f]{8})[0-9a-f]{16}",
    re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ChunkName:
    """A chunk name taken apart."""

    segment: str
    epoch: int
    offset: int
    incarnation: str
    owner: str
    """Eight random digits that the owner of that epoch has drawn for all its names."""


def chunk_name(segment: str, epoch: int, offset: int, incarnation: str, random: bytes) -> str:
    """Build a name from ``INCARNATION_CHARS`` hex digits and ``RANDOM_BYTES`` fresh random bytes."""
    assert len(incarnation) == INCARNATION_CHARS
    assert len(random) == RANDOM_BYTES
    return f"{segment}.E-{epoch}-O-{offset}.{incarnation}{random.hex()}"


def parse_chunk_name(name: str) -> ChunkName | None:
    """Take a name apart; None if it is not the name of a chunk."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return ChunkName(
        found["segment"], int(found["epoch"]), int(found["offset"]), found["incarnation"], found["owner"]
    )
