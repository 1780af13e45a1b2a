"""The stream epochs of one stream: how one leads to the next, what follows a segment. Pure.

Epochs outlive their segments: a reader that comes late asks for the successors of segments that were
deleted long ago.

Source: protocol, "Segment ids, numbers, epochs", "Successors and predecessors".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.controller.store.rows.epoch_row import EpochRecord, SegmentRecord, sorted_segments
from headrace.controller.store.rows.stream_row import ScalePlan
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly
from headrace.model.segment_id import make_segment_id


@dataclass(slots=True)
class Successor:
    """A segment that takes over from ``predecessors``, all of them."""

    segment: SegmentRecord
    predecessors: list[int]


def successors_between(before: EpochRecord, after: EpochRecord, segment_id: int) -> list[Successor]:
    """Return what follows a segment of ``before`` that the next epoch, ``after``, has no more."""
    segment = before.find(segment_id)
    if segment is None or after.find(segment_id) is not None:
        return []
    return [
        Successor(follower, [each.segment_id for each in _overlapping(before.segments, follower.key_range)])
        for follower in _overlapping(after.segments, segment.key_range)
    ]


def first_epoch(segment_count: int, first_number: int, now_ms: int) -> EpochRecord:
    """Return epoch 0: equal ranges, numbered on from the last namesake's numbers."""
    segments = [
        SegmentRecord(make_segment_id(first_number + index, 0), now_ms, key_range)
        for index, key_range in enumerate(split_evenly(FULL_RANGE, segment_count))
    ]
    return EpochRecord(0, 0, now_ms, tuple(segments))


def scaled_epoch(active: EpochRecord, plan: ScalePlan) -> EpochRecord:
    """Return the epoch that ``plan`` leads to: a function of its arguments only, so that anyone gets
    the same.

    New numbers continue after the highest of the active epoch, in the order of the requested ranges.
    """
    assert plan.base_epoch == active.epoch
    epoch = active.epoch + 1
    created_ms = max(plan.time_ms, active.created_ms + 1)
    next_number = 1 + max(segment.number for segment in active.segments)
    created = [
        SegmentRecord(make_segment_id(next_number + index, epoch), created_ms, key_range)
        for index, key_range in enumerate(plan.ranges)
    ]
    replaced = set(plan.sealed)
    sealed = [segment for segment in active.segments if segment.segment_id in replaced]
    remaining = [segment for segment in active.segments if segment.segment_id not in replaced]
    return EpochRecord(
        epoch,
        epoch,
        created_ms,
        sorted_segments([*remaining, *created]),
        splits=_count_divided(sealed, created),
        merges=_count_divided(created, sealed),
    )


def duplicated_epoch(original: EpochRecord, epoch: int, created_ms: int) -> EpochRecord:
    """Return ``original`` once more: same numbers and ranges, created in ``epoch``, same reference."""
    segments = [
        SegmentRecord(make_segment_id(segment.number, epoch), created_ms, segment.key_range)
        for segment in original.segments
    ]
    return EpochRecord(epoch, original.reference, created_ms, tuple(segments))


def created_in(record: EpochRecord) -> list[SegmentRecord]:
    """The segments that came with this epoch."""
    return [segment for segment in record.segments if segment.segment_id >> 32 == record.epoch]


def _overlapping(segments: Sequence[SegmentRecord], key_range: KeyRange) -> Sequence[SegmentRecord]:
    """Return which of an epoch's segments, which are in order and leave no gap, overlap ``key_range``."""
    first = bisect_right(segments, key_range.low, key=lambda each: each.key_range.high)
    last = bisect_left(segments, key_range.high, key=lambda each: each.key_range.low)
    return segments[first:last]


def _count_divided(wholes: Sequence[SegmentRecord], parts: Sequence[SegmentRecord]) -> int:
    """How many of ``wholes`` overlap more than one of ``parts``, which do not overlap each other."""
    ordered = sorted_segments(parts)
    lows = [part.key_range.low for part in ordered]
    highs = [part.key_range.high for part in ordered]
    return sum(
        bisect_left(lows, whole.key_range.high) - bisect_right(highs, whole.key_range.low) > 1
        for whole in wholes
    )
