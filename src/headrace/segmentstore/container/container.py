"""The container: single owner of a share of all segments. Starts by recovery, ends at the first doubt.

Public calls run on the container's loop. Everything that changes a segment becomes an operation of the
durable log; everything that is read comes through the read index; the storage writer moves bytes on in the
background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.errors import (
    ContainerOfflineError,
    CorruptionError,
    DataCorruptionError,
    FencedOutError,
    HeadraceError,
    SegmentSealedError,
    WalWriteError,
)
from headrace.model import attributes as attr
from headrace.model.attributes import AttributeUpdate
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.container import transitions
from headrace.segmentstore.container.append_target import ContainerAppendTarget
from headrace.segmentstore.container.archived_chunks import ArchivedChunks
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container_state import ContainerState
from headrace.segmentstore.container.evictions import Evictions
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.segment_directory import SegmentDirectory
from headrace.segmentstore.container.segment_merges import SegmentMerges
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.container.storage_row_log import LogRowStore
from headrace.segmentstore.container.stored_lengths import LateStorage, StoredLengths
from headrace.segmentstore.contract import ReadResult, SegmentInfo, StoredDelete
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits, Propose
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Buffer
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.storagewriter.storage_writer import StorageWriter
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SegmentStatistics:
    """Gauges of now, and counts since the start."""

    active: int
    active_max: int
    departing: int
    catalogue_rows: int
    """Rows of the segment catalogue, those of active segments included; -1 while that is not known."""
    activations: int
    activations_failed: int
    activations_waiting: int
    eviction_runs: int
    eviction_runs_forced: int
    evicted: int


class SegmentContainer:
    """One container of one segment store process."""

    def __init__(
        self,
        container_id: int,
        components: ContainerComponents,
        config: ContainerConfig,
        on_failed: Callable[[SegmentContainer, BaseException], None],
    ) -> None:
        self.container_id = container_id
        self._components = components
        self._config = config
        self._report_failure = on_failed
        self._state = ContainerState(container_id)
        self._supervisor = Supervisor(f"container {container_id}", self._on_task_failed)
        self._late_storage = LateStorage()
        self._read_index = ContainerReadIndex(
            components.cache, self._late_storage, self._supervisor, config.read_index
        )
        self._log = DurableLog(
            self._state,
            components.wal,
            self._read_index,
            components.clock,
            self._supervisor,
            memory_log_max=config.memory_log_max,
            limits=ProcessorLimits(config.requests_max, config.unstored_bytes_max, config.throttle),
            policy=CheckpointPolicy(config.checkpoint_frames, config.checkpoint_bytes),
            checkpoint_part_bytes=config.checkpoint_part_bytes,
            on_failed=self._on_ended,
        )
        self._storage: ChunkedSegmentStorage | None = None
        self._writer: StorageWriter | None = None
        self._online = False
        self._finishing: asyncio.Timeout | None = None
        """Set while a stop moves what it can to storage: until when."""
        self._ended = False
        self.tables = ContainerTables(self, config.tables)
        self._catalogue = SegmentCatalogue(container_id, self.tables)
        self.evictions = Evictions(
            self._state,
            self._log,
            self._catalogue,
            self,
            self._supervisor,
            config.eviction,
            min(config.checkpoint_part_bytes, components.wal.frame_bytes_max // 2),
            components.wal.frame_bytes_max * components.wal.frames_free // 2,
        )
        self._directory = SegmentDirectory(
            self._state,
            self._log,
            self._catalogue,
            self._supervisor,
            self.evictions.make_room,
            self._stored_length,
        )
        self._merges = SegmentMerges(self._directory, self._log, self)

    # -------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Take ownership of the log, recover, start moving data to storage. Accepts requests when it returns.

        Raises:
            DataCorruptionError: the log or the storage metadata contradicts itself; nothing is served.
            FencedOutError: another owner took over meanwhile.
        """
        try:
            await self._start()
        except CorruptionError as error:
            judged = self._judge(error)
            if judged is error:
                raise
            raise judged from error

    async def _start(self) -> None:
        components, state = self._components, self._state
        await self._log.start(StoredLengths(state, self._read_index).on_rows)
        self._check_recovered()
        self._storage = ChunkedSegmentStorage(
            components.chunks,
            LogRowStore(state, self._log.processor),
            state.epoch,
            components.entropy,
            self._config.storage,
            ArchivedChunks(self._catalogue),
        )
        self._late_storage.target = self._storage
        self._writer = StorageWriter(
            self._log.memory_log,
            self._read_index,
            self._storage,
            self._on_stored,
            self._config.storage_writer,
            on_progress=self._log.processor.on_memory_freed,
        )
        self._supervisor.spawn("storage writer", self._writer.run())
        self._online = True
        await self._catalogue.open(self)
        await self.evictions.delete_stale_transients()
        self._state.active_max = self._config.eviction.active_segments_max
        self._supervisor.spawn("evictions", self.evictions.run())

    def _check_recovered(self) -> None:
        """Every byte that is durable and not stored must be in memory after recovery.

        Raises:
            DataCorruptionError: the log was cut although storage did not hold what it held.
        """
        for segment in list(self._state.by_id.values()):
            if segment.deleted or segment.merged:
                self._recover_departed(segment)
                continue
            missing = self._read_index.first_uncovered(segment)
            if missing is not None:
                raise DataCorruptionError(
                    f"segment {segment.name!r}: offset {missing} is neither in the log nor in storage"
                )

    def _recover_departed(self, segment: SegmentState) -> None:
        """A merged or deleted segment was recovered: storage lets go of it, if it has not done so before."""
        if segment.segment_id not in self._log.departed_in_log:
            if segment.merged:
                # The log was cut behind the merge, so storage has completed it.
                self._state.forget(segment)
                return
            self._log.memory_log.add(StoredDelete(self._state.next_sequence(), segment))

    async def _on_stored(self, sequence: int) -> None:
        """The storage writer has stored everything up to ``sequence``."""
        await self._forget_departed()
        await self._log.acknowledge(sequence)
        self.evictions.on_log_cut()

    async def _forget_departed(self) -> bool:
        """Forget segments of which storage holds nothing any more; say whether there were any.

        Their rows go first: a row without a segment in memory would be taken for one that was evicted. All
        this comes before the log is cut, so that a stop in between meets them again.
        """
        gone = [state for state in self._state.departing if state.stored_deleted]
        if not gone:
            return False
        async with self._catalogue.changing:
            await self._catalogue.remove(gone)
        for segment in gone:
            self._state.forget(segment)
        return True

    def _stored_length(self, segment: SegmentState) -> int:
        assert self._storage is not None
        info = self._storage.info(segment.storage_name)
        return 0 if info is None else info.length

    # -------------------------------------------------------------------------------------- for evictions

    def is_table_idle(self, segment: SegmentState) -> bool:
        return self.tables.is_idle(segment)

    def is_storage_idle(self, segment: SegmentState) -> bool:
        return self._storage is None or self._storage.is_idle(segment.storage_name)

    def on_evicted(self, segment: SegmentState) -> None:
        if self._storage is not None:
            self._storage.forget(segment.storage_name)
        self._read_index.drop(segment)
        self.tables.on_evicted(segment)

    async def flush_storage(self) -> None:
        if self._writer is not None:
            await self._writer.flush_all()

    # -------------------------------------------------------------------------------------- end

    async def stop(self) -> None:
        """Stop orderly: what was accepted becomes durable, what waits is told, and within a bounded time
        storage takes over what the log holds. A crash only takes longer to recover.
        """
        finish = self._online
        self._online = False
        self._log.end_intake()
        self._log.stop_waiting()
        await self._log.flush()
        if finish:
            await self._leave_short_log()
        if self._writer is not None:
            await self._writer.end()
        await self.tables.close()
        await self._log.flush()
        await self._supervisor.stop()
        self._read_index.close()
        await self._log.stop()

    async def _leave_short_log(self) -> None:
        """Store everything, write a checkpoint, cut the log in front of it: the next start reads only that.

        Requests are refused already; only the container itself still changes its catalogue.
        """
        writer, log = self._writer, self._log
        if writer is None or log.is_cut or self._components.wal.is_fenced():
            return
        try:
            async with asyncio.timeout(self._config.storage_writer.stop_flush_s) as self._finishing:
                await writer.flush_all()
                if await self._forget_departed():
                    await writer.flush_all()
                await log.begin_file()
                await log.write_new_checkpoint()
                await writer.flush_all()
        except (TimeoutError, HeadraceError) as error:
            why = str(error) or "storage is too slow"
            _logger.info("container %d leaves work for its next start: %s", self.container_id, why)
        finally:
            self._finishing = None

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        if self._ended:
            return  # a consequence of what ended the container, which has been reported
        error = self._judge(error)
        _logger.error("container %d: %s failed: %s", self.container_id, name, describe_failure(error))
        failure = error if isinstance(error, HeadraceError) else WalWriteError(describe_failure(error))
        self._log.fail(failure)
        self._on_ended(error)

    def _on_ended(self, error: BaseException) -> None:
        """Some part failed: the whole container ends and is recovered by its owner, the registry."""
        self._online = False
        if not self._ended:
            self._ended = True
            if self._finishing is not None and not self._finishing.expired():
                self._finishing.reschedule(0.0)  # there is nothing left to wait for
            self._read_index.close()
            self._report_failure(self, self._judge(error))

    def _judge(self, error: BaseException) -> BaseException:
        """Say what an error proves. What a successor has collected or cut looks like damage to us: the owner
        record decides, and it names the successor before that can have changed anything.
        """
        if isinstance(error, CorruptionError) and self._components.wal.is_fenced():
            return FencedOutError(f"a newer owner has taken container {self.container_id}")
        return error

    @property
    def online(self) -> bool:
        return self._online

    @property
    def state(self) -> ContainerState:
        """What the container knows; for inspection and checks, not for change."""
        return self._state

    @property
    def log(self) -> DurableLog:
        return self._log

    def _check_online(self, name: str = "") -> None:
        """Refuse a call, also about this segment. While the container stops, it still needs its catalogue."""
        if not self._online and not (self._finishing is not None and name == self._catalogue.name):
            raise ContainerOfflineError(f"container {self.container_id} is not running here now")

    # -------------------------------------------------------------------------------------- look-up

    def find_segment(self, name: str) -> SegmentState | None:
        """Return the live segment of that name if it is in memory."""
        self._check_online(name)
        return self._state.find(name)

    def find_nowait(self, name: str) -> SegmentState | None:
        """See :meth:`SegmentDirectory.find_nowait`."""
        self._check_online()
        return self._directory.find_nowait(name)

    async def resolve(self, name: str) -> SegmentState:
        """See :meth:`SegmentDirectory.resolve`."""
        self._check_online(name)
        return await self._directory.resolve(name)

    def get_segment(self, name: str) -> SegmentState:
        """Return a live segment that is in memory.

        Raises:
            NoSuchSegmentError: there is none.
            ContainerOfflineError: there may be one, but not in memory: use :meth:`resolve`.
        """
        self._check_online()
        if name not in self._state.by_name and not self._catalogue.is_absent(name):
            raise ContainerOfflineError(f"segment {name!r} is not in memory; resolve it")
        return self._state.get(name)

    def segment_info(self, name: str) -> SegmentInfo:
        """Durable facts about a live segment that is in memory. Raises as :meth:`get_segment`."""
        return self._directory.info_of(self.get_segment(name))

    async def read_info(self, name: str) -> SegmentInfo:
        """Durable facts about a live segment; one that is not in memory stays where it is."""
        self._check_online()
        return await self._directory.read_info(name)

    def attribute(self, segment: SegmentState, attribute_id: bytes) -> int:
        """The durable value, or ATTRIBUTE_NULL."""
        self._check_online()
        return segment.attribute(attribute_id)

    def append_target(self, name: str) -> ContainerAppendTarget | None:
        """The synchronous door for the append blocks of one segment; None if that takes :meth:`resolve`.

        Raises:
            NoSuchSegmentError, ContainerOfflineError.
        """
        state = self.find_nowait(name)
        return None if state is None else self.target_of(state)

    def target_of(self, segment: SegmentState) -> ContainerAppendTarget:
        """The door for the append blocks of a segment, which stays in memory until the target is closed."""
        self._check_online()
        return ContainerAppendTarget(self._log.processor, self._state, segment)

    # -------------------------------------------------------------------------------------- create, delete

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        """Create an empty segment with these core attributes. Raises as :meth:`SegmentDirectory.create`."""
        self._check_online()
        values = {
            attr.CREATION_TIME: self._components.clock.now_ms(),
            attr.EVENT_COUNT: 0,
            attr.CREATION_EPOCH: self._state.epoch,
            **attributes,
        }
        return await self._directory.create(name, values)

    async def delete(self, segment: SegmentState) -> None:
        """Delete a live segment. Raises NoSuchSegmentError if it is gone already."""
        self._check_online()
        try:
            await self._submit(segment, partial(transitions.propose_delete, segment), deletes=True)
        finally:
            self.tables.drop(segment.name)

    async def _submit(
        self, segment: SegmentState, propose: Propose, size_bytes: int = 0, *, deletes: bool = False
    ) -> Any:
        """Hand an operation about a segment to the log; the segment stays in memory meanwhile."""
        self._check_online(segment.name)
        segment.users += 1
        try:
            return await self._log.submit(propose, size_bytes, segments=(segment,), deletes=deletes)
        finally:
            segment.users -= 1

    # -------------------------------------------------------------------------------------- change

    async def append(
        self,
        segment: SegmentState,
        data: Buffer,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int:
        """Append atomically; answer the offset at which ``data`` begins, once it is durable.

        ``data`` must not change until then. Raises as :func:`transitions.propose_append`.
        """
        self._check_online(segment.name)

        def propose(sequence: int) -> ops.Append:
            return transitions.propose_append(segment, sequence, data, updates, expected_offset)

        ticket = await self._submit(segment, propose, len(data) + 300 * len(updates))
        offset: int = ticket.operation.offset
        return offset

    async def update_attributes(self, segment: SegmentState, updates: Sequence[AttributeUpdate]) -> None:
        """Apply all updates or none. Raises SegmentSealedError, AttributeMismatchError,
        NoSuchSegmentError.
        """
        self._check_online()

        def propose(sequence: int) -> ops.UpdateAttributes:
            return transitions.propose_update(segment, sequence, updates)

        await self._submit(segment, propose, 300 * len(updates))

    async def seal(self, segment: SegmentState) -> int:
        """Seal; answer the final length. Raises SegmentSealedError if it is sealed (durably) already."""
        self._check_online()
        try:
            ticket = await self._submit(segment, partial(transitions.propose_seal, segment))
        except SegmentSealedError:
            if not segment.sealed:
                await self._log.flush()  # somebody else's seal: true only once durable
                if not segment.sealed:
                    raise ContainerOfflineError("the log failed before the seal was durable") from None
            raise
        length: int = ticket.operation.offset
        return length

    async def truncate(self, segment: SegmentState, offset: int) -> None:
        """Drop everything below ``offset``. Raises SegmentTruncatedError outside [start, length]."""
        self._check_online()

        def propose(sequence: int) -> ops.Truncate:
            return transitions.propose_truncate(segment, sequence, offset)

        await self._submit(segment, propose)

    # -------------------------------------------------------------------------------------- merge

    async def merge(
        self, target: SegmentState, source_name: str, updates: Sequence[AttributeUpdate] = ()
    ) -> int:
        """Append the whole content of a source to ``target``, atomically, and remove the source.

        Answers the length of the target right after. A source that was merged before counts as done.
        One that is empty is deleted after the updates were made, which are an operation of their own: a crash
        in between leaves the updates, and the source for the next attempt.

        Raises:
            NoSuchSegmentError: the source is unknown (or the target is gone).
            SegmentSealedError: the target is sealed.
            AttributeMismatchError: a condition on the target does not hold; nothing was merged.
        """
        self._check_online()
        return await self._merges.merge(target, source_name, updates)

    async def merge_batch(self, target: SegmentState, source_names: Sequence[str]) -> list[int]:
        """Merge sources in this order, all in flight at once; a source that is gone is skipped.

        Answers the length of the target after each. Raises as :meth:`merge`, for the target only.
        """
        self._check_online()
        return await self._merges.merge_batch(target, source_names)

    # -------------------------------------------------------------------------------------- read

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """See :meth:`ReadIndex.read`."""
        self._check_online(segment.name)
        transitions.check_held(segment)
        segment.users += 1
        try:
            return await self._read_index.read(segment, offset, length_max, wait=wait)
        except CorruptionError as error:
            judged = self._judge(error)
            if isinstance(judged, FencedOutError):
                self._log.fail(judged)
                raise judged from error
            self._check_online()  # what has ended proves nothing any more
            raise
        finally:
            segment.users -= 1

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """See :meth:`ReadIndex.read_nowait`."""
        self._check_online()
        return self._read_index.read_nowait(segment, offset, length_max)

    # -------------------------------------------------------------------------------------- introspection

    def segment_statistics(self) -> SegmentStatistics:
        """Count segments in memory, and how they come and go."""
        evictions, activations = self.evictions, self._directory.activations
        return SegmentStatistics(
            active=len(self._state.by_name),
            active_max=self._state.active_max,
            departing=len(self._state.departing),
            catalogue_rows=self._catalogue.count(),
            activations=activations.started,
            activations_failed=activations.failed,
            activations_waiting=len(activations),
            eviction_runs=evictions.runs,
            eviction_runs_forced=evictions.forced_runs,
            evicted=evictions.evicted,
        )

    def statistics(self) -> dict[str, object]:
        """What every part counts and holds now, by part; parts that do not run are left out."""
        parts: dict[str, Any] = {"storage": self._storage, "storage_writer": self._writer}
        if self._online:
            parts |= {"durable_log": self._log, "memory_log": self._log.memory_log}
            parts |= {"read_index": self._read_index, "tables": self.tables, "tasks": self._supervisor}
        found: dict[str, object] = {
            name: part.statistics() for name, part in parts.items() if part is not None
        }
        if self._online:
            found["segments"] = self.segment_statistics()
        return found

    def check(self) -> None:
        """Assert every invariant of the container's state."""
        self._state.check()


def describe_failure(error: BaseException) -> str:
    """One line about why a container ended."""
    if isinstance(error, HeadraceError):
        return f"{type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}: {error}"
