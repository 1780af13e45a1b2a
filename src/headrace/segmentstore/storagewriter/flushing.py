"""Works on the segments that are due, several at a time; those that fail are tried later and later.

There are as many slots again for *suspects*, segments whose last flush failed or takes long, so that
the other segments do not wait for them, however many there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from math import inf
from typing import Final

from headrace.errors import CorruptionError, FencedOutError, HeadraceError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_plan import (
    WaitStep,
    next_to_adopt,
    plan_step,
    sources_of,
)
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.flush_turn import TurnEvent
from headrace.segmentstore.storagewriter.segment_aggregator import PendingDelete, SegmentAggregator
from headrace.segmentstore.storagewriter.segment_flusher import SegmentFlusher

_logger = logging.getLogger(__name__)

FATAL: Final = (FencedOutError, CorruptionError)
"""Errors that end the writer, and with it the container."""

_WARNING_INTERVAL_S: Final = 5.0

_STEPS_AT_ONCE: Final = 256
"""Steps of one segment after which it yields to the loop: many steps need not wait for anything."""

_EARLY_S: Final = 1e-3
"""What is due so soon is due now: some loops count whole milliseconds, and wake up that much too early."""


class Flushing:
    """Takes what the schedule says is due, and has the flusher perform the steps that are planned for it.

    Args:
        flusher: performs the steps.
        schedule: says what is due; notified when a segment owes nothing any more.
        config: how many at a time, and how long a failed one waits.
        on_flushed: called when a segment was flushed, or has failed.
        on_progress: called after bytes were stored, once for each iteration of the loop.
        makes_objects: every write makes an object, so what a write of a large segment leaves waits.
    """

    def __init__(
        self,
        flusher: SegmentFlusher,
        schedule: FlushSchedule,
        config: StorageWriterConfig,
        *,
        on_flushed: Callable[[], None],
        on_progress: Callable[[], None] | None,
        makes_objects: bool = False,
    ) -> None:
        self._flusher = flusher
        self._schedule = schedule
        self._config = config
        self._on_flushed = on_flushed
        self._on_progress = on_progress
        self._makes_objects = makes_objects
        self._progress_scheduled = False
        self._wake = asyncio.Event()
        self._active = {False: 0, True: 0}
        """Flushes that run, of segments that are no suspects and of suspects."""
        self._begun: dict[SegmentAggregator, float] = {}
        """When they began, oldest first; only of those that may turn out to be slow."""
        self._failures_unreported = 0
        self._next_warning_at = 0.0
        self.flushes = 0
        self.failures = 0
        self.retries = 0

    @property
    def active_count(self) -> int:
        return sum(self._active.values())

    def wake(self) -> None:
        """Something may be due."""
        self._wake.set()

    def check(self) -> None:
        """Assert that slots are counted right."""
        assert all(count >= 0 for count in self._active.values())
        assert all(found.busy and not found.suspect for found in self._begun)

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Start flushes in ``tasks`` as they become due, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            now = loop.time()
            self._schedule.advance(now + _EARLY_S)
            self._find_slow(now + _EARLY_S)
            for suspect in (False, True):
                self._start_flushes(tasks, now, suspect=suspect)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._wake_at()):
                    await self._wake.wait()

    def _wake_at(self) -> float | None:
        """Return when the next segment is due or the oldest flush slow; None if neither will be."""
        at = self._schedule.wake_at()
        if self._begun and self._has_slot(suspect=True):  # else the end of a flush wakes the loop
            at = min(at, next(iter(self._begun.values())) + self._config.slow_flush_s)
        return None if at == inf else at

    def _start_flushes(self, tasks: asyncio.TaskGroup, now: float, *, suspect: bool) -> None:
        while self._has_slot(suspect=suspect):
            aggregator = self._schedule.next_due(suspect=suspect)
            if aggregator is None:
                return
            aggregator.take_turn(TurnEvent.BEGIN)
            self._active[aggregator.suspect] += 1
            if not aggregator.suspect:
                self._begun[aggregator] = now
            tasks.create_task(self._flush(aggregator, now))

    async def _flush(self, aggregator: SegmentAggregator, began: float) -> None:
        """Work on one segment until what was queued at the start is stored or it has to wait."""
        self.flushes += 1
        self.retries += aggregator.failures > 0
        leaves_tail = self._makes_objects and self._schedule.is_due_by_size_alone(aggregator, began)
        aggregator.urgent = False
        error: HeadraceError | None = None
        try:
            last = aggregator.queue[-1].sequence if aggregator.queue else -1
            await self._perform_steps(aggregator, last, leaves_tail=leaves_tail)
        except FATAL:
            raise
        except HeadraceError as failure:
            error = failure
        finally:
            self._begun.pop(aggregator, None)
            self._active[aggregator.suspect] -= 1
            aggregator.take_turn(TurnEvent.END)
        now = asyncio.get_running_loop().time()
        aggregator.suspect = error is not None or now - began >= self._config.slow_flush_s
        if error is not None:
            self._back_off(aggregator, error, now)
        elif not aggregator.waiting:
            aggregator.since = began  # what waits now came after that
        self._end_flush(aggregator, now)

    async def _perform_steps(self, aggregator: SegmentAggregator, last: int, *, leaves_tail: bool) -> None:
        """Perform the steps for what is queued up to sequence number ``last``.

        With ``leaves_tail`` only as long as more than ``flush_bytes`` wait.
        """
        loop = asyncio.get_running_loop()
        budget = LoopBudget(_STEPS_AT_ONCE)
        while aggregator.queue and aggregator.queue[0].sequence <= last:
            if await budget.spend():  # merges that storage has had for long are finished without waiting
                continue  # whatever happened meanwhile counts
            is_gone = aggregator.segment.deleted or aggregator.deleting
            if is_gone and not isinstance(aggregator.queue[0], PendingDelete):
                # All that is left to do is its deletion, which follows. A step could make no progress,
                # its bytes having left the cache, and would be planned again and again; and its sources may
                # be gone already.
                aggregator.take_turn(TurnEvent.WAIT)
                return
            if (unknown := next_to_adopt(aggregator)) is not None:
                await self._flusher.adopt(unknown)
                continue
            step = plan_step(aggregator, write_bytes_max=self._config.write_bytes_max)
            if step is None:
                return
            if isinstance(step, WaitStep):
                self._wait_for(aggregator, step.source, loop.time())
                return
            try:
                await self._flusher.perform(aggregator, step)
            finally:  # also after a failure: a source may have been deleted while the step had it
                self._settle([*sources_of(step), *self._flusher.take_deleted_sources()], loop.time())
            aggregator.failures = 0
            self._report_progress(loop)
            if leaves_tail and aggregator.pending_bytes < self._config.flush_bytes:
                return

    def _settle(self, sources: list[SegmentAggregator], now: float) -> None:
        for source in sources:
            self._schedule.settle(source, now)

    def _find_slow(self, now: float) -> None:
        """Move flushes that take long to the slots of suspects, as long as one of these is free."""
        while self._begun and self._has_slot(suspect=True):
            aggregator, began = next(iter(self._begun.items()))
            if began + self._config.slow_flush_s > now:
                return
            del self._begun[aggregator]
            self._active[False] -= 1
            self._active[True] += 1
            aggregator.suspect = True

    def _has_slot(self, *, suspect: bool) -> bool:
        return self._active[suspect] < self._config.flushes_max

    def _wait_for(self, target: SegmentAggregator, source: SegmentAggregator, now: float) -> None:
        """The merge at the head needs its source in storage first: make the source due."""
        target.take_turn(TurnEvent.WAIT)
        source.waiter = target
        source.urgent = True
        self._schedule.update(source, now)

    def _back_off(self, aggregator: SegmentAggregator, error: HeadraceError, now: float) -> None:
        """Note a failure, learn from storage what happened, try later. Raises: DataCorruptionError."""
        config = self._config
        self.failures += 1
        pause = min(config.retry_max_s, config.retry_initial_s * 2 ** min(aggregator.failures, 30))
        aggregator.failures += 1
        aggregator.not_before = now + pause
        aggregator.urgent = True  # it was due, for whatever reason
        self._log_failure(aggregator, error, now)
        self._flusher.adopt_nowait(aggregator)

    def _log_failure(self, aggregator: SegmentAggregator, error: HeadraceError, now: float) -> None:
        """Say so, but not for each of ten thousand segments when storage is away as a whole."""
        if now < self._next_warning_at:
            self._failures_unreported += 1
            return
        _logger.warning(
            "segment %s: storing failed %d times, next attempt in %.1f s (and %d failures before this): %s",
            aggregator.segment.name,
            aggregator.failures,
            aggregator.not_before - now,
            self._failures_unreported,
            error,
        )
        self._next_warning_at = now + _WARNING_INTERVAL_S
        self._failures_unreported = 0

    def _end_flush(self, aggregator: SegmentAggregator, now: float) -> None:
        target, aggregator.waiter = aggregator.waiter, None
        if target is not None:
            target.take_turn(TurnEvent.RESUME)
            target.urgent = True  # it was due before it had to wait
            self._schedule.settle(target, now)
        self._schedule.settle(aggregator, now)
        self._wake.set()
        self._on_flushed()

    def _report_progress(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._on_progress is not None and not self._progress_scheduled:
            self._progress_scheduled = True
            loop.call_soon(self._call_on_progress)

    def _call_on_progress(self) -> None:
        self._progress_scheduled = False
        if self._on_progress is not None:
            self._on_progress()
