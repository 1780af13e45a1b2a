"""The log, the cache and the storage of one container: they start together, by recovery, and end together.

::

    log recovered -> all that is not stored is in memory -> storage -> storage writer -> online

The first of them that fails ends the others and the container with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headrace.errors import CorruptionError, DataCorruptionError, HeadraceError, WalWriteError
from headrace.runtime.loop_budget import LoopBudget
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.container.archived_chunks import ArchivedChunks
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.departures import Departures
from headrace.segmentstore.container.late_storage import LateStorage
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.storage_row_log import LogRowStore
from headrace.segmentstore.container.stored_lengths import StoredLengths
from headrace.segmentstore.container.tenure import Tenure, describe_failure
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.storage_writer import StorageWriter
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage

_logger = logging.getLogger(__name__)


class ContainerTiers:
    """Where the bytes of one container are, from the first moment to the last.

    Args:
        state: what the container knows; recovery fills it.
        catalogue: loses the rows of segments that are gone. It is used only once the container is online.
        on_log_cut: is called each time that the log may have become shorter.
        on_ended: is told why, once, if a failure ends the tenure.
    """

    def __init__(
        self,
        state: ContainerState,
        catalogue: SegmentCatalogue,
        components: ContainerComponents,
        config: ContainerConfig,
        *,
        on_log_cut: Callable[[], None],
        on_ended: Callable[[BaseException], None],
    ) -> None:
        self._state = state
        self._catalogue = catalogue
        self._components = components
        self._config = config
        self._on_log_cut = on_log_cut
        self._on_ended = on_ended
        self.tenure = Tenure(state.container_id, components.wal, catalogue.name)
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
                departures_max=config.checkpoint_departures,
            ),
            checkpoint_part_bytes=config.checkpoint_part_bytes,
            replay_operations=config.replay_operations,
            on_failed=self._end,
        )
        self._departures = Departures(state, self.log, catalogue, config.storage_writer)
        self._verdict: asyncio.Task[None] | None = None
        """Under way if what ended the tenure looks like damage."""
        self.storage: ChunkedSegmentStorage | None = None
        self.writer: StorageWriter | None = None

    # -------------------------------------------------------------------------------------- start

    async def start(self) -> None:
        """Take ownership of the log, recover, start moving data to storage; online when it returns.

        Raises as :meth:`SegmentContainer.start`, but nobody has judged its errors.
        """
        components, state = self._components, self._state
        await self.log.start(StoredLengths(state, self.read_index).on_rows, self._replay_turn())
        await self._check_recovered()
        rows = LogRowStore(state, self.log.processor)
        self.storage = ChunkedSegmentStorage(
            components.chunks,
            rows,
            state.epoch,
            components.entropy,
            self._config.storage,
            ArchivedChunks(self._catalogue, state),
        )
        self._late_storage.target = self.storage
        self.writer = StorageWriter(
            self.log.memory_log,
            self.read_index,
            self.storage,
            self._on_stored,
            self._config.storage_writer,
            on_progress=self._on_storage_progress,
        )
        self.supervisor.spawn("storage writer", self.writer.run())
        self.supervisor.spawn("departures", self._departures.run())
        self.tenure.begin()

    @asynccontextmanager
    async def _replay_turn(self) -> AsyncIterator[None]:
        """Replay while no other container of the process does, and give back at once what a failure leaves.

        Replay takes what room there is, and ends or fails. Of two that do not fit beside half of each other
        both would fail, as often as they try. So the next one begins when this one has all its bytes in the
        cache, or none.
        """
        async with self._components.cache.replay_turn:
            try:
                yield
            except BaseException:
                self.read_index.close()
                await self.read_index.wait_freed()
                raise

    async def _check_recovered(self) -> None:
        """Every byte that is durable and not stored must be in memory after recovery.

        Others run in between, as while the log was replayed.

        Raises:
            ClosedError: somebody ended the log meanwhile, and with it what is in memory.
            DataCorruptionError: the log was cut although storage did not hold what it held.
        """
        budget = LoopBudget(self._config.replay_operations)
        for segment in list(self._state.by_id.values()):
            if await budget.spend():
                self.log.check_not_ended()
            if segment.deleted or segment.merged:
                self._departures.recover(segment)
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
        self._departures.on_log_cut()
        self._on_log_cut()

    def _on_storage_progress(self) -> None:
        self.log.processor.on_memory_freed()
        self._departures.on_progress()

    async def flush_storage(self) -> None:
        """Bring everything into long-term storage now, so that the log can be cut."""
        if self.writer is not None:
            await self.writer.flush_all()

    def stored_length(self, segment: SegmentState) -> int:
        """Return how many bytes storage has of a segment whose rows are in memory."""
        assert self.storage is not None
        info = self.storage.info(segment.storage_name)
        return 0 if info is None else info.length

    def is_storage_idle(self, segment: SegmentState) -> bool:
        """Whether storage changes nothing of a segment just now."""
        return self.storage is None or self.storage.is_idle(segment.storage_name)

    def on_evicted(self, segment: SegmentState) -> None:
        """Drop what is known about a segment that left memory."""
        if self.storage is not None:
            self.storage.forget(segment.storage_name)
        self.read_index.drop(segment)

    # -------------------------------------------------------------------------------------- end

    async def finish(self) -> None:
        """Begin to stop: what was accepted becomes durable, what waits is told, and within a bounded time
        storage takes over what the log holds. :meth:`stop` has to follow.
        """
        was_online = self.tenure.leave()
        self.log.end_intake()
        self.log.stop_waiting()
        await self.log.flush()
        if was_online:
            await self._leave_short_log()
        if self.writer is not None:
            await self.writer.end()

    async def stop(self) -> None:
        """End all background work; nobody is served any more. The log is closed whatever goes wrong."""
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
            if self._verdict is not None:  # it asks the log
                await asyncio.wait([self._verdict])
        finally:
            self.tenure.close()
            await self.log.stop()

    async def _leave_short_log(self) -> None:
        """Store everything, write a checkpoint, cut the log in front of it: the next start reads only that.

        Requests are refused already; only the container itself still changes its catalogue.
        """
        writer, log = self.writer, self.log
        if writer is None or log.is_cut:
            return
        try:
            async with self.tenure.finishing(self._config.storage_writer.stop_flush_s):
                if await self._components.wal.is_fenced():
                    return
                await writer.flush_all()
                if await self._departures.forget():
                    await writer.flush_all()
                await log.begin_file()
                await log.write_new_checkpoint()
                await writer.flush_all()
        except (TimeoutError, HeadraceError) as error:
            why = str(error) or "storage is too slow"
            _logger.info("container %d leaves work for its next start: %s", self._state.container_id, why)
        except Exception:  # a bug of ours: the log has everything
            _logger.exception("container %d leaves work for its next start", self._state.container_id)

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        if self.tenure.ended:
            return  # a consequence of what ended the container, which has been reported
        self._end(error, name)
        self.log.fail(error if isinstance(error, HeadraceError) else WalWriteError(describe_failure(error)))

    def _end(self, error: BaseException, part: str = "") -> None:
        """Some part failed: the whole container ends, and is recovered by its owner, the registry, which is
        told once it is known why.
        """
        if not self.tenure.end():
            return
        self.read_index.close()
        if isinstance(error, CorruptionError):
            self._verdict = asyncio.ensure_future(self._judge(error, part))
        else:
            self._report(error, part)

    async def _judge(self, error: BaseException, part: str) -> None:
        try:
            error = await self.tenure.judge(error)
        finally:
            self._report(error, part)

    def _report(self, error: BaseException, part: str) -> None:
        if part:
            why = describe_failure(error)
            _logger.error("container %d: %s failed: %s", self._state.container_id, part, why)
        self._on_ended(error)
