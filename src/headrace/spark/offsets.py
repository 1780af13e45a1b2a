"""Offsets of a streaming query as its checkpoint stores them: symbolic at first, then stream cuts. Pure.

Spark compares offsets as JSON text, so every offset is built here, with sorted keys and without floats.
Before anything was read the offset only repeats the option (``{"start": "latest"}``): it must not be resolved
then, because Spark asks for it twice and again after a crash in the first batch.

Version 1 held the cut of the only stream; version 2 holds one of each stream, by its full name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.errors import InvalidArgumentError

VERSION: Final = 2


def symbolic_offset(start: str) -> dict[str, Any]:
    """Return the offset of a query that has not read anything."""
    return {"start": start}


def cuts_offset(positions: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    """Return the offset of a position per ``scope/stream``; equal positions give equal text."""
    streams = {
        name: {str(segment): cut[segment] for segment in sorted(cut)}
        for name, cut in sorted(positions.items())
    }
    return {"streams": streams, "v": VERSION}


def is_symbolic(offset: Mapping[str, Any]) -> bool:
    return "start" in offset


def is_word(start: str) -> bool:
    """Tell whether a start means another position later on, so that what it means has to be noted first."""
    return start in {"earliest", "latest"}


def parse_cuts(offset: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return ``scope/stream`` -> segment id -> offset of what a checkpoint stores, in any version.

    Raises:
        InvalidArgumentError: it stores something else.
    """
    version = offset.get("v")
    if version == 1 and "cut" in offset:
        streams = {f"{offset.get('scope')}/{offset.get('stream')}": offset["cut"]}
    elif version == VERSION and "streams" in offset:
        streams = offset["streams"]
    else:
        raise InvalidArgumentError(f"the checkpoint holds no offset of this connector: {dict(offset)}")
    return {
        name: {int(segment): int(position) for segment, position in cut.items()}
        for name, cut in streams.items()
    }
