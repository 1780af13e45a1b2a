"""How a merge reaches long-term storage.

A source that storage has never seen is *absorbed*: its bytes are written straight to the target, together
with their neighbours, and storage never knows the source. That is every small transaction. Any other source
is flushed and sealed first and then joined by ``concat``.
"""

from __future__ import annotations

from enum import Enum

from headrace.errors import DataCorruptionError
from headrace.segmentstore.storagewriter.segment_aggregator import (
    PendingAppend,
    PendingMerge,
    PendingSeal,
    SegmentAggregator,
)


class MergeCourse(Enum):
    """What to do with the merge at the head of the target's queue."""

    FINISH = "the target has the bytes, or there are none: only forget the source"
    ABSORB = "write the source's cached bytes to the target"
    WAIT = "flush the source first"
    CONCAT = "join the stored source to the target"


def choose_course(target: SegmentAggregator, merge: PendingMerge, *, absorb_bytes_max: int) -> MergeCourse:
    """Decide. Asked anew whenever the merge is at the head: a failed attempt may have changed the answer.

    Raises:
        DataCorruptionError: the bytes are neither in the target, nor in the source, nor in the queue; or
            the target has a part of them, which no call leaves behind.
    """
    source = merge.source
    length = merge.end - merge.offset
    if source.busy:
        return MergeCourse.WAIT
    if length == 0 or merge.end <= target.claimed:
        return MergeCourse.FINISH
    if merge.offset != target.claimed:
        raise DataCorruptionError(
            f"storage has {target.claimed} bytes of {target.segment.name!r}; {source.segment.name!r} was "
            f"merged into [{merge.offset}, {merge.end})"
        )
    if is_absorbable(merge) and length <= absorb_bytes_max:
        return MergeCourse.ABSORB
    if source.queue:
        return MergeCourse.WAIT
    if not source.in_storage:
        raise DataCorruptionError(
            f"the {length} bytes of {source.segment.name!r}, merged into {target.segment.name!r} at "
            f"{merge.offset}, are neither in the log nor in storage"
        )
    return MergeCourse.CONCAT


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
