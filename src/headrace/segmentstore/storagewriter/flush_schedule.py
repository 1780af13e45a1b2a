"""The segments of a container that owe something to long-term storage, and which of them to flush now: by
size, by age, under pressure, on request; failed ones later. What intake, flushing and log cutting share.

Failing and slow segments are *suspects*. They have flush slots of their own, so that however many
there are, a segment that is flushed without trouble never waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, ValuesView
from heapq import heapify, heappop, heappush
from math import inf
from operator import attrgetter, itemgetter
from typing import Final

from headrace.segmentstore.segment_names import is_internal
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.segment_aggregator import QueueTotals, SegmentAggregator

_STALE_MIN = 1024
_SIZE = itemgetter(0)
_SINCE: Callable[[SegmentAggregator], float] = attrgetter("since")
_pending_bytes: Callable[[SegmentAggregator], int] = attrgetter("pending_bytes")


def _count_items(aggregator: SegmentAggregator) -> int:
    return len(aggregator.queue)


class FlushSchedule:
    """An aggregator for each such segment, from its first operation until its queue is empty; queues of those
    that are due and a heap of those that will be. ``now`` is loop time in seconds.

    Args:
        config: when they are due.
        make: makes the aggregator of a segment that is new here, whose queue counts as said.
        own_age_s: in place of ``flush_age_s``, for the segments that the container keeps for itself.
    """

    def __init__(
        self,
        config: StorageWriterConfig,
        make: Callable[[SegmentState, QueueTotals], SegmentAggregator],
        *,
        own_age_s: float | None = None,
    ) -> None:
        self._config = config
        self._own_age_s = config.flush_age_s if own_age_s is None else own_age_s
        self._make = make
        self._aggregators: dict[SegmentState, SegmentAggregator] = {}
        self.find: Final = self._aggregators.get
        """The aggregator of a segment, if it has one: asked for every append."""
        self.totals = QueueTotals()
        """What is in all queues."""
        self._due: dict[SegmentAggregator, None] = {}
        self._due_suspects: dict[SegmentAggregator, None] = {}
        self._timers: list[tuple[float, int, SegmentAggregator]] = []
        self._ticket = 0
        self.forced = False
        """Everything is due: a clean stop."""

    def __len__(self) -> int:
        return len(self._aggregators)

    def all(self) -> ValuesView[SegmentAggregator]:
        return self._aggregators.values()

    def get(self, segment: SegmentState, now: float) -> SegmentAggregator:
        """Return the aggregator of ``segment``, a new one if need be. Raises: DataCorruptionError."""
        aggregator = self._aggregators.get(segment)
        if aggregator is None:
            aggregator = self._aggregators[segment] = self._make(segment, self.totals)
            aggregator.since = now
        return aggregator

    def settle(self, aggregator: SegmentAggregator, now: float) -> None:
        """The queue or the state of a segment changed: schedule it, or forget it if it owes nothing."""
        if aggregator.queue or aggregator.busy or aggregator.target is not None:
            self.update(aggregator, now)
        elif self._aggregators.get(aggregator.segment) is aggregator:
            del self._aggregators[aggregator.segment]

    def force(self, now: float) -> None:
        """Make all of them due, as long as ``forced`` is set."""
        self.forced = True
        for aggregator in self._aggregators.values():
            self.update(aggregator, now)

    @property
    def due_count(self) -> int:
        return len(self._due) + len(self._due_suspects)

    def due_at(self, aggregator: SegmentAggregator) -> float:
        """Return when the segment wants to be flushed; inf if something else has to happen first."""
        if not aggregator.queue or aggregator.busy or aggregator.waiting:
            return inf
        if aggregator.is_source and not aggregator.urgent:
            return inf
        config = self._config
        enough = aggregator.pending_bytes >= config.flush_bytes
        if enough or self.forced or aggregator.urgent or aggregator.compares:
            at = 0.0
        else:
            age = self._own_age_s if is_internal(aggregator.segment.name) else config.flush_age_s
            at = aggregator.since + (min(age, config.change_age_s) if aggregator.changes else age)
        return max(at, aggregator.not_before)

    def update(self, aggregator: SegmentAggregator, now: float) -> None:
        """Something about the segment changed: note when it is due."""
        due = self._due_suspects if aggregator.suspect else self._due
        if aggregator in due:
            return
        at = self.due_at(aggregator)
        if at <= now:
            aggregator.scheduled_at = inf
            due[aggregator] = None
        elif at < aggregator.scheduled_at:
            aggregator.scheduled_at = at
            self._ticket += 1
            heappush(self._timers, (at, self._ticket, aggregator))
            self._drop_stale()

    def advance(self, now: float) -> None:
        """Move to the queue what has become due."""
        timers = self._timers
        while timers and timers[0][0] <= now:
            at, _, aggregator = heappop(timers)
            if aggregator.scheduled_at == at:
                aggregator.scheduled_at = inf
                self.update(aggregator, now)

    def next_due(self, *, suspect: bool) -> SegmentAggregator | None:
        """Take the segment that has been due longest: a suspect, or one that is none."""
        due = self._due_suspects if suspect else self._due
        while due:
            aggregator = next(iter(due))
            del due[aggregator]
            if self.due_at(aggregator) < inf:
                return aggregator
        return None

    def wake_at(self) -> float:
        """Return when ``advance`` should be called next; inf if there is nothing to wait for."""
        return self._timers[0][0] if self._timers else inf

    def is_due_by_size_alone(self, aggregator: SegmentAggregator, now: float) -> bool:
        """Whether what a write leaves of a due segment may wait until it is large again, or old."""
        if self.forced or aggregator.urgent or aggregator.compares or aggregator.changes:
            return False
        return aggregator.since + self._config.flush_age_s > now

    def relieve(self, now: float, bytes_left_max: int) -> None:
        """Too many bytes wait: make the largest due, until no more than ``bytes_left_max`` are left."""
        self._relieve(now, bytes_left_max, _pending_bytes)

    def relieve_items(self, now: float, items_left_max: int) -> None:
        """Too many items wait: make those due that have the most, likewise."""
        self._relieve(now, items_left_max, _count_items)

    def _relieve(self, now: float, left_max: int, size_of: Callable[[SegmentAggregator], int]) -> None:
        due, due_suspects = self._due, self._due_suspects
        if len(due) >= self._config.flushes_max:
            return  # more are due than there are slots; which is next is decided when more is known
        idle = [
            (size_of(found), found)
            for found in self._aggregators.values()
            if not (found.busy or found in due or found in due_suspects or found.is_source)
        ]
        waiting = sum(size for size, _ in idle)
        if waiting <= left_max:
            return
        idle.sort(key=_SIZE, reverse=True)
        for size, aggregator in idle:
            if waiting <= left_max or not size:
                return
            if aggregator.waiting or not aggregator.queue:
                continue
            waiting -= size
            aggregator.urgent = True
            self.update(aggregator, now)

    def press_oldest(self, now: float) -> None:
        """Appends wait for storage: make the segment due that has waited longest, if none is."""
        if self._due or self._due_suspects:
            return
        idle = [
            found
            for found in self._aggregators.values()
            if found.queue
            and not (found.busy or found.waiting or found.is_source)
            and found.not_before <= now  # one that fails must not keep others from being flushed
        ]
        if idle:
            oldest = min(idle, key=_SINCE)
            oldest.urgent = True
            self.update(oldest, now)

    def press(self, sequence: int, now: float) -> None:
        """The log cannot be truncated at ``sequence``: make the segments due that prevent it."""
        for aggregator in self._aggregators.values():
            lowest = aggregator.lowest_sequence
            if lowest is not None and lowest < sequence and not aggregator.is_source:
                aggregator.urgent = True
                self.update(aggregator, now)

    def _drop_stale(self) -> None:
        """Keep the heap within twice the number of live timers: each segment has at most one."""
        if len(self._timers) < _STALE_MIN or self._ticket % _STALE_MIN:
            return
        self._timers = [timer for timer in self._timers if timer[2].scheduled_at == timer[0]]
        heapify(self._timers)

    def check(self) -> None:
        """Assert the invariants of every queue, and that they are counted right."""
        aggregators = self._aggregators.values()
        for aggregator in aggregators:
            aggregator.check()
        assert self.totals.size_bytes == sum(found.queued_bytes for found in aggregators)
        assert self.totals.items == sum(len(found.queue) for found in aggregators)
