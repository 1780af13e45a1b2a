"""Takes durable operations from the memory log and queues them at their segments.

Nearly all of them are appends that continue the last one of their segment, and only make an item longer.
Storage is not urgent: in a pause after each batch the memory log joins them before they are taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.contract import (
    MemoryLog,
    ReadIndex,
    StorageOperation,
    StoredAppend,
    StoredCheckpoint,
    StoredDelete,
    StoredMerge,
    StoredSeal,
    StoredTruncate,
)
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.flush_turn import TurnEvent
from headrace.segmentstore.storagewriter.log_truncation import Acknowledgements
from headrace.segmentstore.storagewriter.segment_aggregator import queue_source_deletions

_OWN_PRESSURE: Final = 0.5
"""From this share of the container's part of the cache on, segments are flushed whatever their size and
age.
"""

_SHARED_PRESSURE: Final = 0.6
"""The same for all containers of the process together: many of them fill the cache with little each."""

_SOURCES_AT_ONCE: Final = 256
"""Sources of a deleted target that are deleted before a yield to the loop: it may have tens of thousands."""


class Intake:
    """The only consumer of the memory log.

    Args:
        memory_log: durable operations in order.
        read_index: says how full the cache is.
        schedule: where the operations go; makes due what is large, or anything if too much waits.
        acknowledgements: notified of every sequence number.
        config: how much is taken and may wait.
        backlog_bytes: with so many unstored bytes segments are flushed whatever their size and age.
        is_awaited: whether appends wait for what is stored; then, too.
        on_taken: called when there is something new to be flushed or acknowledged.
    """

    def __init__(
        self,
        memory_log: MemoryLog,
        read_index: ReadIndex,
        schedule: FlushSchedule,
        acknowledgements: Acknowledgements,
        config: StorageWriterConfig,
        *,
        backlog_bytes: int,
        is_awaited: Callable[[], bool],
        on_taken: Callable[[], None],
    ) -> None:
        self._memory_log = memory_log
        self._read_index = read_index
        self._schedule = schedule
        self._acknowledgements = acknowledgements
        self._config = config
        self._backlog_bytes = backlog_bytes
        self._is_awaited = is_awaited
        self._on_taken = on_taken
        self.is_queueing = False
        """Whether operations were taken that are not all queued yet."""
        self.operations_taken = 0
        self._fresh_bytes = 0
        """Appended since it was last seen whether too much waits."""

    async def run(self) -> None:
        """Take operations for ever. Raises: DataCorruptionError if they contradict what is known."""
        config = self._config
        loop = asyncio.get_running_loop()
        while True:
            if self._is_full():
                await asyncio.sleep(config.take_timeout_s)
                self._relieve(loop.time(), grows=False)
                self._schedule.relieve_items(loop.time(), config.pending_operations_max // 4)
                self._on_taken()
                continue
            operations = await self._memory_log.take(config.take_operations_max, config.take_timeout_s)
            if not operations:
                if self._is_pressed():
                    self._relieve(loop.time(), grows=False)
                    self._on_taken()
                continue
            now = loop.time()
            self.is_queueing = True
            await self._queue(operations, now)
            self.is_queueing = False
            if self._schedule.totals.items >= config.pending_operations_max // 2:
                self._schedule.relieve_items(now, config.pending_operations_max // 4)
            self.operations_taken += len(operations)
            if self._fresh_bytes >= config.pressure_bytes // (16 if self._is_pressed() else 8):
                self._relieve(now, grows=True)
            self._on_taken()
            # A log that is never empty must not occupy the loop, and lone appends need not be taken at once.
            hurry = len(operations) >= config.take_operations_max or self._is_pressed()
            await asyncio.sleep(0 if hurry else config.take_interval_s)

    async def _queue(self, operations: Sequence[StorageOperation], now: float) -> None:
        """Queue operations; in a loop of its own those that only make the last item of a segment longer."""
        find, on_taken = self._schedule.find, self._acknowledgements.on_taken
        flush_bytes = self._config.flush_bytes
        fresh_bytes = 0
        for operation in operations:
            if type(operation) is StoredAppend:
                segment, offset, length = operation.segment, operation.offset, operation.length
                aggregator = find(segment)
                if aggregator is not None and aggregator.grow(offset, length):
                    on_taken(operation.sequence, length)
                    fresh_bytes += length
                    if offset + length - segment.stored_length >= flush_bytes:
                        self._schedule.update(aggregator, now)
                    continue
            await self._add(operation, now)
        self._fresh_bytes += fresh_bytes

    async def _add(self, operation: StorageOperation, now: float) -> None:
        """Queue one operation. Raises: DataCorruptionError if it contradicts what is known."""
        sequence = operation.sequence
        length = operation.length if isinstance(operation, StoredAppend) else 0
        self._acknowledgements.on_taken(sequence, length)
        if isinstance(operation, StoredCheckpoint):
            self._acknowledgements.on_checkpoint(sequence)
            return
        segment = operation.segment
        if (segment.deleted or segment.evicted) and not isinstance(operation, StoredDelete):
            # Its deletion follows in the log; or storage had all of it when it was evicted. A source that was
            # merged into it has no such entry of its own.
            if isinstance(operation, StoredMerge):
                await self._add_delete(operation.source, sequence, now)
            return
        if isinstance(operation, StoredDelete):
            await self._add_delete(segment, sequence, now)
            return
        aggregator = self._schedule.get(segment, now)
        match operation:
            case StoredAppend():
                aggregator.add_append(sequence, operation.offset, operation.length)
                self._fresh_bytes += operation.length
            case StoredMerge():
                source = self._schedule.get(operation.source, now)
                aggregator.add_merge(sequence, operation.offset, operation.length, source)
            case StoredSeal():
                aggregator.add_seal(sequence)
            case StoredTruncate():
                aggregator.add_truncate(sequence, operation.offset)
        self._schedule.settle(aggregator, now)

    async def _add_delete(self, segment: SegmentState, sequence: int, now: float) -> None:
        if segment.stored_deleted:
            return
        budget = LoopBudget(_SOURCES_AT_ONCE)
        for source in queue_source_deletions(self._schedule.get(segment, now)):
            self._schedule.settle(source, now)
            await budget.spend()  # no step of the segment is begun meanwhile, since it is being deleted
        aggregator = self._schedule.get(segment, now)
        aggregator.add_delete(sequence)
        aggregator.target = None
        aggregator.take_turn(TurnEvent.RESUME)
        self._schedule.settle(aggregator, now)

    def _is_pressed(self) -> bool:
        index = self._read_index
        return (
            index.shared_pressure() >= _SHARED_PRESSURE
            or index.cache_pressure() >= _OWN_PRESSURE
            or index.unstored_bytes() >= self._backlog_bytes
            or self._is_awaited()
        )

    def _is_full(self) -> bool:
        """Whether no more operations are to be taken. O(segments) if so many wait, O(1) else."""
        limit = self._config.pending_operations_max
        if self._schedule.totals.items < limit:
            return False
        # What waits for the log must not keep it from being read.
        return sum(len(found.queue) for found in self._schedule.all() if not found.awaits_log) >= limit

    def _relieve(self, now: float, *, grows: bool) -> None:
        """Flush early if too much waits. O(segments) then, so not done for each operation."""
        self._fresh_bytes = 0
        waiting = self._schedule.totals.size_bytes
        enough = self._config.pressure_bytes
        left = enough // 2
        if self._is_pressed():
            # The containers of a process share the cache: it may be full although none of them has much.
            # More is left of what still grows: writes are larger then, and fewer.
            enough, left = 0, min(left, waiting * 3 // 4 if grows else waiting // 2)
        if waiting >= enough:
            self._schedule.relieve(now, left)
        if self._is_awaited():
            self._schedule.press_oldest(now)
