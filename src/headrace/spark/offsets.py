"""Offsets of a streaming query as its checkpoint stores them: symbolic at first, then stream cuts. Pure.

Spark compares offsets as JSON text, so every offset is built here, with sorted keys and without floats.
Before anything was read the offset only repeats the option (``{"start": "latest"}``): it must not be resolved
then, because Spark asks for it twice and again after a crash in the first batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.errors import InvalidArgumentError

VERSION: Final = 1


def symbolic_offset(start: str) -> dict[str, Any]:
    """Return the offset of a query that has not read anything."""
    return {"start": start}


def cut_offset(scope: str, stream: str, offsets: Mapping[int, int]) -> dict[str, Any]:
    """Return the offset of a position in the stream; equal positions give equal text."""
    cut = {str(segment): offsets[segment] for segment in sorted(offsets)}
    return {"cut": cut, "scope": scope, "stream": stream, "v": VERSION}


def is_symbolic(offset: Mapping[str, Any]) -> bool:
    return "start" in offset


def parse_cut(offset: Mapping[str, Any], scope: str, stream: str) -> dict[int, int]:
    """Return segment id -> offset of a stored position.

    Raises:
        InvalidArgumentError: the checkpoint belongs to another stream or another version.
    """
    if offset.get("v") != VERSION or "cut" not in offset:
        raise InvalidArgumentError(f"the checkpoint holds no offset of this connector: {dict(offset)}")
    if (offset.get("scope"), offset.get("stream")) != (scope, stream):
        raise InvalidArgumentError(
            f"the checkpoint belongs to stream {offset.get('scope')}/{offset.get('stream')}, the query reads "
            f"{scope}/{stream}: use another checkpoint location"
        )
    return {int(segment): int(position) for segment, position in offset["cut"].items()}
