"""Moves durable operations into long-term storage, and has the log truncated behind them.

Three loops share the state of one container's segments, all on its event loop: :mod:`.intake` takes
operations from the memory log and queues them by segment, :mod:`.flushing` works on the segments that are
due, several at a time, and :mod:`.log_truncation` decides how far the log may be truncated. Nothing here is
durable: recovery reads the log again, and what storage has already is recognised by its lengths.

A segment whose flush fails is retried after growing pauses while other segments go on; the log gets longer.
Being fenced out and corruption end the writer, and with it the container.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from headrace.errors import ContainerOfflineError, HeadraceError
from headrace.limits import INT64_MAX
from headrace.segmentstore.contract import MemoryLog, ReadIndex
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.flushing import FATAL, Flushing
from headrace.segmentstore.storagewriter.intake import Intake
from headrace.segmentstore.storagewriter.log_truncation import Acknowledgements, LogTruncation
from headrace.segmentstore.storagewriter.segment_flusher import SegmentFlusher
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage

_logger = logging.getLogger(__name__)

_OBJECTS_AT_ONCE: Final = 1000
"""Objects deleted by one call; one that deletes fewer has come to the end of what is due."""

_BACKLOG_SHARE: Final = 0.4
"""From this share of what may be unstored on, segments are flushed whatever their age, which may be long in a
store of objects: appends slow down at half of it.
"""


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


def _never() -> bool:
    return False


class StorageWriter:
    """The storage writer of one container: it works while ``run`` does, on the container's loop.

    Args:
        memory_log: durable operations in order; this is its only consumer.
        read_index: has the bytes until they are stored.
        storage: where they go.
        acknowledge: called with a checkpoint's sequence number once every operation before it is stored.
        config: when and how much.
        on_progress: called after bytes were stored, which frees memory of the cache.
        unstored_bytes_max: with so many unstored bytes the container accepts nothing.
        is_awaited: whether appends wait until something is stored.
    """

    def __init__(
        self,
        memory_log: MemoryLog,
        read_index: ReadIndex,
        storage: ChunkedSegmentStorage,
        acknowledge: Callable[[int], Awaitable[None]],
        config: StorageWriterConfig | None = None,
        on_progress: Callable[[], None] | None = None,
        unstored_bytes_max: int = INT64_MAX,
        is_awaited: Callable[[], bool] = _never,
    ) -> None:
        config = config or StorageWriterConfig()
        makes_objects, own_age_s, backlog_bytes = not storage.supports_append, None, INT64_MAX
        if makes_objects:
            backlog_bytes = int(_BACKLOG_SHARE * unstored_bytes_max)
            config, own_age_s = config.for_objects(), config.own_object_age_s
        self._storage = storage
        self._memory_log = memory_log
        self._config = config
        self._flusher = SegmentFlusher(storage, read_index)
        self._acknowledgements = Acknowledgements()
        self._schedule = FlushSchedule(config, self._flusher.make_aggregator, own_age_s=own_age_s)
        self._truncation = LogTruncation(
            acknowledge,
            self._schedule,
            self._acknowledgements,
            config,
            on_pressed=self._wake_flushing,
            on_looked=self._wake_flush_waiters,
        )
        self._flushing = Flushing(
            self._flusher,
            self._schedule,
            config,
            on_flushed=self._truncation.on_progress,
            on_progress=on_progress,
            makes_objects=makes_objects,
        )
        self._intake = Intake(
            memory_log,
            read_index,
            self._schedule,
            self._acknowledgements,
            config,
            backlog_bytes=backlog_bytes,
            is_awaited=is_awaited if makes_objects else _never,
            on_taken=self._on_taken,
        )
        self._flush_waiters: list[asyncio.Future[None]] = []
        self._running: asyncio.Task[None] | None = None
        self._ended = False

    async def run(self) -> None:
        """Work until cancelled or ``end``.

        Raises:
            FencedOutError: a newer owner has the container.
            CorruptionError: log, storage and memory contradict each other.
        """
        assert self._running is None
        self._running = asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._intake.run())
                tasks.create_task(self._flushing.run(tasks))
                tasks.create_task(self._truncation.run())
                tasks.create_task(self._collect_garbage())
        except BaseExceptionGroup as group:
            raise _worst_of(group) from None
        finally:
            self._ended = True
            for waiter in self._flush_waiters:
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
        self._schedule.force(asyncio.get_running_loop().time())
        self._flushing.wake()
        self._truncation.force()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flush_waiters.append(waiter)
        self._wake_flush_waiters()
        try:
            await waiter
        finally:
            self._flush_waiters.remove(waiter)
            self._schedule.forced = bool(self._flush_waiters)

    async def end(self) -> None:
        """End ``run`` now. What is unstored is recovered from the log."""
        if self._running is None:
            self._ended = True
            return
        self._running.cancel()
        await asyncio.wait([self._running])

    def statistics(self) -> StorageWriterStatistics:
        """Look at every segment that owes something."""
        aggregators = self._schedule.all()
        oldest = min((found.since for found in aggregators if found.queue), default=None)
        now = asyncio.get_running_loop().time()
        return StorageWriterStatistics(
            operations_taken=self._intake.operations_taken,
            taken_sequence=self._acknowledgements.taken,
            acknowledged_sequence=self._acknowledgements.acknowledged,
            operations_queued=sum(len(found.queue) for found in aggregators),
            bytes_queued=self._schedule.totals.size_bytes,
            oldest_age_s=0.0 if oldest is None else now - oldest,
            segments_pending=len(self._schedule),
            segments_due=self._schedule.due_count,
            segments_failing=sum(found.failures > 0 for found in aggregators),
            segments_suspect=sum(found.suspect for found in aggregators),
            flushes_active=self._flushing.active_count,
            flushes=self._flushing.flushes,
            flush_failures=self._flushing.failures,
            retries=self._flushing.retries,
            reconciliations=self._flusher.reconciliations,
            bytes_compared=self._flusher.bytes_compared,
            bytes_written=self._flusher.bytes_written,
            merges_absorbed=self._flusher.merges_absorbed,
            merges_joined=self._flusher.merges_joined,
        )

    def check(self) -> None:
        """Assert the invariants of every segment's queue and of the acknowledgements."""
        self._acknowledgements.check()
        self._schedule.check()
        self._flushing.check()

    # ---------------------------------------------------------------------------------- between the loops

    def _on_taken(self) -> None:
        self._flushing.wake()
        self._truncation.on_progress()
        self._wake_flush_waiters()

    def _wake_flushing(self) -> None:
        self._flushing.wake()

    def _wake_flush_waiters(self) -> None:
        """Wake callers that wait for everything to be stored, if it is."""
        if not self._flush_waiters or self._intake.is_queueing:
            return
        if len(self._schedule) or len(self._memory_log):
            return  # what is stored may have appended to tables of the container
        if self._truncation.acknowledgeable() is not None:
            return
        for waiter in self._flush_waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ---------------------------------------------------------------------------------- garbage

    async def _collect_garbage(self) -> None:
        """Delete garbage; once, look for orphans of former owners."""
        looked_for_orphans = False
        while True:
            await asyncio.sleep(self._config.garbage_interval_s)
            try:
                while await self._storage.garbage.collect(_OBJECTS_AT_ONCE) >= _OBJECTS_AT_ONCE:
                    pass  # there may be more: segments can be deleted faster than so many an interval
                if not looked_for_orphans:
                    await self._storage.garbage.collect_orphans()
                    looked_for_orphans = True
            except FATAL:
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
    return next((leaf for leaf in leaves if isinstance(leaf, FATAL)), leaves[0])
