"""The log, the cache and the storage of one container: they start together, by recovery, and end together.

::

    log recovered -> all unstored bytes are in memory -> storage -> storage writer -> online

The first of them that fails ends the others and the container.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from headrace.errors import (
    CorruptionError,
    DataCorruptionError,
    FencedOutError,
    HeadraceError,
    WalWriteError,
)
from headrace.runtime.loop_budget import LoopBudget
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.attributes.attribute_values import AttributeValues
from headrace.segmentstore.attributes.index_writer import IndexWriter
from headrace.segmentstore.attributes.segment_indexes import SegmentIndexes
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.inactive_chunks import InactiveChunks
from headrace.segmentstore.container.late_storage import LateStorage
from headrace.segmentstore.container.ownership_term import OwnershipTerm, describe_failure
from headrace.segmentstore.container.purge import Purge
from headrace.segmentstore.container.retired_segments import RetiredSegments
from headrace.segmentstore.container.rows.container_rows import ContainerRows
from headrace.segmentstore.container.rows.moved_rows import move_rows
from headrace.segmentstore.container.rows.storage_row_log import LogRowStore
from headrace.segmentstore.container.rows.stored_lengths import StoredLengths
from headrace.segmentstore.container.rows.stored_names import StoredNames
from headrace.segmentstore.container.rows.table_rows import TableRowStore
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.segment_names import storage_table_name
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.storage_writer import StorageWriter
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.storage.checkpoints.storage_checkpoints import StorageCheckpoints
from headrace.storage.chunks.optimiser import StorageOptimiser
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage

_logger = logging.getLogger(__name__)


class ContainerTiers:
    """The parts of one container that have its bytes, from start to end.

    Args:
        state: the container's state; recovery fills it.
        indexes: attribute indexes of the segments.
        catalogue: rows of retired segments are removed from it. Used only once the container is online.
        tables: the table of storage's rows is one of them.
        on_log_truncated: called each time that the log may have become shorter.
        on_ended: notified of the reason, once, if a failure ends the ownership term.
    """

    def __init__(
        self,
        state: ContainerState,
        catalogue: SegmentCatalogue,
        tables: ContainerTables,
        indexes: SegmentIndexes,
        components: ContainerComponents,
        config: ContainerConfig,
        *,
        on_log_truncated: Callable[[], None],
        on_ended: Callable[[BaseException], None],
    ) -> None:
        self._state = state
        self._catalogue = catalogue
        self._components = components
        self._config = config
        self._on_log_truncated = on_log_truncated
        self._on_ended = on_ended
        self.term = OwnershipTerm(state.container_id, components.wal)
        self.supervisor = Supervisor(f"container {state.container_id}", self._on_task_failed)
        self._late_storage = LateStorage()
        self.read_index = ContainerReadIndex(
            components.cache, self._late_storage, self.supervisor, config.read_index
        )
        self.log = DurableLog(
            state,
            components.wal,
            self.read_index,
            components.clock,
            self.supervisor,
            memory_log_max=config.memory_log_max,
            limits=ProcessorLimits(config.requests_max, config.unstored_bytes_max, config.throttle),
            policy=CheckpointPolicy(
                config.checkpoint_frames,
                config.checkpoint_bytes,
                retired_max=config.checkpoint_departures,
            ),
            checkpoint_part_bytes=config.checkpoint_part_bytes,
            replay_operations=config.replay_operations,
            on_failed=self._end,
        )
        self._indexes = indexes
        self.index_writer = IndexWriter(state, indexes, config.attributes)
        self.attribute_values = AttributeValues(indexes, config.attributes, self.index_writer.on_grown)
        self._retired_segments = RetiredSegments(state, self.log, catalogue, indexes, config.storage_writer)
        self._verdict: asyncio.Task[None] | None = None
        """Judges the error that ended the ownership term, if it looks like damage."""
        self.table_rows = TableRowStore(
            tables,
            storage_table_name(state.container_id),
            self.supervisor.spawn,
            config.storage_row_cache_bytes,
        )
        self.storage: ChunkedSegmentStorage | None = None
        self.writer: StorageWriter | None = None
        self.checkpoints: StorageCheckpoints | None = None
        self._stored_names = StoredNames(state, tables, self.table_rows.name)
        self.optimiser: StorageOptimiser | None = None
        self.purge: Purge | None = None
        self._optimising: asyncio.Task[None] | None = None

    # -------------------------------------------------------------------------------------- start

    async def recover(self) -> None:
        """Take ownership of the log and recover; then the container uses its own segments.

        Raises as :meth:`SegmentContainer.start`, but its errors are not judged.
        """
        state = self._state
        stored = StoredLengths(state, self.read_index)
        await self.log.start(stored.on_rows, self._exclusive_replay(), stored.on_append)
        self.term.prepare()

    async def start(self, table: SegmentState) -> None:
        """Start storage, whose rows are in ``table``, and the storage writer; online when it returns.

        Raises as :meth:`recover`.
        """
        components, state = self._components, self._state
        self.table_rows.open(table)
        log_rows = LogRowStore(state, self.log.processor)
        self.storage = ChunkedSegmentStorage(
            components.chunks,
            ContainerRows(log_rows, self.table_rows),
            state.epoch,
            components.entropy,
            self._config.storage,
            InactiveChunks(self._catalogue, state),
            container=state.container_id,
        )
        self._late_storage.target = self.storage
        if components.system is not None:
            self.checkpoints = self._make_checkpoints(self.storage, components.system)
            self.term.find_successor = self.checkpoints.find_successor
            await self.checkpoints.start()
        await move_rows(state, log_rows, self.table_rows)
        await self._check_recovered()
        self.writer = StorageWriter(
            self.log.memory_log,
            self.read_index,
            self.storage,
            self._on_stored,
            self._config.storage_writer,
            on_progress=self._on_storage_progress,
            unstored_bytes_max=self._config.unstored_bytes_max,
            is_awaited=self._awaits_storage,
        )
        self.purge = Purge(components.wal, self.log, self.writer, self.storage, self.checkpoints)
        self.supervisor.spawn("storage writer", self.writer.run())
        self.supervisor.spawn("attribute indexes", self.index_writer.run())
        self.supervisor.spawn("departures", self._retired_segments.run())
        if self.checkpoints is not None:
            self.supervisor.spawn("storage checkpoints", self.checkpoints.run())
            self.supervisor.spawn("successors", self.checkpoints.watch())
        age_s = self._config.checkpoint_interval_s
        self.supervisor.spawn("aged checkpoints", self.log.write_aged_checkpoints(age_s))
        if self._optimises:
            names = self._stored_names.next_round
            switch = components.optimiser_switch
            self.optimiser = StorageOptimiser(self.storage, names, self._config.optimiser, switch)
            self._optimising = self.supervisor.spawn("storage optimiser", self.optimiser.run())
        self.term.begin()

    @property
    def _optimises(self) -> bool:
        mode = self._config.optimiser.mode
        return mode == "on" or (mode == "auto" and not self._components.chunks.supports_append)

    def _make_checkpoints(self, storage: ChunkedSegmentStorage, system: SystemFacts) -> StorageCheckpoints:
        config = self._config.storage_checkpoints
        container_id, clock = self._state.container_id, self._components.clock
        store = CheckpointStore(self._components.chunks, container_id, config.timeout_s, config.part_bytes)
        return StorageCheckpoints(container_id, self.log, storage, store, system, clock, config)

    @asynccontextmanager
    async def _exclusive_replay(self) -> AsyncIterator[None]:
        """Replay while no other container of the process does; release the cache at once after a failure.

        A replay may need all of the cache. Of two that do not fit together both could fail, on every retry.
        So the next one begins when this one has all its bytes in the cache, or none.
        """
        async with self._components.cache.replay_lock:
            try:
                yield
            except BaseException:
                self.read_index.close()
                await self.read_index.wait_freed()
                raise

    async def _check_recovered(self) -> None:
        """Check that every unstored byte is in memory after recovery. Yields to the loop, as the replay.

        Raises:
            ClosedError: the log was ended meanwhile, and its cache released.
            DataCorruptionError: the log was truncated although its bytes were not stored.
        """
        budget = LoopBudget(self._config.replay_operations)
        for segment in list(self._state.by_id.values()):
            if await budget.spend():
                self.log.check_not_ended()
            if segment.deleted or segment.merged:
                self._retired_segments.recover(segment)
                continue
            missing = self.read_index.first_uncovered(segment)
            if missing is not None:
                raise DataCorruptionError(
                    f"segment {segment.name!r}: offset {missing} is neither in the log nor in storage"
                )

    # -------------------------------------------------------------------------------------- storage

    async def _on_stored(self, sequence: int) -> None:
        """The storage writer has stored everything up to ``sequence``."""
        await self.log.acknowledge(sequence)
        self._retired_segments.on_log_truncated()
        if self.checkpoints is not None:
            self.checkpoints.on_log_truncated()
        self._on_log_truncated()

    def _awaits_storage(self) -> bool:
        return self.log.processor.waits_for_storage

    def _on_storage_progress(self) -> None:
        self.log.processor.on_memory_freed()
        self._retired_segments.on_progress()

    async def judge_read(self, error: CorruptionError) -> BaseException:
        """Return the error to report for a read of storage; a container that was fenced ends."""
        judged = await self.term.judge(error)
        if isinstance(judged, FencedOutError):
            self.log.fail(judged)
        else:
            self.term.check_online()  # after the end an error proves nothing
        return judged

    async def flush_storage(self) -> None:
        """Store all unstored bytes now, so that the log can be truncated."""
        if self.writer is not None:
            await self.writer.flush_all()

    async def stored_length(self, segment: SegmentState) -> int:
        """Return the stored length of a segment, as storage knows it. Raises: StorageReadError."""
        assert self.storage is not None
        info = await self.storage.info(segment.storage_name)
        return 0 if info is None else info.length

    async def take_rows(self, rows: Mapping[str, bytes]) -> None:
        """Commit the rows of an inactive segment that an earlier release put elsewhere."""
        await self.table_rows.commit(rows)

    def is_storage_idle(self, segment: SegmentState) -> bool:
        """Whether storage is not changing a segment now."""
        return self.storage is None or (
            self.storage.is_idle(segment.storage_name)
            and self.storage.is_idle(segment.index_storage_name)
            and self._indexes.is_idle(segment)
        )

    def on_evicted(self, segment: SegmentState) -> None:
        """Drop what storage and cache have in memory of an evicted segment."""
        if self.storage is not None:
            self.storage.forget(segment.storage_name)
            self.storage.forget(segment.index_storage_name)
        self._indexes.drop(segment)
        self.read_index.drop(segment)

    # -------------------------------------------------------------------------------------- end

    async def finish(self) -> None:
        """Begin to stop: what was accepted becomes durable, what waits is notified, and within a bounded time
        unstored bytes are stored. :meth:`stop` has to follow.
        """
        was_online = self.term.go_offline()
        if self._optimising is not None:
            self._optimising.cancel()
        self.log.end_intake()
        self.log.stop_waiting()
        if self._optimising is not None:  # what it has in flight does not wait for space any more
            await asyncio.wait([self._optimising])
        await self.log.flush()
        if was_online:
            await self._shorten_log()
        if self.writer is not None:
            await self.writer.end()

    async def stop(self) -> None:
        """End all background work and close the log, also after an error."""
        try:
            await self.log.flush()
        finally:
            try:
                await self.supervisor.stop()
            finally:
                self.read_index.close()
                try:
                    await self.read_index.wait_freed()
                finally:
                    await self._close_log()

    async def _close_log(self) -> None:
        try:
            if self._verdict is not None:  # it uses the log
                await asyncio.wait([self._verdict])
        finally:
            self.term.close()
            await self.log.stop()

    async def _shorten_log(self) -> None:
        """Store everything, write a checkpoint, truncate the log in front of it: all the next start reads.
        Then copy that log beside the chunks.

        Requests are refused already; only the container itself still changes its catalogue.
        """
        writer, log = self.writer, self.log
        if writer is None:
            return
        try:
            async with self.term.finishing(self._config.storage_writer.stop_flush_s):
                if await self._components.wal.is_fenced():
                    return
                if not log.is_truncated:
                    await writer.flush_all()
                    if await self._retired_segments.forget():
                        await writer.flush_all()
                    await log.separate()
                    await log.write_new_checkpoint()
                    await writer.flush_all()
                if self.checkpoints is not None:
                    await self.checkpoints.write_last()
        except (TimeoutError, HeadraceError) as error:
            why = str(error) or "storage is too slow"
            _logger.info("container %d leaves work for its next start: %s", self._state.container_id, why)
        except Exception:  # a bug: the log has everything
            _logger.exception("container %d leaves work for its next start", self._state.container_id)

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        if self.term.ended:
            return  # a consequence of what ended the container, which has been reported
        self._end(error, name)
        self.log.fail(error if isinstance(error, HeadraceError) else WalWriteError(describe_failure(error)))

    def _end(self, error: BaseException, part: str = "") -> None:
        """A part failed: the whole container ends. The registry, which recovers it, is notified once the
        reason is known.
        """
        if not self.term.end():
            return
        self.read_index.close()
        if isinstance(error, CorruptionError):
            self._verdict = asyncio.ensure_future(self._judge(error, part))
        else:
            self._report(error, part)

    async def _judge(self, error: BaseException, part: str) -> None:
        try:
            error = await self.term.judge(error)
        finally:
            self._report(error, part)

    def _report(self, error: BaseException, part: str) -> None:
        if part:
            why = describe_failure(error)
            _logger.error("container %d: %s failed: %s", self._state.container_id, part, why)
        self._on_ended(error)
