"""The next step of one segment towards storage, from the head of its queue.

A source of a merge that storage has never seen is *absorbed*: its bytes are written straight to the target,
together with their neighbours, and storage never has the source. That is every small transaction. Any other
source is flushed and sealed first and then joined by ``concat``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import KIB
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.segment_aggregator import (
    PendingAppend,
    PendingDelete,
    PendingMerge,
    PendingSeal,
    PendingTruncate,
    SegmentAggregator,
)


@dataclass(slots=True)
class WriteStep:
    """Write ``length`` bytes at ``offset``, where storage says the segment ends."""

    offset: int
    length: int = 0
    ranges: list[tuple[SegmentState, int, int]] = field(default_factory=list)
    """(segment, offset, length) of the bytes in the cache, in order."""

    absorbed: list[PendingMerge] = field(default_factory=list)
    """Merges that this write completes."""


@dataclass(slots=True)
class CompareStep:
    """Storage claims to have bytes ``[offset, end)`` already: they must be those of the log."""

    offset: int
    end: int


@dataclass(slots=True)
class ConcatStep:
    """Join the stored source to the target."""

    merge: PendingMerge


@dataclass(slots=True)
class FinishMergeStep:
    """The target has the source's bytes, or there are none: forget the source."""

    merge: PendingMerge


@dataclass(slots=True)
class WaitStep:
    """Nothing can be done before ``source`` has been flushed."""

    source: SegmentAggregator


Step = (
    WriteStep
    | CompareStep
    | ConcatStep
    | FinishMergeStep
    | WaitStep
    | PendingSeal
    | PendingTruncate
    | PendingDelete
)
"""Seals, truncations and deletions are steps as they are in the queue."""


_AFTER_FAILURES_BYTES: Final = 1 * KIB
"""A write that failed again and again is not made smaller than this."""

MERGES_MAX: Final = 256
"""Merges that one write absorbs: all are completed in one iteration of the loop, tens of us for each."""


def plan_step(aggregator: SegmentAggregator, *, write_bytes_max: int) -> Step | None:
    """Return the next step, or None if the queue is empty.

    Raises:
        DataCorruptionError: bytes that the queue refers to exist nowhere.
    """
    if not aggregator.queue:
        return None
    head = aggregator.queue[0]
    # Each failure halves it: where one call in a hundred fails, a write that takes a hundred never succeeds.
    bearable = max(_AFTER_FAILURES_BYTES, write_bytes_max >> min(aggregator.failures, 30))
    bearable = min(bearable, write_bytes_max)
    match head:
        case PendingAppend():
            if aggregator.compares:
                return _compare(aggregator, head)
            if head.offset > aggregator.claimed:
                raise DataCorruptionError(
                    f"segment {aggregator.segment.name!r}: bytes [{aggregator.claimed}, {head.offset}) are "
                    "neither in the log nor in storage"
                )
            return _gather(aggregator, bearable)
        case PendingMerge():
            return _plan_merge(aggregator, head, bearable)
        case _:
            return head


def next_to_adopt(aggregator: SegmentAggregator) -> SegmentAggregator | None:
    """Return a segment that the next step is about, and of which storage has to be asked what it has first;
    None if there is none.
    """
    if not aggregator.adopted:
        return aggregator
    merges = 0
    for item in aggregator.queue:
        if type(item) is PendingMerge:
            if not item.source.adopted:
                return item.source
            merges += 1
        if merges == MERGES_MAX or type(item) not in {PendingMerge, PendingAppend}:
            break
    return None


def _plan_merge(target: SegmentAggregator, merge: PendingMerge, absorb_bytes_max: int) -> Step:
    """Decide anew whenever the merge is at the head: a failed attempt may have changed the answer.

    A source is absorbed whole or not at all: a larger one stores its own bytes, in steps that get smaller by
    themselves, and is joined.

    Raises:
        DataCorruptionError: the bytes are neither in the target, nor in the source, nor in the queue; or
            the target has a part of them, which no call leaves behind.
    """
    source = merge.source
    length = merge.end - merge.offset
    if source.busy:
        return WaitStep(source)
    if length == 0 or merge.end <= target.claimed:
        return FinishMergeStep(merge)
    if merge.offset != target.claimed:
        raise DataCorruptionError(
            f"storage has {target.claimed} bytes of {target.segment.name!r}; {source.segment.name!r} was "
            f"merged into [{merge.offset}, {merge.end})"
        )
    if length <= absorb_bytes_max and is_absorbable(merge):
        return _gather(target, absorb_bytes_max)
    if source.queue:
        return WaitStep(source)
    if not source.in_storage:
        raise DataCorruptionError(
            f"the {length} bytes of {source.segment.name!r}, merged into {target.segment.name!r} at "
            f"{merge.offset}, are neither in the log nor in storage"
        )
    return ConcatStep(merge)


def _compare(aggregator: SegmentAggregator, head: PendingAppend) -> CompareStep:
    """Take what storage claims of the append at the head; items are small, so reads of storage are."""
    begin = max(head.offset, aggregator.confirmed or 0)
    return CompareStep(begin, min(head.end, aggregator.claimed))


def _gather(aggregator: SegmentAggregator, bytes_max: int) -> WriteStep:
    """Collect the appends and absorbable merges at the head, as one write."""
    segment = aggregator.segment
    at = aggregator.claimed
    step = WriteStep(at)
    for item in aggregator.queue:
        free_bytes = bytes_max - step.length
        if free_bytes <= 0:
            break
        if type(item) is PendingAppend:
            item.closed = True
            part = min(item.end - at, free_bytes)
            _add_range(step, segment, at, part)
            at += part
        elif type(item) is PendingMerge:
            size = item.end - item.offset
            if size > free_bytes or len(step.absorbed) == MERGES_MAX or not is_absorbable(item):
                break
            if size:
                _add_range(step, item.source.segment, 0, size)
            step.absorbed.append(item)
            at += size
        else:
            break
    assert step.length > 0
    return step


def _add_range(step: WriteStep, segment: SegmentState, offset: int, length: int) -> None:
    step.length += length
    if step.ranges:
        last, last_offset, last_length = step.ranges[-1]
        if last is segment and last_offset + last_length == offset:
            step.ranges[-1] = (segment, last_offset, last_length + length)
            return
    step.ranges.append((segment, offset, length))


def sources_of(step: Step) -> list[SegmentAggregator]:
    """Return the merge sources that are gone once ``step`` has been performed."""
    match step:
        case WriteStep():
            return [merge.source for merge in step.absorbed]
        case ConcatStep() | FinishMergeStep():
            return [step.merge.source]
        case _:
            return []


def is_absorbable(merge: PendingMerge) -> bool:
    """Whether all bytes of the source are in the cache and none in storage."""
    source = merge.source
    if source.busy or source.in_storage or source.claimed or source.segment.stored_length:
        return False
    length = merge.end - merge.offset
    if source.reach != length or not all(
        isinstance(item, PendingAppend | PendingSeal) for item in source.queue
    ):
        return False
    head = source.queue[0] if source.queue else None
    return length == 0 or (isinstance(head, PendingAppend) and head.offset == 0)
