"""The header-file layout of segments: one object of text that lists the objects with the bytes.

``S$header`` holds ``0:S$offset_0;100:S$offset_100;``: from which offset on which object has the bytes of
segment ``S``, rising. Each ends where the next begins; the last one ends with its object.

Source: docs/formats/header-layout.md; pinned by tests/golden/header_layout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.limits import INT64_MAX

HEADER_SUFFIX: Final = "$header"
HEADER_BYTES_MAX: Final = 64 << 20
"""A million objects."""

_PAIR: Final = re.compile(r"(\d{1,19}):([^;]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """The object that has the bytes of a segment from ``offset`` on."""

    offset: int
    name: str


def header_name(segment: str) -> str:
    return segment + HEADER_SUFFIX


def part_name(segment: str, offset: int) -> str:
    return f"{segment}$offset_{offset}"


def segment_of_header(name: str) -> str | None:
    """Return the segment whose header an object is; None if it is none."""
    segment = name.removesuffix(HEADER_SUFFIX)
    return segment if segment and segment != name else None


def encode_header(entries: Sequence[HeaderEntry]) -> bytes:
    """Raises: InvalidArgumentError: a name cannot be in a header."""
    for entry in entries:
        if not entry.name or ";" in entry.name:
            raise InvalidArgumentError(f"{entry.name!r} cannot be listed in a header: it has a semicolon")
    return "".join(f"{entry.offset}:{entry.name};" for entry in entries).encode()


def decode_header(data: bytes, name: str = "?") -> list[HeaderEntry]:
    """Read a header. What follows the last semicolon was not written to its end, and is ignored.

    Raises:
        DataCorruptionError: it has another form, or its offsets do not rise.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataCorruptionError(f"a header is text: {error}", path=name) from None
    entries: list[HeaderEntry] = []
    for pair in text.split(";")[:-1]:
        found = _PAIR.fullmatch(pair)
        if found is None or int(found[1]) > INT64_MAX:
            raise DataCorruptionError(f"{pair[:200]!r} is no offset and no name of an object", path=name)
        entry = HeaderEntry(int(found[1]), found[2])
        if entries and entry.offset <= entries[-1].offset:
            raise DataCorruptionError(f"offset {entry.offset} follows {entries[-1].offset}", path=name)
        entries.append(entry)
    return entries
