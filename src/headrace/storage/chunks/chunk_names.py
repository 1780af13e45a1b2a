"""Names of chunks: unique for ever, and readable when only the objects are left.

``c<container>/<segment>.E-<epoch>-O-<offset>-<incarnation><random>``: the container and the segment it was
created for, the container epoch that created it, the offset of its first byte in that segment, eight hex
digits naming the metadata it belongs to, and 24 random ones, of which an owner draws the first eight once. An
object is never written by another epoch than the one in its name. A merged segment keeps the chunks of its
sources, under the sources' names.

Earlier releases left out the container, and wrote a dot in front of the incarnation.

Source: docs/formats/chunk-names.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.limits import INT64_MAX

INCARNATION_CHARS: Final = 8
CONTAINER_CHARS_MAX: Final = 10
RANDOM_BYTES: Final = 12
OWNER_BYTES: Final = 4
"""Of these: the same in all names that one owner makes."""

CHUNK_MARKS_BYTES_MAX: Final = (
    len("c/.E--O--") + CONTAINER_CHARS_MAX + 2 * len(str(INT64_MAX)) + INCARNATION_CHARS + 2 * RANDOM_BYTES
)
"""What the name of a chunk adds to that of its segment, at most."""

_MARKS: Final = (
    r"\.E-(?P<epoch>\d{1,19})-O-(?P<offset>\d{1,19})%s"
    r"(?P<incarnation>[0-9a-f]{8})(?P<owner>[0-9a-f]{8})[0-9a-f]{16}"
)
_FLAGS: Final = re.DOTALL | re.ASCII
_NAME: Final = re.compile(r"c(?P<container>\d{1,10})/(?P<segment>.+)" + _MARKS % "-", _FLAGS)
_EARLIER_NAME: Final = re.compile(r"(?P<segment>.+)" + _MARKS % r"\.", _FLAGS)


@dataclass(frozen=True, slots=True)
class ChunkName:
    """A chunk name taken apart."""

    segment: str
    epoch: int
    """Container epoch."""
    offset: int
    incarnation: str
    owner: str
    """Eight random digits that the owner of that container epoch has drawn for all its names."""

    container: int | None = None
    """The container that made it; unknown of what earlier releases made."""


def container_prefix(container: int) -> str:
    """Return what the names of all chunks of a container begin with, apart from those of earlier releases."""
    return f"c{container}/"


def chunk_name(
    container: int, segment: str, container_epoch: int, offset: int, incarnation: str, random: bytes
) -> str:
    """Build a name from ``INCARNATION_CHARS`` hex digits and ``RANDOM_BYTES`` fresh random bytes."""
    assert len(incarnation) == INCARNATION_CHARS
    assert len(random) == RANDOM_BYTES
    return (
        f"{container_prefix(container)}{segment}.E-{container_epoch}-O-{offset}-{incarnation}{random.hex()}"
    )


def parse_chunk_name(name: str) -> ChunkName | None:
    """Take a name apart, of this or an earlier release; None if it is not the name of a chunk."""
    found = _NAME.fullmatch(name)
    container = None if found is None else int(found["container"])
    found = found or _EARLIER_NAME.fullmatch(name)
    if found is None:
        return None
    return ChunkName(
        found["segment"],
        int(found["epoch"]),
        int(found["offset"]),
        found["incarnation"],
        found["owner"],
        container,
    )


def segment_of(name: str) -> str:
    """Return the segment for which a chunk was made; what is no name of a chunk stands for itself."""
    parsed = parse_chunk_name(name)
    return name if parsed is None else parsed.segment
