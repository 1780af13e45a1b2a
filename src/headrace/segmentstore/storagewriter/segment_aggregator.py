"""What one segment still owes to long-term storage, in the order of the log.

::

    confirmed     claimed           reach             durable_length
    |-------------|-----------------|.................|
     to be compared  to be written    not taken from the memory log yet

The queue is re-made from the recovered log after a crash, and a call whose reply was lost may have happened:
so storage may *claim* bytes that are still in the queue. They stay there until they were compared with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import MIB
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.flush_turn import LEGAL, Turn, TurnEvent

AGGREGATE_BYTES_MAX: Final = 1 * MIB
"""Appends are joined up to this size; the log is truncated between two items, never within one."""


@dataclass(slots=True)
class PendingAppend:
    """Bytes ``[offset, end)`` of the segment, appended by ``sequence`` and operations behind it."""

    sequence: int
    offset: int
    end: int
    closed: bool = False
    """A write has taken it. If it grew on, a slow segment might never be stored, nor the log truncated."""


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


@dataclass(slots=True)
class QueueTotals:
    """What is in the queues of all segments. Shared by them, and exact at any time."""

    items: int = 0
    size_bytes: int = 0
    """Of the appends, by whole items."""


@dataclass(slots=True, eq=False)
class SegmentAggregator:
    """One segment with something to store. Lives from its first operation until its queue is empty.

    ``urgent``, ``suspect`` and the retry fields belong to the driver's schedule.
    """

    segment: SegmentState
    in_storage: bool
    """Storage has a row of this segment."""

    adopted: bool = True
    """Whether storage was asked for that and for what it claims; else before the next step."""

    claimed: int = 0
    """The length that storage claims; bytes of the queue below it are compared, not written."""

    confirmed: int | None = None
    """Bytes below it are stored as the log has them: written or compared by this owner, or not in its log.
    None before the first operation with bytes.
    """

    queue: deque[Pending] = field(default_factory=deque)
    totals: QueueTotals = field(default_factory=QueueTotals)
    seen: int | None = None
    """Where the last operation with bytes ended, and the next one has to begin."""

    changes: int = 0
    """Items of the queue that are no appends."""

    since: float = 0.0
    """Loop time of the oldest operation in the queue."""

    target: SegmentAggregator | None = None
    """The segment whose queue has the merge of this one; it decides when this one is flushed."""

    turn: Turn = Turn.IDLE

    urgent: bool = False
    """To be flushed whatever its size and age."""

    suspect: bool = False
    """Its last flush failed or is slow: it uses the slots of suspects only."""

    waiter: SegmentAggregator | None = None
    """The target that waits for this source."""

    deleting: bool = False
    """Its deletion is being queued, behind those of its sources, which may be gone: no step is begun."""

    scheduled_at: float = inf
    """Loop time for which the schedule has noted this; inf if it has not."""

    failures: int = 0
    not_before: float = 0.0
    """Loop time before which a failed flush is not repeated."""

    def take_turn(self, event: TurnEvent) -> None:
        """Raises: KeyError if ``event`` cannot happen now, a bug."""
        self.turn = LEGAL[self.turn][event]

    @property
    def busy(self) -> bool:
        """Somebody works on the segment: no flush may begin."""
        return self.turn is not Turn.IDLE and self.turn is not Turn.WAITING

    @property
    def waiting(self) -> bool:
        """The head of the queue waits for something else to happen first."""
        return self.turn is Turn.WAITING or self.turn is Turn.HELD_WAITING

    def adopt(self, claimed: int, *, in_storage: bool) -> None:
        """Storage claims to have ``claimed`` bytes."""
        self.adopted = True
        self.in_storage = in_storage
        self.claimed = claimed
        if self.confirmed is not None:
            self.confirmed = min(self.confirmed, claimed)

    # ---------------------------------------------------------------------------------- adding

    def add_append(self, sequence: int, offset: int, length: int) -> None:
        """Bytes became durable. Raises: DataCorruptionError if they do not continue what came before."""
        if not self.grow(offset, length):
            end = offset + length
            self._extend(offset, end)
            self._push(PendingAppend(sequence, offset, end))
            self.totals.size_bytes += length

    def grow(self, offset: int, length: int) -> bool:
        """Add an append to the last item if it may grow; else do nothing and say so. The hot path."""
        queue = self.queue
        if not queue or offset != self.seen:
            return False
        last = queue[-1]
        if type(last) is not PendingAppend or last.closed:
            return False
        end = offset + length
        if end - last.offset > AGGREGATE_BYTES_MAX or end > self.segment.durable_length:
            return False
        last.end = self.seen = end
        self.totals.size_bytes += length
        return True

    def add_merge(self, sequence: int, offset: int, length: int, source: SegmentAggregator) -> None:
        """Another segment was merged into this one. Raises: DataCorruptionError as ``add_append``."""
        self._extend(offset, offset + length)
        source.target = self
        self.changes += 1
        self._push(PendingMerge(sequence, offset, offset + length, source))

    def add_seal(self, sequence: int) -> None:
        """No more bytes will come. Raises: DataCorruptionError if some are missing, or it was sealed."""
        complete = self.reach == self.segment.durable_length or self._may_be_elsewhere
        if not complete or not self.segment.sealed or self.seal_queued:
            raise DataCorruptionError(
                f"segment {self.segment.name!r} is sealed at {self.segment.durable_length}; "
                f"operations cover {self.reach} bytes"
            )
        self.changes += 1
        self._push(PendingSeal(sequence))

    def add_truncate(self, sequence: int, offset: int) -> None:
        """Bytes below ``offset`` are not wanted. Raises: DataCorruptionError if the segment has them."""
        if offset > self.segment.start_offset:
            raise DataCorruptionError(
                f"segment {self.segment.name!r} starts at {self.segment.start_offset}; an operation "
                f"truncates it at {offset}"
            )
        last = self.queue[-1] if self.queue else None
        if type(last) is PendingTruncate:
            last.offset = max(last.offset, offset)
            return
        self.changes += 1
        self._push(PendingTruncate(sequence, offset))

    def pending_merges(self) -> list[PendingMerge]:
        """Return the merges in the queue."""
        return [item for item in self.queue if type(item) is PendingMerge]

    def add_delete(self, sequence: int) -> list[PendingMerge]:
        """The segment is gone: nothing else matters. Return the merges whose sources go with it.

        A source has to be deleted as of its merge: the log must keep that until storage has forgotten the
        source, since nothing else in the log names it.
        """
        merges = self.pending_merges()
        self.clear()
        self.changes = 1
        self._push(PendingDelete(sequence))
        self.urgent = True
        return merges

    def _push(self, item: Pending) -> None:
        self.queue.append(item)
        self.totals.items += 1

    def _extend(self, offset: int, end: int) -> None:
        """Note that the operations seen reach ``end`` now."""
        segment = self.segment
        if self.seen is not None:
            continues = offset == self.seen and not self.seal_queued
        else:
            continues = offset <= max(segment.stored_length, self.claimed) or self._may_be_elsewhere
        if not continues or end > segment.durable_length:
            raise DataCorruptionError(
                f"segment {segment.name!r}: an operation covers [{offset}, {end}); those before end at "
                f"{self.reach}, the durable bytes at {segment.durable_length}"
            )
        self.seen = end
        if self.confirmed is None:
            self.confirmed = min(offset, self.claimed) if self.adopted else offset

    @property
    def _may_be_elsewhere(self) -> bool:
        """Storage may have joined the segment to its target, or the target may be deleted and the log
        truncated behind some of the bytes: only the merge shows whether any are missing.
        """
        return self.segment.merged

    # ---------------------------------------------------------------------------------- looking

    @property
    def seal_queued(self) -> bool:
        """Whether a seal is in the queue: behind it comes one truncation at most."""
        return any(type(item) is PendingSeal for item in islice(reversed(self.queue), 2))

    @property
    def lowest_sequence(self) -> int | None:
        """The oldest operation that is not stored: the log is needed from there on."""
        return self.queue[0].sequence if self.queue else None

    @property
    def awaits_log(self) -> bool:
        """What is queued here waits for an operation that was not taken from the log yet: the merge or the
        deletion of the segment, or of the one that it becomes part of in the end.
        """
        found = self
        while found.target is not None:
            found = found.target
        return found.segment.merged or found.segment.deleted

    @property
    def is_source(self) -> bool:
        """The segment was merged: its target decides when it is flushed, and whether at all."""
        return self.segment.merged

    @property
    def reach(self) -> int:
        """Where the bytes end that are stored or in the queue."""
        return max(self.segment.stored_length, self.claimed, self.seen or 0)

    @property
    def compares(self) -> bool:
        """Whether the head of the queue has bytes that storage claims to have already."""
        if not self.adopted or self.confirmed is None or self.confirmed >= self.claimed or not self.queue:
            return False
        head = self.queue[0]
        return isinstance(head, PendingAppend | PendingMerge) and head.offset < self.claimed

    @property
    def queued_bytes(self) -> int:
        """Bytes of the appends in the queue, whole items. O(items)."""
        return sum(item.end - item.offset for item in self.queue if type(item) is PendingAppend)

    @property
    def pending_bytes(self) -> int:
        """Bytes in the queue, those of merges included."""
        return self.reach - self.segment.stored_length

    def clear(self) -> None:
        """Nothing that was queued matters any more."""
        self.totals.size_bytes -= self.queued_bytes
        self.totals.items -= len(self.queue)
        self.queue.clear()
        self.changes = 0

    def confirm(self, length: int) -> None:
        """Storage has the bytes below ``length`` as the log has them: forget appends that end there."""
        self.confirmed = max(length, self.confirmed or 0)
        self.claimed = max(length, self.claimed)
        while self.queue:
            head = self.queue[0]
            if type(head) is not PendingAppend or head.end > length:
                return
            self.queue.popleft()
            self.totals.items -= 1
            self.totals.size_bytes -= head.end - head.offset

    def finish(self, item: Pending) -> None:
        """``item`` is done; it is at the head, unless a deletion has cleared the queue meanwhile."""
        if self.queue and self.queue[0] is item:
            self.queue.popleft()
            self.totals.items -= 1
            self.changes -= 1

    def check(self) -> None:
        """Assert the invariants: what storage does not have yet is contiguous and ends at ``reach``."""
        assert self.segment.stored_length <= self.reach <= self.segment.durable_length
        assert (self.confirmed or 0) <= self.claimed or not self.adopted
        sequences = [item.sequence for item in self.queue]
        assert sequences == sorted(sequences)
        assert self.changes == sum(type(item) is not PendingAppend for item in self.queue)
        assert self.seal_queued == any(type(item) is PendingSeal for item in self.queue)
        at: int | None = None
        for item in self.queue:
            if isinstance(item, PendingAppend | PendingMerge):
                assert at is None or item.offset == at
                at = item.end
        assert at is None or at == self.seen
        assert not any(isinstance(item, PendingDelete) for item in list(self.queue)[1:])


def queue_source_deletions(aggregator: SegmentAggregator) -> Iterator[SegmentAggregator]:
    """Queue the deletion of every source that ``aggregator`` still owes a merge, and of their sources.

    The bytes of ``aggregator`` are stored in its target, or deleted, and theirs with them. One source at a
    time, as the caller iterates; those whose merge is completed meanwhile are passed over. A source comes
    behind its own sources: until their deletions are queued, the log retains them because of its merges.

    Yields:
        Those sources: they have to be settled.
    """
    aggregator.deleting = True
    merges = [(merge, False) for merge in aggregator.pending_merges()]
    while merges:
        merge, own_sources_left = merges.pop()
        source = merge.source
        if source.segment.stored_deleted:
            continue
        source.deleting = True
        inner = [] if own_sources_left else source.pending_merges()
        if inner:
            merges.append((merge, True))
            merges += [(each, False) for each in inner]
            continue
        source.add_delete(merge.sequence)
        source.target = None
        source.take_turn(TurnEvent.RESUME)
        yield source
