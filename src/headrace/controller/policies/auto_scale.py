"""What a report of a segment's load leads to: a split, a merge, a mark, or nothing. Pure.

A report is advice. Whatever is late, repeated or about a segment that was replaced changes nothing.

Source: protocol, "Scaling policy and automatic scaling".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.store.rows.load_marks_row import FOR_EVER, ColdMark, LoadMarksRow, SplitMark
from headrace.controller.store.rows.stream_row import ScalePlan, StreamRow, StreamState
from headrace.controller.streams.epochs import created_in, scaled_epoch
from headrace.model.key_space import KeyRange, split_evenly
from headrace.model.policies import SEGMENTS_MAX, ScalingKind
from headrace.model.segment_id import epoch_of
from headrace.model.segment_report import Load, SegmentReport

REPORT_AGE_MS_MAX: Final = 600_000
"""A report that is older says nothing about the present load."""

MERGED_PERMILLE_MAX: Final = 800
"""Segments are merged only if their loads add up to at most this, in thousandths of the target: the merged
one is not hot with the same load."""

IN_VAIN_MAX: Final = 3
IN_VAIN_FRACTION: Final = 0.8
GROWN_FACTOR: Final = 2
SPLIT_AGAIN_MS: Final = 6 * 3_600_000
"""A piece with almost all the load of what it was split from has a hot key, which no split divides. After
three such splits in succession, it is split again only when its load has doubled, or after six hours: the
keys may have changed. If another piece of the same split is hot too, the load has grown for all of them."""

MARKS_MAX: Final = 1000
"""Cold segments, and pieces, of one stream that are remembered; the oldest mark makes way."""


@dataclass(frozen=True, slots=True)
class AutoScale:
    """The marks from now on, and the scale to request: ``sealed`` is empty if there is none."""

    marks: LoadMarksRow
    sealed: tuple[int, ...] = ()
    ranges: tuple[KeyRange, ...] = ()


def decide(
    row: StreamRow, marks: LoadMarksRow, segment_id: int, report: SegmentReport, now_ms: int
) -> AutoScale:
    """Return what a report about ``segment_id`` leads to; ``marks`` itself if they stay as they are."""
    if row.config.scaling.kind is ScalingKind.FIXED or now_ms - report.time_ms > REPORT_AGE_MS_MAX:
        return AutoScale(marks)
    if row.state in {StreamState.CREATING, StreamState.SEALING, StreamState.SEALED} or row.deleting:
        return AutoScale(marks)
    index = next((i for i, each in enumerate(row.epoch.segments) if each.segment_id == segment_id), None)
    if index is None:
        return AutoScale(marks)
    match report.load:
        case Load.HOT:
            return _split(row, _without_cold(marks, segment_id), index, report, now_ms)
        case Load.WARM:
            return AutoScale(_without_cold(marks, segment_id))
        case Load.COLD | Load.SILENT:
            until = FOR_EVER if report.load is Load.SILENT else report.time_ms + report.valid_ms
            if until <= now_ms:
                return AutoScale(marks)
            marked = _with_cold(row, marks, segment_id, ColdMark(until, report.permille), now_ms)
            return _merge(row, marked, index, now_ms)


# ------------------------------------------------------------------------------------------ splits


def _split(row: StreamRow, marks: LoadMarksRow, index: int, report: SegmentReport, now_ms: int) -> AutoScale:
    segment, segments = row.epoch.segments[index], row.epoch.segments
    marks = _without_blame(marks, segment.segment_id)
    pieces = min(max(2, report.pieces), max(2, row.config.scaling.scale_factor))
    pieces = min(pieces, SEGMENTS_MAX - len(segments) + 1)
    in_vain = _splits_in_vain(marks.splits.get(segment.segment_id), report.permille, now_ms)
    if pieces <= 1 or in_vain >= IN_VAIN_MAX:
        return AutoScale(marks)
    ranges = split_evenly(segment.key_range, pieces)
    if any(not piece.low < piece.high for piece in ranges):
        return AutoScale(marks)  # it is as narrow as a range can be
    sealed = (segment.segment_id,)
    plan = ScalePlan(row.epoch.epoch, sealed, tuple(ranges), now_ms)
    created = [each.segment_id for each in created_in(scaled_epoch(row.epoch, plan))]
    mark = SplitMark(report.time_ms, report.permille, in_vain)
    return AutoScale(_with_splits(row, marks, created, mark), sealed, plan.ranges)


def _splits_in_vain(parent: SplitMark | None, permille: int, now_ms: int) -> int:
    """How many splits in succession, the last one included, left almost all load in the piece that is hot."""
    if parent is None or not IN_VAIN_FRACTION * parent.permille <= permille < GROWN_FACTOR * parent.permille:
        return 0
    if now_ms - parent.time_ms > SPLIT_AGAIN_MS:
        return min(parent.in_vain, IN_VAIN_MAX - 1)
    return parent.in_vain + 1


def _without_blame(marks: LoadMarksRow, segment_id: int) -> LoadMarksRow:
    """The segment is hot: return the marks with no splits in vain for the other pieces of its split."""
    splits = {
        key: replace(mark, in_vain=0)
        for key, mark in marks.splits.items()
        if mark.in_vain and key != segment_id and epoch_of(key) == epoch_of(segment_id)
    }
    return LoadMarksRow(marks.cold, {**marks.splits, **splits}) if splits else marks


def _with_splits(row: StreamRow, marks: LoadMarksRow, created: list[int], mark: SplitMark) -> LoadMarksRow:
    """Mark the pieces to come; drop marks of segments that were replaced."""
    active = set(row.epoch.segment_ids())
    splits = {
        key: each for key, each in marks.splits.items() if key in active or epoch_of(key) > row.epoch.epoch
    }
    for segment_id in created:
        splits[segment_id] = mark
    for segment_id in sorted(splits, key=lambda key: splits[key].time_ms)[: len(splits) - MARKS_MAX]:
        del splits[segment_id]
    return marks if splits == marks.splits else LoadMarksRow(marks.cold, splits)


# ------------------------------------------------------------------------------------------ merges


def _merge(row: StreamRow, marks: LoadMarksRow, index: int, now_ms: int) -> AutoScale:
    """Merge the cold segment at ``index`` with both neighbours if they are cold, else with the colder one."""
    segments = row.epoch.segments
    spare = len(segments) - row.config.scaling.segments_min

    def load_of(group: Sequence[SegmentRecord]) -> int | None:
        found = [marks.cold.get(each.segment_id) for each in group]
        if any(mark is None or mark.until_ms <= now_ms for mark in found):
            return None
        load = sum(mark.permille for mark in found if mark is not None)
        return load if load <= MERGED_PERMILLE_MAX else None

    bounds = [(index - 1, index + 2), (index - 1, index + 1), (index, index + 2)]
    groups = [segments[low:high] for low, high in bounds if low >= 0 and high <= len(segments)]
    loads = [(load_of(group), group) for group in groups if len(group) <= spare + 1]
    fitting = [(-len(group), load, group) for load, group in loads if load is not None]
    if not fitting:
        return AutoScale(marks)
    group = min(fitting, key=lambda each: each[:2])[2]
    whole = KeyRange(group[0].key_range.low, group[-1].key_range.high)
    return AutoScale(marks, tuple(each.segment_id for each in group), (whole,))


def _without_cold(marks: LoadMarksRow, segment_id: int) -> LoadMarksRow:
    if segment_id not in marks.cold:
        return marks
    cold = {key: mark for key, mark in marks.cold.items() if key != segment_id}
    return LoadMarksRow(cold, marks.splits)


def _with_cold(
    row: StreamRow, marks: LoadMarksRow, segment_id: int, mark: ColdMark, now_ms: int
) -> LoadMarksRow:
    """Add a mark; drop those that have ended or are about segments that were replaced."""
    present = marks.cold.get(segment_id)
    if present is not None and present.until_ms >= mark.until_ms and present.permille == mark.permille:
        return marks
    active = set(row.epoch.segment_ids())
    cold = {
        key: each
        for key, each in marks.cold.items()
        if key in active and key != segment_id and each.until_ms > now_ms
    }
    if len(cold) >= MARKS_MAX:
        del cold[min(cold, key=lambda key: (cold[key].until_ms, key))]
    cold[segment_id] = mark
    return LoadMarksRow(cold, marks.splits)
