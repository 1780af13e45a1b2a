"""The container: single owner of a share of all segments. Starts by recovery, ends at the first doubt.

Public calls run on the container's loop. Everything that changes a segment becomes an operation of the
durable log; everything that is read comes through the read index; the storage writer moves bytes on in the
background.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    HeadraceError,
    NoSuchSegmentError,
    SegmentExistsError,
    SegmentMergedError,
    SegmentSealedError,
    WalWriteError,
)
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.container import transitions
from headrace.segmentstore.container.append_target import ContainerAppendTarget
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container_state import ContainerState
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.container.storage_row_log import LogRowStore
from headrace.segmentstore.container.stored_lengths import LateStorage, StoredLengths
from headrace.segmentstore.contract import ReadResult, SegmentInfo, StoredDelete
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Buffer
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.storagewriter.storage_writer import StorageWriter
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage

_logger = logging.getLogger(__name__)

MERGED_NAMES_MAX: Final = 10_000
"""How many merged sources a container remembers, so that a repeated merge request is answered with
success."""


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
        self._merged: OrderedDict[str, SegmentState] = OrderedDict()
        self._creating: dict[str, asyncio.Future[object]] = {}
        self._departing: set[SegmentState] = set()
        self._online = False
        self._ended = False
        self.tables = ContainerTables(self, config.tables)

    # -------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Take ownership of the log, recover, start moving data to storage. Accepts requests when it returns.

        Raises:
            DataCorruptionError: the log or the storage metadata contradicts itself; nothing is served.
            FencedOutError: another owner took over meanwhile.
        """
        components, state = self._components, self._state
        await self._log.start(StoredLengths(state, self._read_index).on_rows)
        self._check_recovered()
        self._storage = ChunkedSegmentStorage(
            components.chunks,
            LogRowStore(state, self._log.processor),
            state.epoch,
            components.entropy,
            self._config.storage,
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
        await self._delete_stale_transients()

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
        self._departing.add(segment)

    async def _on_stored(self, sequence: int) -> None:
        """The storage writer has stored everything up to ``sequence``."""
        for segment in [state for state in self._departing if state.stored_deleted]:
            self._departing.discard(segment)
            self._state.forget(segment)
        await self._log.acknowledge(sequence)

    async def _delete_stale_transients(self) -> None:
        stale = [
            state
            for state in list(self._state.by_name.values())
            if state.is_transient and state.attribute(attr.CREATION_EPOCH) < self._state.epoch
        ]
        for state in stale:
            await self.delete(state)

    async def stop(self) -> None:
        """Stop orderly: what was accepted becomes durable, what waits is told. A crash only takes longer to
        recover.
        """
        self._online = False
        self._log.stop_waiting()
        self._log.end_intake()
        await self.tables.close()
        await self._log.flush()
        if self._writer is not None:
            await self._writer.stop()
        await self._supervisor.stop()
        self._read_index.close()
        await self._log.stop()

    def _on_task_failed(self, name: str, error: BaseException) -> None:
        if self._ended:
            return  # a consequence of what ended the container, which has been reported
        _logger.error("container %d: %s failed: %s", self.container_id, name, describe_failure(error))
        failure = error if isinstance(error, HeadraceError) else WalWriteError(describe_failure(error))
        self._log.fail(failure)
        self._on_ended(error)

    def _on_ended(self, error: BaseException) -> None:
        """Some part failed: the whole container ends and is recovered by its owner, the registry."""
        self._online = False
        if not self._ended:
            self._ended = True
            self._read_index.close()
            self._report_failure(self, error)

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

    def _check_online(self) -> None:
        if not self._online:
            raise ContainerOfflineError(f"container {self.container_id} is not running here now")

    # -------------------------------------------------------------------------------------- look-up

    def find_segment(self, name: str) -> SegmentState | None:
        self._check_online()
        return self._state.find(name)

    def get_segment(self, name: str) -> SegmentState:
        self._check_online()
        return self._state.get(name)

    def segment_info(self, name: str) -> SegmentInfo:
        """Durable facts about a live segment. Raises NoSuchSegmentError."""
        state = self.get_segment(name)
        if name in self._creating:
            raise NoSuchSegmentError(name)
        return SegmentInfo(
            name,
            state.start_offset,
            state.durable_length,
            state.sealed,
            state.last_modified_ms,
            state.stored_length,
            state.attributes,
        )

    # -------------------------------------------------------------------------------------- create, delete

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        """Create an empty segment with these core attributes.

        Raises:
            SegmentExistsError: it exists, durably; nothing changed.
        """
        self._check_online()
        pending = self._creating.get(name)
        if pending is not None:
            # Another request creates it right now: only once that is durable is "exists" the truth.
            await asyncio.shield(pending)
            raise SegmentExistsError(name)
        existing = self._state.find(name)
        if existing is not None and existing.accepted_deleted:
            await self._log.flush()
        values = {
            attr.CREATION_TIME: self._components.clock.now_ms(),
            attr.EVENT_COUNT: 0,
            attr.CREATION_EPOCH: self._state.epoch,
            **attributes,
        }
        mapped = self._log.submit(partial(self._propose_map, name, values), 300 + len(name))
        self._creating[name] = mapped
        try:
            await asyncio.shield(mapped)
        finally:
            if mapped.done():
                self._creating.pop(name, None)
            else:
                mapped.add_done_callback(lambda _: self._creating.pop(name, None))
        return self._state.get(name)

    def _propose_map(self, name: str, values: Mapping[bytes, int], sequence: int) -> ops.MapSegment:
        return transitions.propose_map(self._state, sequence, name, values)

    async def delete(self, segment: SegmentState) -> None:
        """Delete a live segment. Raises NoSuchSegmentError if it is gone already."""
        self._check_online()
        # Before the wait: a caller that is cancelled does not take its accepted deletion back.
        self._departing.add(segment)
        try:
            await self._log.submit(partial(transitions.propose_delete, segment), segments=(segment,), deletes=True)
        finally:
            self.tables.drop(segment.name)

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
        self._check_online()

        def propose(sequence: int) -> ops.Append:
            return transitions.propose_append(segment, sequence, data, updates, expected_offset)

        ticket = await self._log.submit(propose, len(data) + 300 * len(updates), segments=(segment,))
        offset: int = ticket.operation.offset
        return offset

    def append_target(self, name: str) -> ContainerAppendTarget:
        """The synchronous door for the append blocks of one segment.

        Raises:
            NoSuchSegmentError, ContainerOfflineError.
        """
        self._check_online()
        state = self._state.find(name)
        if state is None or state.deleted or state.merged or name in self._creating:
            raise NoSuchSegmentError(name)
        return ContainerAppendTarget(self._log.processor, state)

    async def update_attributes(self, segment: SegmentState, updates: Sequence[AttributeUpdate]) -> None:
        """Apply all updates or none. Raises SegmentSealedError, AttributeMismatchError,
        NoSuchSegmentError.
        """
        self._check_online()

        def propose(sequence: int) -> ops.UpdateAttributes:
            return transitions.propose_update(segment, sequence, updates)

        await self._log.submit(propose, 300 * len(updates), segments=(segment,))

    async def seal(self, segment: SegmentState) -> int:
        """Seal; answer the final length. Raises SegmentSealedError if it is sealed (durably) already."""
        self._check_online()
        try:
            ticket = await self._log.submit(partial(transitions.propose_seal, segment), segments=(segment,))
        except SegmentSealedError:
            if not segment.sealed:
                await self._log.flush()  # somebody else's seal: true only once durable
            raise
        length: int = ticket.operation.offset
        return length

    async def truncate(self, segment: SegmentState, offset: int) -> None:
        """Drop everything below ``offset``. Raises SegmentTruncatedError outside [start, length]."""
        self._check_online()

        def propose(sequence: int) -> ops.Truncate:
            return transitions.propose_truncate(segment, sequence, offset)

        await self._log.submit(propose, segments=(segment,))

    # -------------------------------------------------------------------------------------- merge

    async def merge(
        self, target: SegmentState, source_name: str, updates: Sequence[AttributeUpdate] = ()
    ) -> int:
        """Append the whole content of a source to ``target``, atomically, and remove the source.

        Answers the length of the target right after. A source that was merged before counts as done.

        Raises:
            NoSuchSegmentError: the source is unknown (or the target is gone).
            SegmentSealedError: the target is sealed.
            AttributeMismatchError: a condition on the target does not hold; nothing was merged.
        """
        return await self._start_merge(target, source_name, updates)

    async def merge_batch(self, target: SegmentState, source_names: Sequence[str]) -> list[int]:
        """Merge sources in this order, all in flight at once; a source that is gone is skipped.

        Answers the length of the target after each. Raises as :meth:`merge`, for the target only.
        """
        started = [self._start_merge(target, name, ()) for name in source_names]
        lengths: list[int] = []
        for outcome in await asyncio.gather(*started, return_exceptions=True):
            if isinstance(outcome, NoSuchSegmentError) and not target.accepted_deleted:
                lengths.append(lengths[-1] if lengths else target.durable_length)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                lengths.append(outcome)
        return lengths

    def _start_merge(
        self, target: SegmentState, source_name: str, updates: Sequence[AttributeUpdate]
    ) -> Coroutine[object, object, int]:
        """Hand seal and merge to the log now, in call order; the coroutine waits for them."""
        self._check_online()
        source = self._state.find(source_name)
        if source is None:
            return self._merge_again(target, source_name)
        sealing = None
        if not source.accepted_sealed:
            sealing = self._log.submit(partial(transitions.propose_seal, source), segments=(source,))
        if source.accepted_length == 0:
            return self._merge_empty(target, source, updates, sealing)

        def propose(sequence: int) -> ops.Merge:
            return transitions.propose_merge(target, source, sequence, updates)

        self._departing.add(source)
        merging = self._log.submit(propose, 300 * len(updates), segments=(target, source))
        return self._finish_merge(target, source, sealing, merging)

    async def _merge_again(self, target: SegmentState, source_name: str) -> int:
        if source_name not in self._merged:
            raise NoSuchSegmentError(source_name)
        return target.durable_length

    async def _finish_merge(
        self,
        target: SegmentState,
        source: SegmentState,
        sealing: asyncio.Future[Any] | None,
        merging: asyncio.Future[Any],
    ) -> int:
        if sealing is not None:
            await asyncio.wait([sealing, merging])
            if (error := sealing.exception()) is not None and not isinstance(error, SegmentSealedError):
                merging.exception()
                raise error
        try:
            ticket = await merging
        except SegmentMergedError:
            await self._log.flush()
            return target.durable_length
        self._remember_merged(source)
        return int(ticket.operation.offset + ticket.operation.length)

    async def _merge_empty(
        self,
        target: SegmentState,
        source: SegmentState,
        updates: Sequence[AttributeUpdate],
        sealing: asyncio.Future[Any] | None,
    ) -> int:
        transitions.check_appendable(target)
        if sealing is not None:
            await asyncio.wait([sealing])
            sealing.exception()
        if source.accepted_length:
            return await self.merge(target, source.name, updates)
        if updates:
            await self.update_attributes(target, updates)
        try:
            await self.delete(source)
        except NoSuchSegmentError:
            await self._log.flush()
        self._remember_merged(source)
        return target.durable_length

    def _remember_merged(self, source: SegmentState) -> None:
        self._merged[source.name] = source
        if len(self._merged) > MERGED_NAMES_MAX:
            self._merged.popitem(last=False)

    # -------------------------------------------------------------------------------------- read

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """See :meth:`ReadIndex.read`."""
        self._check_online()
        return await self._read_index.read(segment, offset, length_max, wait=wait)

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """See :meth:`ReadIndex.read_nowait`."""
        self._check_online()
        return self._read_index.read_nowait(segment, offset, length_max)

    # -------------------------------------------------------------------------------------- attributes

    def attribute(self, segment: SegmentState, attribute_id: bytes) -> int:
        """The durable value, or ATTRIBUTE_NULL."""
        self._check_online()
        return segment.attributes.get(attribute_id, ATTRIBUTE_NULL)

    def statistics(self) -> dict[str, object]:
        """What every part counts and holds now, by part; parts that do not run are left out."""
        parts: dict[str, Any] = {"storage": self._storage, "storage_writer": self._writer}
        if self._online:
            parts |= {"durable_log": self._log, "memory_log": self._log.memory_log}
            parts |= {"read_index": self._read_index, "tables": self.tables, "tasks": self._supervisor}
        return {name: part.statistics() for name, part in parts.items() if part is not None}

    def check(self) -> None:
        """Assert every invariant of the container's state."""
        self._state.check()


def describe_failure(error: BaseException) -> str:
    """One line about why a container ended."""
    if isinstance(error, HeadraceError):
        return f"{type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}: {error}"
