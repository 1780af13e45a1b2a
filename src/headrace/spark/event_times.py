"""About when the events of a plain stream were written, by the cuts that are remembered of it. Pure.

A time mark says that events from an offset on were written at a time or later; another cut is known about
every 10 s of the last hour, each minute of the last day, and every 10 minutes before. The time of an event is
that of the last mark at or in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.model.key_space import KeyRange
from headrace.spark.lag import AGES_MS
from headrace.spark.range_groups import SegmentRange

MARKS_MAX: Final = 200
"""Of a batch: each is a call. A batch of a longer time has them further apart."""

Mark = tuple[int, int]
"""An offset and a time in ms since 1970."""
Sample = Callable[[int], tuple[dict[int, int], int | None]]
"""Returns the latest known cut that is not after a time, and its own time; None for the head."""


def find_marks(
    ranges: Sequence[SegmentRange],
    sample: Sample,
    keys: Callable[[set[int]], Mapping[int, KeyRange]],
    now_ms: int,
) -> dict[int, tuple[Mark, ...]]:
    """Return the marks of each segment, ascending.

    Args:
        ranges: what a batch reads of one stream.
        sample: asks for a cut.
        keys: asks for the key ranges of segments.
        now_ms: by the clock here.
    """
    if not ranges:
        return {}
    open_ranges = {each.segment_id: each for each in ranges}

    def offset_in(cut: Mapping[int, int], segment_id: int) -> int | None:
        """Return where a cut lies in a segment; 0 if it is in front of it, None if it is behind."""
        if segment_id in cut:
            return cut[segment_id]
        known = keys({segment_id, *cut})
        later = (each for each in cut if each > segment_id)
        return None if any(known[each].overlaps(known[segment_id]) for each in later) else 0

    def is_in_front(age: int) -> bool:
        cut, _ = sample(now_ms - age)
        places = [(offset_in(cut, each.segment_id), each.start) for each in ranges]
        return all(offset is not None and offset <= start for offset, start in places)

    age = next((age for age in AGES_MS if is_in_front(age)), AGES_MS[-1])
    marks: dict[int, dict[int, int]] = {segment_id: {} for segment_id in open_ranges}
    at = now_ms
    for _ in range(MARKS_MAX):
        cut, time_ms = sample(at)
        if time_ms is None:
            break
        for each in list(open_ranges.values()):
            offset = offset_in(cut, each.segment_id)
            if offset is None or offset >= each.end:
                continue
            marks[each.segment_id].setdefault(offset, time_ms)  # the newest of several with the same offset
            if offset <= each.start:
                del open_ranges[each.segment_id]
        if not open_ranges:
            break
        at = min(time_ms - 1, at - age // MARKS_MAX)
    return {segment_id: tuple(sorted(found.items())) for segment_id, found in marks.items()}


def times_of(marks: Sequence[Mark], offsets: Any) -> Any:
    """Return the times of events, given as a numpy array of offsets, as a column in microseconds of UTC."""
    import numpy as np
    import pyarrow as pa

    if not marks:
        return pa.nulls(len(offsets), pa.timestamp("us", "UTC"))
    places = np.searchsorted(np.array([offset for offset, _ in marks]), offsets, side="right") - 1
    times = np.array([time for _, time in marks])[np.maximum(places, 0)] * 1000
    return pa.array(times, pa.int64(), mask=places < 0).cast(pa.timestamp("us", "UTC"))
