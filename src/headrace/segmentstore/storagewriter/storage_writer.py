"""Moves durable operations into long-term storage and lets the log be cut behind them.

Three loops share the state of one container's segments, all on its event loop: *intake* takes operations from
the memory log and queues them by segment, *flushing* works on the segments that are due, several at a time,
and *acknowledging* tells how far the log may be cut. Nothing here is durable: after a crash the log is read
again, and what storage holds already is recognised by its lengths.

A segment whose flush fails is retried later and later while the others go on; only the log stays longer.
Being fenced out and corruption end the writer, and with it the container.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from headrace.errors import ContainerOfflineError, CorruptionError, FencedOutError, HeadraceError
from headrace.segmentstore.container.segment_state import SegmentState
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
from headrace.segmentstore.storagewriter.acknowledgements import Acknowledgements
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_plan import DeleteStep, WaitStep, plan_step, sources_of
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.segment_aggregator import QueuedBytes, SegmentAggregator
from headrace.segmentstore.storagewriter.segment_flusher import SegmentFlusher, SegmentStorage

_logger = logging.getLogger(__name__)

_FATAL = (FencedOutError, CorruptionError)
_WARNING_INTERVAL_S: Final = 5.0
_PRESS_INTERVAL_MIN_S: Final = 0.01
"""However young a waiting checkpoint may be, so long nothing new happens between two looks at it."""
_CACHE_PRESSURE: Final = 0.5
"""From this share of what the cache has left on, segments are flushed whatever their size and age."""


@dataclass(slots=True)
class StorageWriterStatistics:
    """Counts since creation, and gauges of now. Bytes; ages in seconds."""

    operations_taken: int
    taken_sequence: int
    acknowledged_sequence: int
    operations_queued: int
    bytes_queued: int
    oldest_age_s: float
    segments_pending: int
    segments_due: int
    segments_failing: int
    segments_suspect: int
    flushes_active: int
    flushes: int
    flush_failures: int
    retries: int
    reconciliations: int
    bytes_compared: int
    bytes_written: int
    merges_absorbed: int
    merges_joined: int


class StorageWriter:
    """The storage writer of one container. ``run`` is its life; everything happens on the container's loop.

    Args:
        memory_log: durable operations in order; this is its only consumer.
        read_index: holds the bytes until they are stored.
        storage: where they go.
        acknowledge: told a checkpoint's sequence number once every operation before it is stored.
        config: when and how much.
        on_progress: called after bytes were stored, for whoever waits for memory.
    """

    def __init__(
        self,
        memory_log: MemoryLog,
        read_index: ReadIndex,
        storage: SegmentStorage,
        acknowledge: Callable[[int], Awaitable[None]],
        config: StorageWriterConfig | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        self._memory_log = memory_log
        self._storage = storage
        self._acknowledge = acknowledge
        self._config = config or StorageWriterConfig()
        self._on_progress = on_progress
        self._read_index = read_index
        self._flusher = SegmentFlusher(storage, read_index)
        self._aggregators: dict[SegmentState, SegmentAggregator] = {}
        self._queued = QueuedBytes()
        self._acknowledgements = Acknowledgements()
        self._schedule = FlushSchedule(self._config)
        self._blocker: SegmentAggregator | None = None
        """The segment whose oldest operation kept the log from being cut, when that was last looked at."""
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._intake_idle = False
        self._quiet_waiters: list[asyncio.Future[None]] = []
        self._running: asyncio.Task[None] | None = None
        self._ended = False
        self._active = {False: 0, True: 0}
        """Flushes under way of segments that are no suspects, and of suspects."""
        self._operations_taken = 0
        self._queued_operations = 0
        """Operations waiting, at most: exact after each ``_measure``."""
        self._unmeasured_bytes = 0
        self._flushes = 0
        self._flush_failures = 0
        self._retries = 0
        self._blocked_checkpoint: int | None = None
        self._blocked_since = 0.0
        self._failures_unsaid = 0
        self._next_warning_at = 0.0

    # ---------------------------------------------------------------------------------- life

    async def run(self) -> None:
        """Work until cancelled or ``stop``.

        Raises:
            FencedOutError: a newer owner has the container.
            CorruptionError: log, storage and memory contradict each other.
        """
        assert self._running is None
        self._running = asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._take_operations())
                tasks.create_task(self._flush_segments(tasks))
                tasks.create_task(self._acknowledge_progress())
                tasks.create_task(self._collect_garbage())
        except BaseExceptionGroup as group:
            raise _worst_of(group) from None
        finally:
            self._ended = True
            for waiter in self._quiet_waiters:
                if not waiter.done():
                    waiter.set_exception(ContainerOfflineError("the storage writer has ended"))

    async def flush_all(self) -> None:
        """Flush everything that is in the memory log or here, and wait until it is stored and acknowledged.

        Waits as long as storage fails; the caller sets the limit.

        Raises:
            ContainerOfflineError: the writer ended first.
        """
        if self._ended or self._running is None:
            raise ContainerOfflineError("the storage writer does not run")
        self._schedule.forced = True
        self._intake_idle = False
        now = asyncio.get_running_loop().time()
        for aggregator in self._aggregators.values():
            self._schedule.update(aggregator, now)
        self._wake.set()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._quiet_waiters.append(waiter)
        try:
            await waiter
        finally:
            self._quiet_waiters.remove(waiter)
            self._schedule.forced = bool(self._quiet_waiters)

    async def stop(self) -> None:
        """Flush for at most ``stop_flush_s``, then end ``run``. What is left is recovered from the log."""
        if self._running is None:
            self._ended = True
            return
        if not self._ended:
            try:
                async with asyncio.timeout(self._config.stop_flush_s):
                    await self.flush_all()
            except (TimeoutError, ContainerOfflineError):
                _logger.info("storage writer stops with %d segments to be flushed", len(self._aggregators))
        self._running.cancel()
        await asyncio.wait([self._running])

    @property
    def unstored_bytes(self) -> int:
        """Appended bytes that were taken from the memory log and are not stored; by whole items. O(1)."""
        return self._queued.count

    def statistics(self) -> StorageWriterStatistics:
        """Look at every segment that owes something."""
        aggregators = self._aggregators.values()
        oldest = min((found.since for found in aggregators if found.queue), default=None)
        now = asyncio.get_running_loop().time()
        return StorageWriterStatistics(
            operations_taken=self._operations_taken,
            taken_sequence=self._acknowledgements.taken,
            acknowledged_sequence=self._acknowledgements.acknowledged,
            operations_queued=sum(len(found.queue) for found in aggregators),
            bytes_queued=self._queued.count,
            oldest_age_s=0.0 if oldest is None else now - oldest,
            segments_pending=len(self._aggregators),
            segments_due=self._schedule.due_count,
            segments_failing=sum(found.failures > 0 for found in aggregators),
            segments_suspect=sum(found.suspect for found in aggregators),
            flushes_active=sum(self._active.values()),
            flushes=self._flushes,
            flush_failures=self._flush_failures,
            retries=self._retries,
            reconciliations=self._flusher.reconciliations,
            bytes_compared=self._flusher.bytes_compared,
            bytes_written=self._flusher.bytes_written,
            merges_absorbed=self._flusher.merges_absorbed,
            merges_joined=self._flusher.merges_joined,
        )

    def check(self) -> None:
        """Assert the invariants of every segment's queue and of the acknowledgements."""
        self._acknowledgements.check()
        for aggregator in self._aggregators.values():
            aggregator.check()
        assert self._queued.count == sum(found.queued_bytes for found in self._aggregators.values())
        assert all(count >= 0 for count in self._active.values())

    # ---------------------------------------------------------------------------------- intake

    async def _take_operations(self) -> None:
        config = self._config
        loop = asyncio.get_running_loop()
        while True:
            if self._queued_operations >= config.pending_operations_max:
                await asyncio.sleep(config.take_timeout_s)
                self._measure(loop.time())
                continue
            operations = await self._memory_log.take(config.take_operations_max, config.take_timeout_s)
            self._intake_idle = not operations
            if not operations:
                self._wake_quiet_waiters()
                if self._read_index.cache_pressure() >= _CACHE_PRESSURE:
                    self._measure(loop.time())
                    self._wake.set()
                continue
            now = loop.time()
            for operation in operations:
                if type(operation) is not StoredAppend or not self._grow(operation, now):
                    self._add(operation, now)
            self._operations_taken += len(operations)
            self._queued_operations += len(operations)
            if self._unmeasured_bytes >= config.pressure_bytes // 8 or (
                self._queued_operations > 2 * max(config.take_operations_max, len(self._aggregators))
            ):
                self._measure(now)
            self._wake.set()
            self._progress.set()
            await asyncio.sleep(0)  # a log that is never empty must not keep the loop to itself

    def _grow(self, operation: StoredAppend, now: float) -> bool:
        """Queue an append that continues the last one of its segment, or say that it does not: mostly so."""
        segment = operation.segment
        aggregator = self._aggregators.get(segment)
        if aggregator is None or not aggregator.grow(operation.offset, operation.length):
            return False
        self._acknowledgements.on_taken(operation.sequence)
        self._unmeasured_bytes += operation.length
        if operation.offset + operation.length - segment.stored_length >= self._config.flush_bytes:
            self._schedule.update(aggregator, now)
        return True

    def _add(self, operation: StorageOperation, now: float) -> None:
        """Queue one operation. Raises: DataCorruptionError if it contradicts what is known."""
        sequence = operation.sequence
        self._acknowledgements.on_taken(sequence)
        if isinstance(operation, StoredCheckpoint):
            self._acknowledgements.on_checkpoint(sequence)
            return
        segment = operation.segment
        if segment.deleted and not isinstance(operation, StoredDelete):
            # Its deletion follows in the log. A source that was merged into it has no such entry of its own.
            if isinstance(operation, StoredMerge):
                self._add_delete(operation.source, sequence, now)
            return
        if isinstance(operation, StoredDelete):
            self._add_delete(segment, sequence, now)
            return
        aggregator = self._aggregator_of(segment, now)
        match operation:
            case StoredAppend():
                aggregator.add_append(sequence, operation.offset, operation.length)
                self._unmeasured_bytes += operation.length
            case StoredMerge():
                source = self._aggregator_of(operation.source, now)
                aggregator.add_merge(sequence, operation.offset, operation.length, source)
            case StoredSeal():
                aggregator.add_seal(sequence)
            case StoredTruncate():
                aggregator.add_truncate(sequence, operation.offset)
        self._settle(aggregator, now)

    def _add_delete(self, segment: SegmentState, sequence: int, now: float) -> None:
        if segment.stored_deleted:
            return
        gone = [(self._aggregator_of(segment, now), sequence)]
        while gone:
            aggregator, sequence = gone.pop()
            gone += [(merge.source, merge.sequence) for merge in aggregator.add_delete(sequence)]
            aggregator.target = None
            aggregator.waiting = False
            self._settle(aggregator, now)

    def _aggregator_of(self, segment: SegmentState, now: float) -> SegmentAggregator:
        aggregator = self._aggregators.get(segment)
        if aggregator is None:
            aggregator = self._flusher.make_aggregator(segment, self._queued)
            aggregator.since = now
            self._aggregators[segment] = aggregator
        return aggregator

    def _settle(self, aggregator: SegmentAggregator, now: float) -> None:
        """The queue or the state of a segment changed: schedule it, or forget it if it owes nothing."""
        if aggregator.queue or aggregator.busy or aggregator.target is not None:
            self._schedule.update(aggregator, now)
        elif self._aggregators.get(aggregator.segment) is aggregator:
            del self._aggregators[aggregator.segment]

    def _measure(self, now: float) -> None:
        """Count what waits; flush early if it is too much. O(segments), so not done for each operation."""
        aggregators = self._aggregators.values()
        # What waits for the log must not keep it from being read.
        self._queued_operations = sum(len(found.queue) for found in aggregators if not found.awaits_log)
        self._unmeasured_bytes = 0
        waiting = sum(found.pending_bytes for found in aggregators if not found.is_source)
        bearable = self._config.pressure_bytes
        if self._read_index.cache_pressure() >= _CACHE_PRESSURE:
            # The containers of a process share the cache: it may be full although none of them has much.
            bearable = min(bearable, waiting)
        if waiting >= bearable > 0:
            self._schedule.relieve(aggregators, now, bearable)

    # ---------------------------------------------------------------------------------- flushing

    async def _flush_segments(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            self._schedule.advance(loop.time())
            for suspect in (False, True):
                self._start_flushes(tasks, suspect=suspect)
            wake_at = self._schedule.wake_at()
            try:
                async with asyncio.timeout_at(None if wake_at == inf else wake_at):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _start_flushes(self, tasks: asyncio.TaskGroup, *, suspect: bool) -> None:
        while self._active[suspect] < self._config.flushes_max:
            aggregator = self._schedule.next_due(suspect=suspect)
            if aggregator is None:
                return
            aggregator.busy = True
            self._active[aggregator.suspect] += 1
            tasks.create_task(self._flush(aggregator))

    async def _flush(self, aggregator: SegmentAggregator) -> None:
        """Work on one segment until what was queued at the start is stored or it has to wait."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        slow = loop.call_later(self._config.slow_flush_s, self._on_slow, aggregator)
        self._flushes += 1
        self._retries += aggregator.failures > 0
        aggregator.urgent = False
        error: HeadraceError | None = None
        try:
            await self._perform_steps(aggregator, aggregator.queue[-1].sequence)
        except _FATAL:
            raise
        except HeadraceError as failure:
            error = failure
        finally:
            slow.cancel()
            self._active[aggregator.suspect] -= 1
            aggregator.busy = False
        now = loop.time()
        aggregator.suspect = error is not None or now - began >= self._config.slow_flush_s
        if error is not None:
            self._back_off(aggregator, error, now)
        elif not aggregator.waiting:
            aggregator.since = began  # what waits now came after that
        self._on_flushed(aggregator, now)

    async def _perform_steps(self, aggregator: SegmentAggregator, last: int) -> None:
        """Perform the steps for what is queued up to sequence number ``last``."""
        loop = asyncio.get_running_loop()
        while aggregator.queue and aggregator.queue[0].sequence <= last:
            step = plan_step(aggregator, write_bytes_max=self._config.write_bytes_max)
            if step is None:
                return
            if isinstance(step, WaitStep):
                self._wait_for(aggregator, step.source, loop.time())
                return
            if aggregator.segment.deleted and not isinstance(step, DeleteStep):
                # All that is left to do is its deletion, which is on the way. A step could make no progress,
                # its bytes having left the cache, and would be planned again and again.
                aggregator.waiting = True
                return
            await self._flusher.perform(aggregator, step)
            aggregator.failures = 0
            for source in sources_of(step):
                self._settle(source, loop.time())
            self._report_progress()

    def _on_slow(self, aggregator: SegmentAggregator) -> None:
        """A flush takes long: let another segment have its place, unless too many have been let in so."""
        if aggregator.suspect:
            return
        if self._active[True] < self._config.flushes_max:
            self._active[False] -= 1
            self._active[True] += 1
            aggregator.suspect = True
            self._wake.set()

    def _wait_for(self, target: SegmentAggregator, source: SegmentAggregator, now: float) -> None:
        """The merge at the head needs its source in storage first: ask for that."""
        target.waiting = True
        source.waiter = target
        source.urgent = True
        self._schedule.update(source, now)

    def _back_off(self, aggregator: SegmentAggregator, error: HeadraceError, now: float) -> None:
        """Note a failure, learn from storage what happened, try later. Raises: DataCorruptionError."""
        config = self._config
        self._flush_failures += 1
        pause = min(config.retry_max_s, config.retry_initial_s * 2 ** min(aggregator.failures, 30))
        aggregator.failures += 1
        aggregator.not_before = now + pause
        aggregator.urgent = True  # it was due, for whatever reason
        self._log_failure(aggregator, error, now)
        self._flusher.adopt(aggregator)

    def _log_failure(self, aggregator: SegmentAggregator, error: HeadraceError, now: float) -> None:
        """Say so, but not for each of ten thousand segments when storage is away as a whole."""
        if now < self._next_warning_at:
            self._failures_unsaid += 1
            return
        _logger.warning(
            "segment %s: storing failed %d times, next attempt in %.1f s (and %d failures before this): %s",
            aggregator.segment.name,
            aggregator.failures,
            aggregator.not_before - now,
            self._failures_unsaid,
            error,
        )
        self._next_warning_at = now + _WARNING_INTERVAL_S
        self._failures_unsaid = 0

    def _on_flushed(self, aggregator: SegmentAggregator, now: float) -> None:
        target, aggregator.waiter = aggregator.waiter, None
        if target is not None:
            target.waiting = False
            target.urgent = True  # it was due before it had to wait
            self._settle(target, now)
        self._settle(aggregator, now)
        self._wake.set()
        self._progress.set()

    def _report_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress()

    # ---------------------------------------------------------------------------------- acknowledging

    async def _acknowledge_progress(self) -> None:
        failures = 0
        while True:
            await self._wait_for_progress()
            sequence = self._acknowledgeable()
            if sequence is not None:
                try:
                    await self._acknowledge(sequence)
                except _FATAL:
                    raise
                except HeadraceError as error:
                    failures += 1
                    _logger.warning("cutting the log at %d failed %d times: %s", sequence, failures, error)
                    pause = self._config.retry_initial_s * 2 ** min(failures, 30)
                    await asyncio.sleep(min(self._config.retry_max_s, pause))
                    self._progress.set()
                    continue
                failures = 0
                self._acknowledgements.on_acknowledged(sequence)
            self._press_blockers()
            self._wake_quiet_waiters()
            interval = self._config.acknowledge_interval_s
            await asyncio.sleep(interval / 20 if self._schedule.forced else interval)

    async def _wait_for_progress(self) -> None:
        """Wait until something was taken or stored, or a checkpoint has waited long enough."""
        waiting = self._acknowledgements.first_checkpoint is not None
        age_s = max(self._config.checkpoint_age_s, _PRESS_INTERVAL_MIN_S)
        try:
            async with asyncio.timeout(age_s if waiting else None):
                await self._progress.wait()
        except TimeoutError:
            return
        self._progress.clear()

    def _press_blockers(self) -> None:
        """Flush what stands before a checkpoint that waits too long: so the log stays short under load."""
        first = self._acknowledgements.first_checkpoint
        now = asyncio.get_running_loop().time()
        if first is None or first != self._blocked_checkpoint:
            self._blocked_checkpoint, self._blocked_since = first, now
        elif now - self._blocked_since >= self._config.checkpoint_age_s:
            self._blocked_since = now
            self._schedule.press(self._aggregators.values(), first, now)
            self._wake.set()

    def _acknowledgeable(self) -> int | None:
        """Return the checkpoint up to which the log may be cut, if there is a new one."""
        first = self._acknowledgements.first_checkpoint
        if first is None:
            return None
        # Usually it is still the segment that stood in the way the last time: no need to look at all of them.
        lowest = self._blocker.lowest_sequence if self._blocker is not None else None
        if lowest is None or lowest >= first:
            lowest, self._blocker = None, None
            for aggregator in self._aggregators.values():
                sequence = aggregator.lowest_sequence
                if sequence is not None and (lowest is None or sequence < lowest):
                    lowest, self._blocker = sequence, aggregator
        return self._acknowledgements.candidate(lowest)

    def _wake_quiet_waiters(self) -> None:
        if not self._quiet_waiters or not self._intake_idle or self._aggregators:
            return
        if self._acknowledgeable() is not None:
            return
        for waiter in self._quiet_waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ---------------------------------------------------------------------------------- garbage

    async def _collect_garbage(self) -> None:
        """Delete what nothing uses any more; once, look for what dead owners left."""
        looked_for_leftovers = False
        while True:
            await asyncio.sleep(self._config.garbage_interval_s)
            try:
                await self._storage.collect_garbage()
                if not looked_for_leftovers:
                    await self._storage.collect_leftovers()
                    looked_for_leftovers = True
            except _FATAL:
                raise
            except HeadraceError as error:
                _logger.warning("deleting objects failed, next attempt soon: %s", error)


def _worst_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that says most: a fatal one if there is one. Each has its own traceback."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            leaves.append(error)
    return next((leaf for leaf in leaves if isinstance(leaf, _FATAL)), leaves[0])
