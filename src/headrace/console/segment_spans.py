"""From when to when each segment of a stream took appends, by its stream epochs. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from headrace.controller.store.rows.epoch_row import EpochRecord

SPANS_MAX: Final = 20_000
"""The oldest are left out of what has more."""


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """One segment: its part of the key space, its time in ms (no end: it is active), bytes if known."""

    segment_id: int
    low: float
    high: float
    begin_ms: int
    end_ms: int | None = None
    written: int | None = None


class SegmentSpans:
    """Takes epochs in their order."""

    def __init__(self) -> None:
        self._active: dict[int, SegmentSpan] = {}
        self._ended: deque[SegmentSpan] = deque(maxlen=SPANS_MAX)

    def take(self, record: EpochRecord) -> None:
        """Take the next epoch."""
        ids = {segment.segment_id for segment in record.segments}
        for segment_id in [each for each in self._active if each not in ids]:
            self._ended.append(replace(self._active.pop(segment_id), end_ms=record.created_ms))
        for segment in record.segments:
            if segment.segment_id not in self._active:
                keys = segment.key_range
                self._active[segment.segment_id] = SegmentSpan(
                    segment.segment_id, keys.low, keys.high, record.created_ms
                )

    def found(self) -> list[SegmentSpan]:
        """Return all spans, those that ended first."""
        return [*self._ended, *self._active.values()]
