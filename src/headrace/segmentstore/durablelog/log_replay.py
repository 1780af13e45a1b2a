"""Rebuilds a container from its log: the first whole metadata checkpoint, then everything after its
beginning.

Only the content of the log decides the outcome: any prefix of it recovers, and recovering twice gives the
same state. Unstored operations are handed to the storage writer again through the memory log. Source:
``docs/flows/recovery.md``.

Nothing here waits. A hundred thousand operations take about a second of CPU on a loop shared with other
containers and connections: :meth:`LogReplay.replay` yields the amount of its work, so that the caller can
yield to the loop in between. An inspection uses :meth:`LogReplay.feed`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import KIB
from headrace.segmentstore.contract import ReadIndex, StoredCheckpoint
from headrace.segmentstore.durablelog.durable_apply import make_visible
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.truncation import Checkpoint, TruncationPoints
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.catalogue import Buffer, Operation
from headrace.segmentstore.state import metadata_checkpoint, transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.contract import WalRecord

_LOG_BYTES: Final = 8 * KIB
"""Bytes of the log that take as long to read, check and copy into the cache as an operation."""
ROW_BYTES: Final = 512
"""Bytes of a segment's row, of small values, that take as long: a row has up to a quarter of a million."""
_STORAGE_ROWS_AT_ONCE: Final = 100
"""Between two of its yields, where the caller of this generator spends its ``LoopBudget``."""


OnStorageRows = Callable[[Mapping[str, bytes | None]], None]
OnAppend = Callable[[SegmentState, int, Buffer], None]


