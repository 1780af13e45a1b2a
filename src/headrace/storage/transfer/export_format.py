"""The list of exported segments: JSON, one line for the export and one for each segment.

Source: docs/formats/storage-export.md; pinned by tests/golden/storage_export.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from headrace.errors import DataCorruptionError, UnsupportedError

LIST_NAME: Final = "headrace-export.jsonl"
_FORMAT: Final = "headrace-export"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ExportedSegment:
    """One segment, as it was."""

    segment: str
    start: int
    """Bytes below it were truncated, and are not in the export."""

    length: int
    """Offset behind the last byte."""

    sealed: bool
    crc32c: int
    """Of the bytes from ``start`` to ``length``."""

    attributes: dict[str, int]
    """By their ids, 32 hex digits: positions of writers among others."""


def encode_list(segments: Sequence[ExportedSegment], time_ms: int) -> bytes:
    head = {"format": _FORMAT, "version": _VERSION, "time_ms": time_ms, "segments": len(segments)}
    lines = [head, *(asdict(segment) for segment in segments)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def decode_list(data: bytes) -> Iterator[ExportedSegment]:
    """Yield the segments of a list; keys that are not known are ignored.

    Raises:
        UnsupportedError: a newer version made it.
        DataCorruptionError: it is damaged, or not whole.
    """
    head, *lines = [_object_of(line) for line in data.splitlines()] or [{}]
    if head.get("format") != _FORMAT:
        raise DataCorruptionError("it is no list of exported segments", path=LIST_NAME)
    if head.get("version") != _VERSION:
        raise UnsupportedError(
            f"{LIST_NAME} is of version {head.get('version')}, this version of Headrace reads {_VERSION}"
        )
    if head.get("segments") != len(lines):
        raise DataCorruptionError(
            f"{head.get('segments')} segments were exported, {len(lines)} are listed", path=LIST_NAME
        )
    for line in lines:
        try:
            yield ExportedSegment(
                str(line["segment"]),
                int(line["start"]),
                int(line["length"]),
                bool(line["sealed"]),
                int(line["crc32c"]),
                {str(key): int(value) for key, value in line["attributes"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataCorruptionError(
                f"a line does not describe a segment: {error}", path=LIST_NAME
            ) from error


def _object_of(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataCorruptionError(f"a line is not JSON: {error}", path=LIST_NAME) from error
    if not isinstance(found, dict):
        raise DataCorruptionError("a line is no JSON object", path=LIST_NAME)
    return found
