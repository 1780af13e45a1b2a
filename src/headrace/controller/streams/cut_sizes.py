"""How many bytes lie between two cuts. Pure.

The data between two cuts are parts of the segments of both and whole segments between them. The lengths of
segments that end in front of the upper cut are asked for: only their rows, or the segments, know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one segment from ``start`` to ``end``; None: to the end of the segment, which is sealed."""

    segment_id: int
    start: int
    end: int | None


def parts_between(
    segment_ids: Iterable[int], lower: Mapping[int, int], upper: Mapping[int, int]
) -> list[Part]:
    """Return the data at or after ``lower`` and before ``upper`` of some segments that lie between them.

    An empty lower cut is the origin.
    """
    parts = []
    for segment_id in segment_ids:
        start = max(0, lower.get(segment_id, 0))
        offset = upper.get(segment_id)
        end = None if offset is None else max(0, offset)
        if end is None or end > start:
            parts.append(Part(segment_id, start, end))
    return parts


def to_be_measured(parts: Sequence[Part]) -> list[int]:
    """Return the segments whose lengths decide."""
    return [part.segment_id for part in parts if part.end is None]


def total_bytes(parts: Sequence[Part], lengths: Mapping[int, int]) -> int:
    """Add up the parts. A segment without a known length counts nothing: it was deleted, so nothing of it is
    retained.
    """
    total = 0
    for part in parts:
        end = lengths.get(part.segment_id, part.start) if part.end is None else part.end
        total += max(0, end - part.start)
    return total
