"""The durable log of one container: recovery, operations, metadata checkpoints, truncation.

``start`` is the only entry, and it is recovery: take ownership of the WAL, which fences the former owner,
replay the log, and write a first metadata checkpoint if it is new. Source: ``docs/flows/recovery.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from headrace.errors import ClosedError, HeadraceError, ThrottledError
from headrace.limits import KIB
from headrace.runtime.clock import Clock
from headrace.runtime.loop_budget import LoopBudget
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_apply import Ticket
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.durablelog.log_replay import (
    ROW_BYTES,
    LogReplay,
    OnAppend,
    OnStorageRows,
)
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.operation_processor import (
    OperationProcessor,
    ProcessorLimits,
    ProcessorStatistics,
    Propose,
)
from headrace.segmentstore.durablelog.truncation import Checkpoint, TruncationPoints
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import CheckpointSnapshot, encode_segment_row
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.contract import Wal, WalRecord, WalStatistics

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class DurableLogStatistics:
    """Counts of recovery and of the time since."""

    recovered_operations: int
    recovered_frames: int
    checkpoints: int
    truncations: int
    memory_log_operations: int
    processor: ProcessorStatistics
    wal: WalStatistics


class DurableLog:
    """Owns the WAL, the operation processor and the memory log of one container."""

    def __init__(
        self,
        container: ContainerState,
        wal: Wal,
        read_index: ReadIndex,
        clock: Clock,
        supervisor: Supervisor,
        *,
        memory_log_max: int,
        limits: ProcessorLimits,
        policy: CheckpointPolicy,
        checkpoint_part_bytes: int = 256 * KIB,
        replay_operations: int = 500,
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self._container = container
        self._wal = wal
        self._read_index = read_index
        self._clock = clock
        self._supervisor = supervisor
        self._limits = limits
        self._policy = policy
        # A part must fit into the log's frames, however few and small they are.
        self._part_bytes = min(checkpoint_part_bytes, wal.frame_bytes_max // 2)
        self._budget = LoopBudget(replay_operations)
        self._on_failed = on_failed
        self._ended: HeadraceError | None = None
        """Why the log was ended, if it was."""
        self._truncation = TruncationPoints()
        self._checkpointing = False
        self._checkpoint_lock = asyncio.Lock()
        self._truncation_lock = asyncio.Lock()
        self._logged = asyncio.Event()
        """Something was logged that :meth:`write_aged_checkpoints` has not seen."""
        self._logged.set()  # recovered operations may have every age
        self.truncated_sequence = 0
        """Everything before it is stored and no longer needed in the log."""
        self._recovered_operations = 0
        self._recovered_frames = 0
        self._counted_checkpoints = 0
        self._checkpoints = 0
        self._truncations = 0
        self._processor: OperationProcessor | None = None
        self.memory_log = OperationMemoryLog(memory_log_max)
        self.retired_in_log: set[int] = set()
        """Segments whose merge or deletion was replayed: the storage writer receives it again."""

    @property
    def processor(self) -> OperationProcessor:
        assert self._processor is not None, "start the log first"
        return self._processor

    # -------------------------------------------------------------------------------------- start

    async def start(
        self,
        on_storage_rows: OnStorageRows,
        replaying: contextlib.AbstractAsyncContextManager[object] | None = None,
        on_append: OnAppend | None = None,
    ) -> None:
        """Take ownership, replay, write a first checkpoint if the log is new.

        ``on_storage_rows`` is notified of the rows of long-term storage in the order of the log, and
        ``on_append`` of appends.
        ``replaying`` is entered for the replay only, not while the WAL is opened.

        Raises:
            ClosedError: the log was ended meanwhile.
            DataCorruptionError: the log contradicts itself.
            FencedOutError: a newer owner exists.
            StorageFullError: there is no space to take ownership.
        """
        await self._wal.open()
        self._container.begin(self._wal.epoch)
        async with replaying or contextlib.nullcontext():
            recovered = await self._replay(on_storage_rows, on_append)
        self._processor = OperationProcessor(
            self._wal,
            self._container,
            self.memory_log,
            self._read_index,
            self._clock,
            self._limits,
            self._on_failed,
            self._on_frame_durable,
        )
        if not recovered:
            await self.write_checkpoint()

    async def _replay(self, on_storage_rows: OnStorageRows, on_append: OnAppend | None) -> bool:
        """Rebuild the container's state from the WAL, yielding to the loop; False if the log is new."""
        self.check_not_ended()
        reader = FrameReader()
        replay = LogReplay(
            self._container,
            self._read_index,
            self.memory_log,
            self._truncation,
            on_storage_rows,
            on_append,
        )
        async with contextlib.aclosing(self._wal.records()) as records:
            async for record in records:
                self.check_not_ended()
                self._on_record(record)
                for units in replay.replay(reader, record):
                    if await self._budget.spend(units):
                        self.check_not_ended()
        self.check_not_ended()
        recovered = replay.finish()
        self._recovered_operations = replay.operation_count
        self._recovered_frames = reader.frame_count
        self.retired_in_log = replay.retired
        self.truncated_sequence = replay.first_sequence
        return recovered

    def _on_record(self, record: WalRecord) -> None:
        # Recovered frames count, so that the log of a container that fails repeatedly does not grow.
        self._policy.on_frame(len(record.payload), self._container.retired_total)
        if len(self._truncation) != self._counted_checkpoints:
            self._counted_checkpoints = len(self._truncation)
            self._policy.on_begin(self._container.retired_total)

    def check_not_ended(self) -> None:
        """Raise if the log was ended: the cache was released with it, and nothing may be added to it."""
        if self._ended is not None:
            raise self._ended

    # -------------------------------------------------------------------------------------- operations

    def submit(
        self,
        propose: Propose,
        size_bytes: int = 0,
        *,
        segments: tuple[SegmentState, ...] = (),
        deletes: bool = False,
        critical: bool = False,
    ) -> asyncio.Future[Any]:
        """See :meth:`OperationProcessor.submit`."""
        return self.processor.submit(
            propose, size_bytes, segments=segments, deletes=deletes, critical=critical
        )

    @property
    def requests_max(self) -> int:
        """Requests that may wait for frames; more are refused."""
        return self._limits.requests_max

    async def flush(self) -> None:
        """Wait until everything accepted so far is durable, or the log has failed (or never started)."""
        if self._processor is not None:
            await self._processor.flush()

    # -------------------------------------------------------------------------------------- checkpoints

    def _on_frame_durable(self, size_bytes: int) -> None:
        self._logged.set()
        if self._policy.on_frame(size_bytes, self._container.retired_total) and not self._checkpointing:
            self._checkpointing = True
            with contextlib.suppress(ClosedError):  # the container stops: no checkpoint needed
                self._supervisor.spawn("metadata checkpoint", self._write_due_checkpoint())

    async def write_aged_checkpoints(self, interval_s: float) -> None:
        """Write a checkpoint, for ever, within ``interval_s`` of each operation, apart from the rest.

        So deleted and truncated bytes leave the log of a container to which little is written. If a former
        checkpoint waits for storage, nothing is separated: else an outage would cost a log file each.
        """
        while True:
            await self._logged.wait()
            self._logged.clear()
            await asyncio.sleep(interval_s)
            await self._write_due_checkpoint(apart=not len(self._truncation))

    async def _write_due_checkpoint(self, *, apart: bool = False) -> None:
        try:
            await self.write_new_checkpoint(apart=apart)
        except ThrottledError as error:
            _logger.warning("container %d: a checkpoint was put off: %s", self._container.container_id, error)

    async def write_checkpoint(self) -> int:
        """Write the whole metadata into the log; once durable, the log may be truncated in front of it.

        Returns the sequence number of its beginning. Checkpoints are written one after the other.
        """
        async with self._checkpoint_lock:
            return await self._write_checkpoint()

    async def write_new_checkpoint(self, *, apart: bool = False) -> None:
        """Write one if anything was logged since the newest one, which itself does not count; if
        ``apart``, separated from all before it where that is possible.

        For callers that need a short log, not for those that need a later beginning than the newest has.
        """
        async with self._checkpoint_lock:
            newest = self._truncation.newest
            if newest is None or newest.end_sequence != self._container.sequence:
                if apart:
                    await self._wal.separate()
                await self._write_checkpoint()
            else:
                self._policy.on_begin(self._container.retired_total)
                self._checkpointing = False

    async def _write_checkpoint(self) -> int:
        self._checkpointing = True
        try:
            await self._encode_rows()
            self._policy.on_begin(self._container.retired_total)
            begin, snapshot = await self._begin_checkpoint()
            addresses, written = await self._write_parts(begin, snapshot)
            end = await self.submit(partial(self._propose_end, begin, snapshot), critical=True)
        finally:
            self._checkpointing = False
        addresses |= {begin.address, end.address}
        self._policy.on_end(len(addresses) + written // self._wal.frame_bytes_max, written)
        self._checkpoints += 1
        return int(begin.operation.sequence)

    async def _encode_rows(self) -> None:
        """Encode the rows that changed before a checkpoint begins, which encodes only later changes.

        The snapshot is taken without yielding to the loop: 25,000 changed rows with four writers each would
        block it for 0.1 s.
        """
        for state in list(self._container.by_id.values()):
            if state.checkpoint_row is None:
                await self._budget.spend(1 + len(encode_segment_row(state)) // ROW_BYTES)

    async def _write_parts(self, begin: Ticket, snapshot: CheckpointSnapshot) -> tuple[set[int], int]:
        """Log the parts of a checkpoint; return the addresses of their frames, and their number of bytes.

        One frame full of parts is in flight at a time. Appends meanwhile lie between the parts, and recovery
        holds these in memory: for each frame of parts, what was written to the disk together with it.
        """
        addresses: set[int] = set()
        written = 0
        parts = snapshot.parts(self._part_bytes)
        # All parts in flight may have to wait for frames.
        at_once = max(1, min(self._wal.frame_bytes_max // self._part_bytes, self.requests_max // 2))
        while some := list(islice(parts, at_once)):
            waiting: list[asyncio.Future[Ticket]] = []
            for segment_rows, storage_rows in some:
                size = sum(map(len, segment_rows)) + 16 * (len(segment_rows) + len(storage_rows))
                size += sum(len(key) + len(value) for key, value in storage_rows.items())
                written += size
                propose = partial(_propose_part, begin.operation.sequence, segment_rows, storage_rows)
                waiting.append(self.submit(propose, size, critical=True))
            addresses |= {part.address for part in await asyncio.gather(*waiting)}
        return addresses, written

    def _propose_end(self, begin: Ticket, snapshot: CheckpointSnapshot, sequence: int) -> ops.CheckpointEnd:
        # Not used before this operation is durable: only then is the storage writer notified of it.
        self._truncation.add(Checkpoint(sequence, begin.address, begin.operation.sequence))
        return ops.CheckpointEnd(
            sequence, begin.operation.sequence, len(snapshot.segment_rows), len(snapshot.storage_rows)
        )

    async def _begin_checkpoint(self) -> tuple[Ticket, CheckpointSnapshot]:
        snapshots: list[CheckpointSnapshot] = []

        def propose(sequence: int) -> ops.CheckpointBegin:
            # The snapshot is taken in the moment in which the operation gets its sequence number.
            snapshots.append(CheckpointSnapshot(self._container))
            return ops.CheckpointBegin(sequence, self._container.container_id, self._container.epoch)

        begin = await self.submit(propose, critical=True)
        return begin, snapshots[-1]

    @property
    def is_truncated(self) -> bool:
        """Whether the log has no operation but those of its newest checkpoint."""
        newest = self._truncation.newest
        return (
            newest is not None
            and newest.end_sequence == self._container.sequence
            and self.truncated_sequence == newest.begin_sequence
            and not len(self._truncation)
        )

    async def separate(self) -> None:
        """See :meth:`Wal.separate`."""
        await self._wal.separate()

    async def acknowledge(self, sequence: int) -> None:
        """Everything up to ``sequence`` is stored: truncate the log if that frees anything.

        May be repeated after an error: nothing is forgotten before the log is truncated.
        """
        checkpoint = self._truncation.find(sequence)
        if checkpoint is not None:
            async with self._truncation_lock:
                await self._wal.truncate(checkpoint.begin_address)
            self._truncation.on_truncated(checkpoint)
            self._truncations += 1
            self.truncated_sequence = max(self.truncated_sequence, checkpoint.begin_sequence)

    async def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """See :meth:`Wal.copy_records`; the log is not truncated meanwhile."""
        async with self._truncation_lock, contextlib.aclosing(self._wal.copy_records()) as pieces:
            async for piece in pieces:
                yield piece

    async def is_fenced(self) -> bool:
        """See :meth:`Wal.is_fenced`."""
        return await self._wal.is_fenced()

    @property
    def epoch(self) -> int:
        """The container epoch of this owner."""
        return self._container.epoch

    @property
    def sequence(self) -> int:
        """The highest sequence number assigned so far."""
        return self._container.sequence

    @property
    def waiting_checkpoints(self) -> int:
        """Metadata checkpoints in front of which the log could not be truncated yet."""
        return len(self._truncation)

    # -------------------------------------------------------------------------------------- end

    def fail(self, error: HeadraceError) -> None:
        self._ended = self._ended or error
        if self._processor is not None:
            self._processor.fail(error)

    def end_intake(self) -> None:
        """See :meth:`OperationProcessor.end_intake`: the container is about to stop. Ends a start, too."""
        self._ended = self._ended or ClosedError("the log was closed while it was being recovered")
        if self._processor is not None:
            self._processor.end_intake()

    def stop_waiting(self) -> None:
        """Do not wait for space on a full disk any more: what was accepted becomes durable now or fails."""
        self._wal.stop_waiting()

    async def stop(self) -> None:
        """Make durable what was accepted, then close the WAL. Later requests are refused.

        The WAL is closed also if this is cancelled.
        """
        try:
            self.end_intake()
            await self.flush()
        finally:
            if self._processor is not None:
                self._processor.close()
            await self._wal.close()

    @property
    def waits_for_space(self) -> bool:
        """Whether the write-ahead log waits for space."""
        return self._wal.statistics().space_waiting > 0

    def statistics(self) -> DurableLogStatistics:
        return DurableLogStatistics(
            self._recovered_operations,
            self._recovered_frames,
            self._checkpoints,
            self._truncations,
            len(self.memory_log),
            self.processor.statistics(),
            self._wal.statistics(),
        )


def _propose_part(
    begin_sequence: int,
    segment_rows: list[ops.Buffer],
    storage_rows: dict[str, bytes],
    sequence: int,
) -> ops.CheckpointPart:
    return ops.CheckpointPart(sequence, begin_sequence, segment_rows, storage_rows)
