"""What one segment still owes to long-term storage, in the order of the log.

::

    stored_length          reach             durable_length
    |----------------------|.................|
      in the queue here      not taken from the memory log yet

The queue is re-made from the recovered log after a crash, so it begins with operations storage may know
already: what lies below ``stored_length`` is dropped when it is met.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import MIB
from headrace.segmentstore.container.segment_state import SegmentState

AGGREGATE_BYTES_MAX: Final = 1 * MIB
"""Appends are joined up to this size: a log is cut between them, so the last one must not grow for ever."""


@dataclass(slots=True)
class PendingAppend:
    """Bytes ``[offset, end)`` of the segment, appended by ``sequence`` and operations behind it."""

    sequence: int
    offset: int
    end: int


@dataclass(slots=True)
class PendingMerge:
    """The whole of ``source`` is ``[offset, end)`` of the segment."""

    sequence: int
    offset: int
    end: int
    source: SegmentAggregator


@dataclass(slots=True)
class PendingSeal:
    sequence: int


@dataclass(slots=True)
class PendingTruncate:
    sequence: int
    offset: int


@dataclass(slots=True)
class PendingDelete:
    sequence: int


Pending = PendingAppend | PendingMerge | PendingSeal | PendingTruncate | PendingDelete


@dataclass(slots=True, eq=False)
class SegmentAggregator:
    """One segment with something to store. Lives from its first operation until its queue is empty.

    ``busy``, ``due`` and the retry fields belong to the driver's schedule.
    """

    segment: SegmentState
    in_storage: bool
    """Storage has a row of this segment."""

    queue: deque[Pending] = field(default_factory=deque)
    seen: int | None = None
    """Where the last operation with bytes ended, and the next one has to begin."""

    since: float = 0.0
    """Loop time of the oldest operation in the queue."""

    merging: bool = False
    """Another segment's queue holds the merge of this one; that one decides when this is flushed."""

    busy: bool = False
    """A flush works on the head of the queue."""

    urgent: bool = False
    """To be flushed whatever its size and age."""

    waiting: bool = False
    """The head of the queue waits for a merge source to be flushed."""

    waiter: SegmentAggregator | None = None
    """The target that waits for this source."""

    scheduled_at: float = inf
    """Loop time for which the schedule has noted this; inf if it has not."""

    failures: int = 0
    not_before: float = 0.0
    """Loop time before which a failed flush is not repeated."""

    # ---------------------------------------------------------------------------------- adding

    def add_append(self, sequence: int, offset: int, length: int) -> None:
        """Bytes became durable. Raises: DataCorruptionError if they do not continue what came before."""
        end = offset + length
        self._extend(offset, end)
        if end <= self.segment.stored_length:
            return  # storage had them before the crash
        last = self.queue[-1] if self.queue else None
        if type(last) is PendingAppend and last.end - last.offset < AGGREGATE_BYTES_MAX:
            last.end = end  # a flush under way takes what it has seen; the rest stays
            return
        self.queue.append(PendingAppend(sequence, offset, end))

    def add_merge(self, sequence: int, offset: int, length: int, source: SegmentAggregator) -> None:
        """Another segment became part of this one. Raises: DataCorruptionError as ``add_append``."""
        self._extend(offset, offset + length)
        source.merging = True
        self.queue.append(PendingMerge(sequence, offset, offset + length, source))

    def add_seal(self, sequence: int) -> None:
        """No more bytes will come. Raises: DataCorruptionError if some are missing."""
        if self.segment.stored_sealed:
            return
        complete = self.reach == self.segment.durable_length or self._may_be_elsewhere
        if not complete or not self.segment.sealed:
            raise DataCorruptionError(
                f"segment {self.segment.name!r} is sealed at {self.segment.durable_length}; "
                f"operations cover {self.reach} bytes"
            )
        self.queue.append(PendingSeal(sequence))

    def add_truncate(self, sequence: int, offset: int) -> None:
        """Bytes below ``offset`` are not wanted any more."""
        last = self.queue[-1] if self.queue else None
        if type(last) is PendingTruncate:
            last.offset = max(last.offset, offset)
            return
        self.queue.append(PendingTruncate(sequence, offset))

    def add_delete(self, sequence: int) -> list[PendingMerge]:
        """The segment is gone: nothing else matters. Return the merges whose sources go with it.

        A source has to be deleted as of its merge: the log must keep that until storage has forgotten the
        source, for nothing else in the log speaks of it.
        """
        merges = [item for item in self.queue if type(item) is PendingMerge]
        self.queue.clear()
        self.queue.append(PendingDelete(sequence))
        self.urgent = True
        return merges

    def _extend(self, offset: int, end: int) -> None:
        """Note that the operations seen reach ``end`` now."""
        segment = self.segment
        if self.seen is not None:
            continues = offset == self.seen
        else:
            continues = offset <= segment.stored_length or self._may_be_elsewhere
        if not continues or end > segment.durable_length:
            raise DataCorruptionError(
                f"segment {segment.name!r}: an operation covers [{offset}, {end}); those before end at "
                f"{self.reach}, the durable bytes at {segment.durable_length}"
            )
        self.seen = end

    @property
    def _may_be_elsewhere(self) -> bool:
        """Storage may have joined the segment to its target already and forgotten it: the merge will tell."""
        return self.segment.merged and not self.in_storage

    # ---------------------------------------------------------------------------------- looking

    @property
    def lowest_sequence(self) -> int | None:
        """The oldest operation that is not stored: the log is needed from there on."""
        return self.queue[0].sequence if self.queue else None

    @property
    def awaits_merge(self) -> bool:
        """The segment was merged, and the operation that says so has not come out of the log yet."""
        return self.segment.merged and not self.merging

    @property
    def is_source(self) -> bool:
        """The segment was merged: only its target knows when it is to be flushed, and whether at all."""
        return self.segment.merged

    @property
    def reach(self) -> int:
        """Where the bytes end that are stored or in the queue."""
        return max(self.segment.stored_length, self.seen or 0)

    @property
    def pending_bytes(self) -> int:
        """Bytes in the queue, those of merges included."""
        return self.reach - self.segment.stored_length

    def drop_stored(self) -> None:
        """Forget appends at the head that storage holds."""
        stored = self.segment.stored_length
        while self.queue:
            head = self.queue[0]
            if type(head) is not PendingAppend or head.end > stored:
                return
            self.queue.popleft()

    def finish(self, item: Pending) -> None:
        """``item`` is done; it is at the head, unless a deletion has cleared the queue meanwhile."""
        if self.queue and self.queue[0] is item:
            self.queue.popleft()

    def check(self) -> None:
        """Assert the invariants: what storage does not have yet is contiguous and ends at ``reach``."""
        assert self.segment.stored_length <= self.reach <= self.segment.durable_length
        sequences = [item.sequence for item in self.queue]
        assert sequences == sorted(sequences)
        at: int | None = None
        for item in self.queue:
            if isinstance(item, PendingAppend | PendingMerge):
                assert at is None or item.offset == at or at < item.offset <= self.segment.stored_length
                at = item.end
        assert at is None or self.reach in {at, self.segment.stored_length}
        assert not any(isinstance(item, PendingDelete) for item in list(self.queue)[1:])
