"""Evicts idle segments: every minute, and at once when an active segment needs a slot.

::

    plan -> rows into the catalogue, durable -> EvictSegments for what is idle still, durable -> caches

A stop before the second step leaves rows of active segments, which have no meaning; after it, the segments
are activated by the next call that names them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from headrace.errors import (
    ContainerOfflineError,
    CorruptionError,
    HeadraceError,
    NoSuchSegmentError,
)
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.catalogue_row import ROW_BYTES_MAX, encode_row
from headrace.segmentstore.container.config import EvictionConfig
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.shared_tasks import SharedTasks
from headrace.segmentstore.container.tiers import ContainerTiers
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.state import eviction_plan as plan
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.tables import ContainerTables

_logger = logging.getLogger(__name__)

_MADE_AT_ONCE: Final = 4
"""Rows encoded before yielding to the loop: each takes up to 1 ms, with all its writers."""

_ATTRIBUTE_BYTES_MIN: Final = 10
"""Bytes of one attribute in a row, besides its id."""

_CHECKED_AT_ONCE: Final = 1000
"""Segments checked before yielding to the loop: each takes 1 to 2 us."""

_TASK: Final = "idle segments"
"""Name of the only task: periodic and forced evictions share it."""

_DELETED_AT_ONCE: Final = 100
"""Scratch segments whose deletions are in flight together."""


class Evictions:
    """The evictions of one container. At most one at a time, which all callers share."""

    def __init__(
        self,
        state: ContainerState,
        log: DurableLog,
        catalogue: SegmentCatalogue,
        tables: ContainerTables,
        tiers: ContainerTiers,
        delete: Callable[[SegmentState], Awaitable[None]],
        config: EvictionConfig,
        batch_bytes: int,
        row_bytes_max: int = ROW_BYTES_MAX,
    ) -> None:
        """``row_bytes_max``: bound of one operation of the log, if it is below that of a row."""
        self._state = state
        self._log = log
        self._catalogue = catalogue
        self._tables = tables
        self._tiers = tiers
        self._delete = delete
        self._config = config
        self._batch_bytes = batch_bytes
        self._row_bytes_max = min(ROW_BYTES_MAX, row_bytes_max)
        self._previous_sequence = 0
        self._tasks = SharedTasks[int](tiers.supervisor, "eviction of")
        self._log_truncated = asyncio.Event()
        self.started = 0
        self.forced = 0
        self.evicted = 0

    # -------------------------------------------------------------------------------------- when

    async def run(self) -> None:
        """Evict periodically, until cancelled."""
        while True:
            await asyncio.sleep(self._config.eviction_interval_s)
            try:
                await self.evict()
            except ContainerOfflineError:
                return
            except (
                HeadraceError
            ) as error:  # also a damaged catalogue: active segments are served all the same
                level = logging.ERROR if isinstance(error, CorruptionError) else logging.WARNING
                _logger.log(level, "evicting idle segments was postponed: %s", error)

    async def evict(self) -> int:
        """Evict what has been idle since the eviction before; join the current one, if there is one.

        Returns the number of evicted segments.
        """
        pressed = plan.is_under_pressure(len(self._state.by_name), self._state.active_max)
        return await self._tasks.join(_TASK, partial(self._evict_periodic, pressed=pressed))

    async def free_slots(self) -> bool:
        """Evict what is idle now, because no slot is free; return whether there may be one."""
        if _TASK in self._tasks:
            await self._tasks.join(_TASK, self._evict_forced)
        return not self._state.is_full or await self._tasks.join(_TASK, self._evict_forced) > 0

    # -------------------------------------------------------------------------------------- evictions

    async def _evict_periodic(self, *, pressed: bool) -> int:
        self.started += 1
        await self.delete_stale_transients()
        if pressed:
            return await self._evict_forced()
        previous, self._previous_sequence = self._previous_sequence, self._state.sequence
        cutoff = min(previous, self._log.truncated_sequence)
        return await self._evict_before(cutoff, self._config.eviction_batch)

    async def _evict_forced(self) -> int:
        """Evict what is idle now; truncate the log first if it has operations on too many of the segments."""
        self.forced += 1
        count = plan.count_to_evict(len(self._state.by_name), self._state.active_max)
        evicted = await self._evict_before(self._log.truncated_sequence, count)
        if evicted < count:
            await self._truncate_log()
            evicted += await self._evict_before(self._log.truncated_sequence, count - evicted)
        return evicted

    async def delete_stale_transients(self) -> None:
        """Delete scratch segments of connections to earlier owners."""
        stale: list[SegmentState] = []
        async for some in self._all_active():
            stale += plan.stale_transients(some, self._state.epoch)
        at_once = min(_DELETED_AT_ONCE, self._log.requests_max)
        for begin in range(0, len(stale), at_once):
            deletions = map(self._delete, stale[begin : begin + at_once])
            for outcome in await asyncio.gather(*deletions, return_exceptions=True):
                if isinstance(outcome, BaseException) and not isinstance(outcome, NoSuchSegmentError):
                    raise outcome

    async def _truncate_log(self) -> None:
        """Make the log as short as possible within ``eviction_cut_s``."""
        begin = await self._log.write_checkpoint()
        flushing = self._tiers.supervisor.spawn("flush for eviction", self._flush())
        try:
            async with asyncio.timeout(self._config.eviction_cut_s):
                while self._log.truncated_sequence < begin:
                    self._log_truncated.clear()
                    await self._log_truncated.wait()
        except TimeoutError:
            _logger.warning("container %d: storage is too slow to truncate the log", self._state.container_id)
        finally:
            flushing.cancel()

    async def _flush(self) -> None:
        try:
            await self._tiers.flush_storage()
        except HeadraceError as error:
            _logger.warning("flushing for eviction failed: %s", error)

    def on_log_truncated(self) -> None:
        self._log_truncated.set()

    async def _evict_before(self, cutoff: int, count_max: int) -> int:
        """Evict up to ``count_max`` segments last used before ``cutoff``; return how many were evicted.

        Segments whose rows are too large are skipped and not counted: they may be the least recently used
        ones for ever.
        """
        is_table_idle = self._tables.is_idle
        idle: list[SegmentState] = []
        async for some in self._all_active():
            idle += plan.find_idle(some, cutoff, is_table_idle)
        plan.sort_idle(idle)
        before = self.evicted
        batch: list[plan.Candidate] = []
        size = chosen = 0
        budget = LoopBudget(_MADE_AT_ONCE)
        for state in idle:
            if chosen >= count_max:
                break
            await budget.spend()
            if state.last_used >= cutoff or not plan.is_evictable(state, is_table_idle):
                continue
            if _ATTRIBUTE_BYTES_MIN * len(state.attributes.newer) > self._row_bytes_max:
                continue
            candidate = self._make_candidate(state)
            if len(candidate.row) > self._row_bytes_max:
                continue
            chosen += 1
            if (
                batch and size + len(candidate.row) > self._batch_bytes
            ):  # all rows together may be too large for the log
                await self._evict_batch(batch)
                batch, size = [], 0
            batch.append(candidate)
            size += candidate.size_bytes
        if batch:
            await self._evict_batch(batch)
        return self.evicted - before

    async def _all_active(self) -> AsyncIterator[Sequence[SegmentState]]:
        """Yield the segments that are active now, some in each iteration of the loop."""
        segments = list(self._state.by_name.values())
        budget = LoopBudget(_CHECKED_AT_ONCE)
        for begin in range(0, len(segments), _CHECKED_AT_ONCE):
            await budget.spend(_CHECKED_AT_ONCE)
            yield segments[begin : begin + _CHECKED_AT_ONCE]

    def _make_candidate(self, state: SegmentState) -> plan.Candidate:
        return plan.Candidate(state, state.last_used, encode_row(state))

    def _is_idle(self, candidate: plan.Candidate) -> bool:
        """Whether a segment is evictable now."""
        state = candidate.state
        return plan.is_evictable(state, self._tables.is_idle) and self._tiers.is_storage_idle(state)

    async def _evict_batch(self, batch: Sequence[plan.Candidate]) -> None:
        async with self._catalogue.changing:
            batch = [
                each for each in batch if each.state.last_used == each.last_used and not each.state.evicted
            ]
            await self._catalogue.put(
                [(each.state, each.row) for each in batch if each.state.catalogue_row != each.row]
            )
            propose = partial(transitions.propose_evict, candidates=batch, is_idle=self._is_idle)
            ticket = await self._log.submit(propose, 10 * len(batch), critical=True)
            gone = set(ticket.operation.segment_ids)
        for each in batch:
            if each.state.segment_id in gone:
                self._tiers.on_evicted(each.state)
                self._tables.on_evicted(each.state)
        self.evicted += len(gone)
