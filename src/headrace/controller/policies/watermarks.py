"""Which writers a watermark waits for, and the watermark that their marks allow. Pure.

A writer *participates* when its time lies behind the lower time of the last watermark. The next one is made
as soon as every writer participates that is still waited for. Its cut is the upper bound of their positions
and of the last cut: an event that was acknowledged before its writer noted a position lies in front of it.

Source: protocol, "Writer time and watermarks".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.store.rows.marks_row import WriterMark
from headrace.model.key_space import FULL_RANGE, KeyRange
from headrace.model.segment_id import epoch_of
from headrace.model.watermark import MarkedSegment, Watermark


@dataclass(frozen=True, slots=True)
class Judgement:
    """What follows from the marks of a stream. Times of ``idle_since`` are milliseconds."""

    evicted: dict[str, WriterMark]
    """Writers that are waited for no more, with the marks that this was decided on."""
    idle_since: dict[str, int]
    """Writers that do not participate and are waited for, with the time since when."""
    contributors: dict[str, WriterMark]
    """The writers of the next watermark; none if there is nothing to say yet."""

    @property
    def leaves(self) -> bool:
        """Whether no writer is left: the stream has no watermarks until one speaks again."""
        return not self.idle_since and not self.contributors


def judge_writers(
    marks: Mapping[str, WriterMark],
    last: Watermark | None,
    idle_since: Mapping[str, int],
    *,
    timeout_ms: int,
    now_ms: int,
) -> Judgement:
    """Decide on each writer.

    Args:
        marks: the last mark of each writer.
        last: the newest watermark.
        idle_since: as returned the last time.
        timeout_ms: how long a writer that does not participate is waited for.
        now_ms: the time on the clock that ``idle_since`` was measured with.
    """
    evicted: dict[str, WriterMark] = {}
    waiting: dict[str, int] = {}
    participating: dict[str, WriterMark] = {}
    for writer, mark in marks.items():
        if last is None or mark.time > last.lower:
            participating[writer] = mark
            continue
        since = min(idle_since.get(writer, now_ms), now_ms)
        if mark.alive and now_ms - since < timeout_ms:
            waiting[writer] = since
        else:
            evicted[writer] = mark
    if not waiting:
        return Judgement(evicted, {}, participating)
    # Some writer is waited for: those that participate count as the writers of a later round.
    return Judgement(evicted, waiting, {})


def newest_epoch(marks: Iterable[WriterMark], last: Watermark | None, known: Mapping[int, KeyRange]) -> int:
    """Return the highest stream epoch that created a segment in question: gaps are filled from it."""
    seen = [segment_id for mark in marks for segment_id, _ in mark.position if segment_id in known]
    seen += [] if last is None else [each.segment_id for each in last.cut]
    return epoch_of(max(seen, default=0))


def next_watermark(
    contributors: Mapping[str, WriterMark],
    last: Watermark | None,
    ranges: Mapping[int, KeyRange],
    newest: Sequence[SegmentRecord],
) -> Watermark:
    """Return the watermark that ``contributors``, at least one, allow.

    Args:
        contributors: as judged.
        last: the newest watermark so far.
        ranges: of the segments of all positions. What is missing here, the stream never had; no event is
            in front of it.
        newest: the segments of the epoch of :func:`newest_epoch`.
    """
    times = [mark.time for mark in contributors.values()]
    offsets: dict[int, int] = {}
    owned = dict(ranges)
    if last is not None:
        offsets = last.offsets()
        owned.update((each.segment_id, each.key_range) for each in last.cut)
    for mark in contributors.values():
        for segment_id, offset in mark.position:
            if segment_id in ranges:
                # -1 means that the writer has written nothing there.
                offsets[segment_id] = max(offset, offsets.get(segment_id, 0), 0)
    cut = _upper_bound(offsets, owned)
    cut = _without_gaps(cut, newest)
    return Watermark(min(times), max(times), tuple(cut))


def is_at_or_before(cut: Sequence[MarkedSegment], other: Sequence[MarkedSegment]) -> bool:
    """Whether nothing that is in front of ``cut`` is behind ``other``; both are sorted by range."""
    highs = [each.key_range.high for each in other]
    for mine in cut:
        index = bisect_right(highs, mine.key_range.low)
        while index < len(other) and other[index].key_range.low < mine.key_range.high:
            theirs = other[index]
            if mine.segment_id > theirs.segment_id:
                return False
            if mine.segment_id == theirs.segment_id and mine.offset > theirs.offset:
                return False
            index += 1
    return True


def _upper_bound(offsets: Mapping[int, int], ranges: Mapping[int, KeyRange]) -> list[MarkedSegment]:
    """Return the segments that no later one overlaps, sorted by range.

    A segment that is replaced itself still hides what it replaced: its events are behind those.
    """
    hidden = _Cover()
    bound = []
    for segment_id in sorted(offsets, reverse=True):
        key_range = ranges[segment_id]
        if hidden.add(key_range):
            bound.append(MarkedSegment(segment_id, key_range, offsets[segment_id]))
    return sorted(bound, key=lambda each: each.key_range.low)


def _without_gaps(cut: list[MarkedSegment], newest: Sequence[SegmentRecord]) -> list[MarkedSegment]:
    """Fill the gaps of a cut with segments of the newest epoch of any of its segments, from their start.

    A segment that fills a gap replaces older ones that it overlaps, which may open others.
    """
    while gaps := _gaps(cut):
        lows = [gap.low for gap in gaps]
        highs = [gap.high for gap in gaps]
        added = [
            MarkedSegment(segment.segment_id, segment.key_range, 0)
            for segment in newest
            if bisect_right(highs, segment.key_range.low) < bisect_left(lows, segment.key_range.high)
        ]
        assert added  # an epoch has no gaps
        fill = _Cover()
        for each in added:
            fill.add(each.key_range)
        cut = [each for each in cut if not fill.overlaps(each.key_range)] + added
        cut.sort(key=lambda each: each.key_range.low)
    return cut


def _gaps(cut: Sequence[MarkedSegment]) -> list[KeyRange]:
    """Return what the segments of a cut, sorted and apart from each other, leave of the key space."""
    gaps = []
    edge = FULL_RANGE.low
    for each in cut:
        if each.key_range.low > edge:
            gaps.append(KeyRange(edge, each.key_range.low))
        edge = each.key_range.high
    if edge < FULL_RANGE.high:
        gaps.append(KeyRange(edge, FULL_RANGE.high))
    return gaps


class _Cover:
    """A part of the key space, as sorted ranges that do not touch."""

    def __init__(self) -> None:
        self._lows: list[float] = []
        self._highs: list[float] = []

    def overlaps(self, key_range: KeyRange) -> bool:
        return bisect_right(self._highs, key_range.low) < bisect_left(self._lows, key_range.high)

    def add(self, key_range: KeyRange) -> bool:
        """Add a range; return whether nothing of it was covered."""
        apart = not self.overlaps(key_range)
        first = bisect_left(self._highs, key_range.low)
        after = bisect_right(self._lows, key_range.high)
        low = min([key_range.low, *self._lows[first : first + 1]]) if first < after else key_range.low
        high = max([key_range.high, *self._highs[after - 1 : after]]) if first < after else key_range.high
        self._lows[first:after] = [low]
        self._highs[first:after] = [high]
        return apart
