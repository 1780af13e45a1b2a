"""What a segment store reports about the load of one segment, and its bytes. Pure.

Source: ``docs/formats/segment-report.md``; pinned by ``tests/golden/segment_report``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import NAME_CHARS_MAX

VERSION: Final = 1

REPORTS_MAX: Final = 100
"""Of one call."""

_FIXED: Final = struct.Struct(">BBqIIQ")
_NAME_BYTES_MAX: Final = 3 * NAME_CHARS_MAX
"""Scope, stream and number, with their marks."""


class Load(IntEnum):
    """How the load of a segment compares with the target of its stream. Numbers are those of the format."""

    HOT = 1
    """Above the target: the segment should be split."""
    COLD = 2
    """Well below the target, for a while: it may be merged with cold neighbours."""
    SILENT = 3
    """Cold, and without any traffic: it stays cold until it is reported otherwise."""
    WARM = 4
    """Neither hot nor cold any more, after a report that it was cold."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """The load of one segment at ``time_ms``, by the clock of the segment store.

    ``pieces``: how many the segment should be split into, 2 or more; 0 unless it is hot.
    ``permille``: its load, in thousandths of the target; of a cold segment the highest in the time observed.
    ``valid_ms``: how long a cold segment counts as cold.
    """

    segment: str
    load: Load
    time_ms: int
    pieces: int = 0
    permille: int = 0
    valid_ms: int = 0


def encode_report(report: SegmentReport) -> bytes:
    """Return the bytes of a report."""
    fixed = _FIXED.pack(VERSION, report.load, report.time_ms, report.pieces, report.permille, report.valid_ms)
    return fixed + report.segment.encode()


def decode_report(data: bytes) -> SegmentReport:
    """Raises DataCorruptionError."""
    if len(data) <= _FIXED.size or len(data) > _FIXED.size + _NAME_BYTES_MAX:
        raise DataCorruptionError(f"a report of a segment's load has {len(data)} bytes")
    version, load, time_ms, pieces, permille, valid_ms = _FIXED.unpack_from(data)
    if version != VERSION:
        raise DataCorruptionError(f"a report of a segment's load has the unknown version {version}")
    try:
        segment = data[_FIXED.size :].decode()
        return SegmentReport(segment, Load(load), time_ms, pieces, permille, valid_ms)
    except ValueError as error:
        raise DataCorruptionError(f"a report of a segment's load does not decode: {error}") from None
