"""The durable log of one container: recovers it, processes its operations, checkpoints it, cuts it.

``start`` is the only way in, and it is recovery: take ownership of the WAL (fencing whoever had it), replay
what it holds, and make sure a metadata checkpoint of this owner follows. Source: ``docs/flows/recovery.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
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
from headrace.segmentstore.durablelog.log_replay import ROW_BYTES, LogReplay
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
    """What recovery met, and what happened since."""

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
        """Why nothing is to happen any more, if somebody ended the log."""
        self._truncation = TruncationPoints()
        self._checkpointing = False
        self._checkpoint_turn = asyncio.Lock()
        self.truncated_sequence = 0
        """Everything before it is in long-term storage, and nobody needs it in the log any more."""
        self._recovered_operations = 0
        self._recovered_frames = 0
        self._counted_checkpoints = 0
        self._checkpoints = 0
        self._truncations = 0
        self._processor: OperationProcessor | None = None
        self.memory_log = OperationMemoryLog(memory_log_max)
        self.departed_in_log: set[int] = set()
        """Segments whose merge or deletion recovery replayed: the storage writer will meet it again."""

    @property
    def processor(self) -> OperationProcessor:
        assert self._processor is not None, "start the log first"
        return self._processor

    # -------------------------------------------------------------------------------------- start

    async def start(
        self,
        on_storage_rows: Callable[[Mapping[str, bytes | None]], None],
        turn: contextlib.AbstractAsyncContextManager[object] | None = None,
    ) -> None:
        """Take ownership, replay, write a first checkpoint if the log is new.

        ``on_storage_rows`` is told about the rows of long-term storage as they are met in the log. ``turn``
        is waited for before the log is replayed, and held until that has ended; not while a disk is waited
        for.

        Raises:
            ClosedError: somebody ended the log meanwhile.
            DataCorruptionError: the log contradicts itself.
            FencedOutError: a newer owner exists.
            StorageFullError: no room to take ownership.
        """
        await self._wal.open()
        self._container.begin(self._wal.epoch)
        async with turn or contextlib.nullcontext():
            recovered = await self._replay(on_storage_rows)
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

    async def _replay(self, on_storage_rows: Callable[[Mapping[str, bytes | None]], None]) -> bool:
        """Rebuild the container's state from the WAL, others run in between; False if the log is new."""
        self.check_not_ended()
        reader = FrameReader()
        replay = LogReplay(
            self._container, self._read_index, self.memory_log, self._truncation, on_storage_rows
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
        self.departed_in_log = replay.departed
        self.truncated_sequence = replay.first_sequence
        return recovered

    def _on_record(self, record: WalRecord) -> None:
        # What is recovered counts: a container that fails again and again does not let its log grow.
        self._policy.on_frame(len(record.payload), self._container.departures)
        if len(self._truncation) != self._counted_checkpoints:
            self._counted_checkpoints = len(self._truncation)
            self._policy.on_begin(self._container.departures)

    def check_not_ended(self) -> None:
        """Whoever ended the log while others ran has let go of the cache, too: nothing may be put there."""
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
        """So many may be asked for at once: all of them may have to wait for frames."""
        return self._limits.requests_max

    async def flush(self) -> None:
        """Wait until everything accepted so far is durable, or the log has failed (or never started)."""
        if self._processor is not None:
            await self._processor.flush()

    # -------------------------------------------------------------------------------------- checkpoints

    def _on_frame_durable(self, size_bytes: int) -> None:
        if self._policy.on_frame(size_bytes, self._container.departures) and not self._checkpointing:
            self._checkpointing = True
            with contextlib.suppress(ClosedError):  # the container stops: what it still accepted is enough
                self._supervisor.spawn("metadata checkpoint", self._write_due_checkpoint())

    async def _write_due_checkpoint(self) -> None:
        try:
            await self.write_new_checkpoint()
        except ThrottledError as error:
            _logger.warning("container %d: a checkpoint was put off: %s", self._container.container_id, error)

    async def write_checkpoint(self) -> int:
        """Write the whole metadata into the log; once durable, the log may be cut in front of it.

        Answers the sequence number of its beginning. Checkpoints are written one after the other.
        """
        async with self._checkpoint_turn:
            return await self._write_checkpoint()

    async def write_new_checkpoint(self) -> None:
        """Write one if anything was logged since the newest one: it is never the reason for the next one.

        For those who want a short log, not for those who need a later beginning than that of the newest one.
        """
        async with self._checkpoint_turn:
            newest = self._truncation.newest
            if newest is None or newest.end_sequence != self._container.sequence:
                await self._write_checkpoint()
            else:
                self._policy.on_begin(self._container.departures)
                self._checkpointing = False

    async def _write_checkpoint(self) -> int:
        self._checkpointing = True
        try:
            await self._encode_rows()
            self._policy.on_begin(self._container.departures)
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
        """Have the rows of a checkpoint at hand before it begins: it encodes those that change until then.

        In its one moment it would encode all that have changed since the last one: 25,000 with four writers
        each take 0.1 s, and nothing else would happen on this loop.
        """
        for state in list(self._container.by_id.values()):
            if state.checkpoint_row is None:
                await self._budget.spend(1 + len(encode_segment_row(state)) // ROW_BYTES)

    async def _write_parts(self, begin: Ticket, snapshot: CheckpointSnapshot) -> tuple[set[int], int]:
        """Log the parts of a checkpoint; answer the addresses of their frames, and how many bytes they are.

        A frame full of them is on its way at a time. Whatever is appended meanwhile lies between them, and a
        recovery keeps that aside: all that waits for the disk, each time that a part is waited for.
        """
        addresses: set[int] = set()
        written = 0
        parts = snapshot.parts(self._part_bytes)
        # All of those on their way may have to wait for frames.
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
        # Used no earlier than this operation is durable: only then does the storage writer hear of it.
        self._truncation.add(Checkpoint(sequence, begin.address, begin.operation.sequence))
        return ops.CheckpointEnd(
            sequence, begin.operation.sequence, len(snapshot.segment_rows), len(snapshot.storage_rows)
        )

    async def _begin_checkpoint(self) -> tuple[Ticket, CheckpointSnapshot]:
        snapshots: list[CheckpointSnapshot] = []

        def propose(sequence: int) -> ops.CheckpointBegin:
            # The snapshot is taken in the very moment the operation gets its place in the log.
            snapshots.append(CheckpointSnapshot(self._container))
            return ops.CheckpointBegin(sequence, self._container.container_id, self._container.epoch)

        begin = await self.submit(propose, critical=True)
        return begin, snapshots[-1]

    @property
    def is_cut(self) -> bool:
        """Whether the log holds no operation but those of its newest checkpoint."""
        newest = self._truncation.newest
        return (
            newest is not None
            and newest.end_sequence == self._container.sequence
            and self.truncated_sequence == newest.begin_sequence
            and not len(self._truncation)
        )

    async def begin_file(self) -> None:
        """See :meth:`Wal.begin_file`."""
        await self._wal.begin_file()

    async def acknowledge(self, sequence: int) -> None:
        """Everything up to ``sequence`` is in long-term storage: cut the log if that frees anything.

        May be repeated after an error: nothing is forgotten before the log is cut.
        """
        checkpoint = self._truncation.find(sequence)
        if checkpoint is not None:
            await self._wal.truncate(checkpoint.begin_address)
            self._truncation.on_cut(checkpoint)
            self._truncations += 1
            self.truncated_sequence = max(self.truncated_sequence, checkpoint.begin_sequence)

    # -------------------------------------------------------------------------------------- end

    def fail(self, error: HeadraceError) -> None:
        self._ended = self._ended or error
        if self._processor is not None:
            self._processor.fail(error)

    def end_intake(self) -> None:
        """See :meth:`OperationProcessor.end_intake`: the container is about to stop. Also a start ends."""
        self._ended = self._ended or ClosedError("the log was closed while it was being recovered")
        if self._processor is not None:
            self._processor.end_intake()

    def stop_waiting(self) -> None:
        """A full disk is not to hold up what was accepted: it becomes durable now or fails."""
        self._wal.stop_waiting()

    async def stop(self) -> None:
        """Make durable what was accepted, then close the WAL. Whatever comes later is refused.

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
        """Whether full storage holds the write-ahead log up now."""
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
