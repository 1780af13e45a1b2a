"""The segments of a container that owe something to long-term storage: what intake, flushing and log cutting
share. On the container's loop.
"""

from __future__ import annotations

from collections.abc import Callable, ValuesView
from typing import Final

from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.segment_aggregator import QueueTotals, SegmentAggregator


class PendingSegments:
    """An aggregator for each such segment, from its first operation until its queue is empty.

    Args:
        schedule: told whenever one of them may be due.
        make: makes the aggregator of a segment that is new here, whose queue counts as said.
    """

    def __init__(
        self, schedule: FlushSchedule, make: Callable[[SegmentState, QueueTotals], SegmentAggregator]
    ) -> None:
        self._schedule = schedule
        self._make = make
        self._aggregators: dict[SegmentState, SegmentAggregator] = {}
        self._totals = QueueTotals()
        self.find: Final = self._aggregators.get
        """The aggregator of a segment, if it has one: asked for every append."""

    def __len__(self) -> int:
        return len(self._aggregators)

    def all(self) -> ValuesView[SegmentAggregator]:
        return self._aggregators.values()

    @property
    def queued_bytes(self) -> int:
        """Appended bytes in all queues, by whole items. O(1)."""
        return self._totals.size_bytes

    @property
    def queued_items(self) -> int:
        """Items of all queues. O(1)."""
        return self._totals.items

    def get(self, segment: SegmentState, now: float) -> SegmentAggregator:
        """Return the aggregator of ``segment``, a new one if need be. Raises: DataCorruptionError."""
        aggregator = self._aggregators.get(segment)
        if aggregator is None:
            aggregator = self._make(segment, self._totals)
            aggregator.since = now
            self._aggregators[segment] = aggregator
        return aggregator

    def settle(self, aggregator: SegmentAggregator, now: float) -> None:
        """The queue or the state of a segment changed: schedule it, or forget it if it owes nothing."""
        if aggregator.queue or aggregator.busy or aggregator.target is not None:
            self._schedule.update(aggregator, now)
        elif self._aggregators.get(aggregator.segment) is aggregator:
            del self._aggregators[aggregator.segment]

    def schedule_all(self, now: float) -> None:
        """What is due has changed for all of them."""
        for aggregator in self._aggregators.values():
            self._schedule.update(aggregator, now)

    def check(self) -> None:
        """Assert the invariants of every queue, and that they are counted right."""
        for aggregator in self._aggregators.values():
            aggregator.check()
        aggregators = self._aggregators.values()
        assert self._totals.size_bytes == sum(found.queued_bytes for found in aggregators)
        assert self._totals.items == sum(len(found.queue) for found in aggregators)
