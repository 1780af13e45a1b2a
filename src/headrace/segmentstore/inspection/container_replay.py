"""Recovers a container's metadata from its log as its successor would, without becoming its owner.

``LogReplay``, the code of recovery, does the work. It is given a read index that stores ranges instead of
bytes and a memory log that stores nothing, so its memory depends on the segments, not on the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.rows.stored_lengths import StoredLengths
from headrace.segmentstore.contract import ReadIndex, StorageOperation
from headrace.segmentstore.durablelog.log_replay import LogReplay
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.truncation import TruncationPoints
from headrace.segmentstore.inspection.frames import FoundOperation, located, read_operations
from headrace.segmentstore.inspection.log_coverage import LogCoverage
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.logs import FoundLog, LogFrame, LogSnapshot

CHECKPOINTS_MAX: Final = 1000


class _NoMemoryLog(OperationMemoryLog):
    """Drops every operation: nothing will be stored."""

    def __init__(self) -> None:
        super().__init__(1)

    def add_append(self, sequence: int, segment: SegmentState, offset: int, length: int) -> None:
        pass

    def add(self, operation: StorageOperation) -> None:
        pass


@dataclass(slots=True)
class FoundCheckpoint:
    """A whole metadata checkpoint of the log; ``address`` is the frame in which it begins."""

    begin_sequence: int
    end_sequence: int
    container_epoch: int
    address: int
    segments: int
    storage_rows: int


@dataclass(slots=True)
class ReplayedContainer:
    """The state that a successor would recover, and where the log ended."""

    log: LogSnapshot
    state: ContainerState
    coverage: LogCoverage
    recovered: bool
    """False: the log is new, nothing was ever written."""

    retired_in_log: set[int]
    checkpoints: list[FoundCheckpoint] = field(default_factory=list)
    frames: int = 0
    operations: int = 0
    operations_after_checkpoint: int = 0
    archived_rows: dict[str, bytes] = field(default_factory=dict)
    """Rows of storage that are not in the log: those in the table of them, and those of inactive segments in
    the catalogue, as far as either was read."""

    def storage_row(self, key: str) -> bytes | None:
        """Return a row of storage, from the log or from what else was read."""
        row = self.state.storage_rows.get(key)
        return self.archived_rows.get(key) if row is None else row

    def is_retired(self, segment: SegmentState) -> bool:
        """Whether the segment is merged or deleted: in state until storage has removed it."""
        return segment.merged or segment.deleted

    def has_left_storage(self, segment: SegmentState) -> bool:
        """Whether storage has removed a merged segment already: a successor forgets it soon."""
        return segment.merged and segment.segment_id not in self.retired_in_log

    def find(self, name: str) -> list[SegmentState]:
        """Return every segment of that name: the live one first, then retired ones."""
        found = [state for state in self.state.by_id.values() if state.name == name]
        return sorted(found, key=lambda state: (self.is_retired(state), -state.segment_id))


def replay_container(container_id: int, found: FoundLog) -> ReplayedContainer:
    """Replay the log of a container.

    Raises:
        DataCorruptionError: the log is missing or damaged, or contradicts itself; names file and offset.
        SnapshotLostError: a running server truncated the log meanwhile; retry.
        OSError: it cannot be read.
    """
    log = found.snapshot()
    if log.problem:
        raise DataCorruptionError(log.problem)
    state = ContainerState(container_id, log.epoch)
    coverage = LogCoverage()
    # It implements what a replay calls; nothing reads from it.
    read_index = cast("ReadIndex", coverage)
    stored = StoredLengths(state, read_index)
    replay = LogReplay(
        state, read_index, _NoMemoryLog(), TruncationPoints(), stored.on_rows, stored.on_append
    )
    result = ReplayedContainer(log, state, coverage, False, replay.retired)
    begins: dict[int, tuple[int, int]] = {}
    for operation in read_operations(_counted(log.frames(), result)):
        _feed(replay, operation)
        result.operations += 1
        result.operations_after_checkpoint += 1
        _note_checkpoint(result, begins, operation)
    result.recovered = replay.finish()
    return result


def _counted(frames: Iterator[LogFrame], result: ReplayedContainer) -> Iterator[LogFrame]:
    """Count every frame, also those in which no operation ends."""
    for frame in frames:
        result.frames += 1
        yield frame


def _feed(replay: LogReplay, found: FoundOperation) -> None:
    try:
        replay.feed(found.operation, found.time_ms, found.begin_address)
    except DataCorruptionError as error:
        raise located(error, found.frame) from error
    except KeyError as error:
        unknown = DataCorruptionError(f"the log refers to segment {error} before mapping it")
        raise located(unknown, found.frame) from error


def _note_checkpoint(
    result: ReplayedContainer, begins: dict[int, tuple[int, int]], found: FoundOperation
) -> None:
    operation = found.operation
    if isinstance(operation, ops.CheckpointBegin):
        begins.clear()
        begins[operation.sequence] = (operation.container_epoch, found.begin_address)
    elif isinstance(operation, ops.CheckpointEnd) and operation.begin_sequence in begins:
        epoch, address = begins.pop(operation.begin_sequence)
        result.checkpoints.append(
            FoundCheckpoint(
                operation.begin_sequence,
                operation.sequence,
                epoch,
                address,
                operation.segment_count,
                operation.storage_row_count,
            )
        )
        del result.checkpoints[:-CHECKPOINTS_MAX]
        result.operations_after_checkpoint = 0
