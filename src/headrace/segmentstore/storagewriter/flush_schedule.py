"""Decides which segments to flush now: by size, by age, under pressure, on request; failed ones later."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.segment_aggregator import SegmentAggregator

_STALE_MIN = 1024


class FlushSchedule:
    """A queue of segments that are due and a heap of those that will be. ``now`` is loop time in seconds."""

    def __init__(self, config: StorageWriterConfig) -> None:
        self._config = config
        self._due: dict[SegmentAggregator, None] = {}
        self._timers: list[tuple[float, int, SegmentAggregator]] = []
        self._ticket = 0
        self.forced = False
        """Everything is due: a clean stop."""

    @property
    def due_count(self) -> int:
        return len(self._due)

    def due_at(self, aggregator: SegmentAggregator) -> float:
        """Return when the segment wants to be flushed; inf if something else has to happen first."""
        if not aggregator.queue or aggregator.busy or aggregator.waiting:
            return inf
        if aggregator.is_source and not aggregator.urgent:
            return inf
        at = aggregator.since + self._config.flush_age_s
        if self.forced or aggregator.urgent or aggregator.pending_bytes >= self._config.flush_bytes:
            at = 0.0
        return max(at, aggregator.not_before)

    def update(self, aggregator: SegmentAggregator, now: float) -> None:
        """Something about the segment changed: note when it is due."""
        if aggregator in self._due:
            return
        at = self.due_at(aggregator)
        if at <= now:
            aggregator.scheduled_at = inf
            self._due[aggregator] = None
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

    def next_due(self) -> SegmentAggregator | None:
        """Take the segment that has been due longest."""
        while self._due:
            aggregator = next(iter(self._due))
            del self._due[aggregator]
            if self.due_at(aggregator) < inf:
                return aggregator
        return None

    def wake_at(self) -> float:
        """Return when ``advance`` should be called next; inf if there is nothing to wait for."""
        return self._timers[0][0] if self._timers else inf

    def relieve(self, aggregators: Iterable[SegmentAggregator], now: float) -> None:
        """Too many bytes wait: make the largest due, until what is left is half of what is bearable."""
        idle = [found for found in aggregators if found.queue and not found.busy and found not in self._due]
        waiting = sum(found.pending_bytes for found in idle if not found.is_source)
        idle.sort(key=_pending_bytes, reverse=True)
        for aggregator in idle:
            if 2 * waiting <= self._config.pressure_bytes:
                return
            if aggregator.is_source or aggregator.waiting or aggregator.pending_bytes == 0:
                continue
            waiting -= aggregator.pending_bytes
            aggregator.urgent = True
            self.update(aggregator, now)

    def _drop_stale(self) -> None:
        """Keep the heap within twice the number of live timers: each segment has at most one."""
        if len(self._timers) < _STALE_MIN or self._ticket % _STALE_MIN:
            return
        self._timers = [timer for timer in self._timers if timer[2].scheduled_at == timer[0]]
        heapify(self._timers)


def _pending_bytes(aggregator: SegmentAggregator) -> int:
    return aggregator.pending_bytes