class LogReplay:
    """Receives the whole log in order, by :meth:`replay` or :meth:`feed`; :meth:`finish` comes last."""

    def __init__(
        self,
        container: ContainerState,
        read_index: ReadIndex,
        memory_log: OperationMemoryLog,
        truncation: TruncationPoints,
        on_storage_rows: OnStorageRows,
        on_append: OnAppend | None = None,
    ) -> None:
        """``on_storage_rows`` is notified of rows in checkpoints and of changes of rows, ``on_append`` of
        appends without a writer; both in the order of the log.
        """
        self._container = container
        self._read_index = read_index
        self._memory_log = memory_log
        self._truncation = truncation
        self._on_storage_rows = on_storage_rows
        self._on_append = on_append
        self._installed = False
        self._unfinished = False
        self._begin: ops.CheckpointBegin | None = None
        self._begin_address = -1
        self._parts: list[ops.CheckpointPart] = []
        self._between: list[tuple[Operation, int]] = []
        self._orphans = 0
        self.operation_count = 0
        self._listed = 0  # rows and segments that the last operation lists
        self.retired: set[int] = set()
        """Ids of segments whose merge or deletion was replayed, so that storage is notified of it again."""
        self.first_sequence = 0
        """Where the first whole checkpoint begins: operations before it have no effect any more."""

    def replay(self, reader: FrameReader, record: WalRecord) -> Iterator[int]:
        """Replay the next record; the iterator has to be exhausted. Yields after each step its work.

        The unit of work is one operation, about 8 us, or what takes as long.

        Raises:
            DataCorruptionError: the log contradicts itself.
        """
        decode, take = codec.decode, self._take
        for view in reader.feed(record.address, record.payload):
            try:
                rest = take(decode(view), reader.frame_time_ms, reader.start_address)
                if rest is not None:
                    yield from rest
            except KeyError as error:
                raise DataCorruptionError(f"the log refers to segment {error} before mapping it") from error
            yield 1 + self._listed
        yield len(record.payload) // _LOG_BYTES

    def feed(self, operation: Operation, time_ms: int, address: int) -> None:
        """Take the next operation; ``address`` is the frame in which it begins, ``time_ms`` that frame's
        time.

        Raises:
            DataCorruptionError: the log contradicts itself.
            KeyError: the same: the log names a segment that it never mapped.
        """
        for _ in self._take(operation, time_ms, address) or ():
            pass

    def _take(self, operation: Operation, time_ms: int, address: int) -> Iterator[int] | None:
        """Take the next operation; return the rest of its work, None unless it ends the first checkpoint."""
        self.operation_count += 1
        self._listed = 0
        match operation:
            case ops.CheckpointBegin():
                if operation.container_id != self._container.container_id:
                    raise DataCorruptionError(
                        f"this is the log of container {operation.container_id}, "
                        f"not of {self._container.container_id}"
                    )
                self._begin = operation
                self._begin_address = address
                self._parts = []
                self._between = []
            case ops.CheckpointPart():
                if self._begin is not None and operation.begin_sequence == self._begin.sequence:
                    self._parts.append(operation)
                self._listed = len(operation.segment_rows) + len(operation.storage_rows)
            case ops.CheckpointEnd():
                begin = self._begin
                if not self._installed and begin is not None and operation.begin_sequence == begin.sequence:
                    self._unfinished = True
                    return self._install(begin, operation)
                self._on_checkpoint_end(operation)
            case _:
                self._on_operation(operation, time_ms)
                return None
        if self._installed:
            self._advance(operation)
        return None

    def _advance(self, operation: Operation) -> None:
        transitions.check_replay(self._container, operation)
        self._container.advance(operation.sequence)

    def _on_operation(self, operation: Operation, time_ms: int) -> None:
        if self._installed:
            self._replay(operation, time_ms)
        elif self._begin is not None:
            if isinstance(operation, ops.AppendBatch | ops.Append):
                operation = dataclasses.replace(operation, data=bytes(operation.data))
            self._between.append((operation, time_ms))
        else:
            self._orphans += 1

    def _on_checkpoint_end(self, end: ops.CheckpointEnd) -> None:
        begin = self._begin
        if begin is None or end.begin_sequence != begin.sequence:
            if self._installed:
                raise DataCorruptionError(f"checkpoint end {end.sequence} has no beginning")
            return
        self._truncation.add(Checkpoint(end.sequence, self._begin_address, begin.sequence))
        self._memory_log.add(StoredCheckpoint(end.sequence))
        self._begin = None
        self._parts = []

    def _install(self, begin: ops.CheckpointBegin, end: ops.CheckpointEnd) -> Iterator[int]:
        """Make the first whole checkpoint the state; replay what lies between its beginning and its end."""
        rows = list(metadata_checkpoint.join_rows(row for part in self._parts for row in part.segment_rows))
        storage_rows: dict[str, bytes] = {}
        for part in self._parts:
            storage_rows.update(part.storage_rows)
        if len(rows) != end.segment_count or len(storage_rows) != end.storage_row_count:
            raise DataCorruptionError(
                f"checkpoint {begin.sequence} has {len(rows)} of {end.segment_count} segments, "
                f"{len(storage_rows)} of {end.storage_row_count} storage rows"
            )
        yield len(rows)
        for size in metadata_checkpoint.install(self._container, rows, storage_rows):
            yield 1 + size // ROW_BYTES
        self.first_sequence = begin.sequence
        self._container.advance(begin.sequence)
        for state in self._container.by_id.values():
            state.touch(begin.sequence)
        self._installed = True
        changes = iter(storage_rows.items())
        for _ in range(0, len(storage_rows) or 1, _STORAGE_ROWS_AT_ONCE):
            some = dict(islice(changes, _STORAGE_ROWS_AT_ONCE))
            self._on_storage_rows(some)
            yield len(some)
        between, self._between = self._between, []
        for operation, time_ms in between:
            self._listed = 0
            self._replay(operation, time_ms)
            if isinstance(operation, ops.AppendBatch | ops.Append):
                self._listed = len(operation.data) // _LOG_BYTES
            yield 1 + self._listed
        self._on_checkpoint_end(end)
        self._advance(end)
        self._unfinished = False

    def _replay(self, operation: Operation, time_ms: int) -> None:
        self._advance(operation)
        match operation:
            case ops.EvictSegments():
                self._listed = len(operation.segment_ids)
                self._evict(operation)
                return
            case ops.ActivateSegment() if operation.segment_id in self._container.by_id:
                self._container.by_id[operation.segment_id].touch(operation.sequence)
                return  # as owners of an earlier release logged it
            case _:
                pass
        transitions.accept(self._container, operation)
        touched: dict[object, None] = {}
        make_visible(
            self._container,
            operation,
            time_ms,
            self._read_index,
            self._memory_log,
            touched,  # type: ignore[arg-type]  # no reader waits on a segment during recovery
        )
        if isinstance(operation, ops.Merge | ops.Delete):
            self.retired.add(
                operation.source_id if isinstance(operation, ops.Merge) else operation.segment_id
            )
            self._read_index.free_unneeded(self._container.by_id[operation.segment_id])
        elif isinstance(operation, ops.StorageRows):
            self._listed = len(operation.changes)
            self._on_storage_rows(operation.changes)
        elif isinstance(operation, ops.Append) and self._on_append is not None:
            segment = self._container.by_id[operation.segment_id]
            self._on_append(segment, operation.offset, operation.data)

    def _evict(self, operation: ops.EvictSegments) -> None:
        """Evict segments, which were all stored.

        The log may still have older operations of them. These are in the memory log with the evicted
        objects, so the storage writer skips them.
        """
        container = self._container
        storage_keys = operation.storage_keys or [()] * len(operation.segment_ids)
        for segment_id, keys in zip(operation.segment_ids, storage_keys, strict=True):
            self._read_index.drop(container.evict(segment_id))
            container.remove_rows(keys)

    def finish(self) -> bool:
        """Return whether anything was recovered. False: the log is new and needs its first checkpoint.

        Raises:
            DataCorruptionError: operations without any whole checkpoint before or around them.
        """
        assert not self._unfinished, "the caller has not exhausted an iterator of replay"
        if not self._installed and (self._orphans or self._between):
            raise DataCorruptionError("the log holds operations but no whole metadata checkpoint")
        return self._installed
