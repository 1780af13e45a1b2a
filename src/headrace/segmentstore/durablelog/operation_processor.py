"""Turns requests into durable operations: check, number, serialise, hand to the WAL, apply, answer. In order.

::

    append_block / submit          check against the accepted state, number, copy into the open frame
      turn (once per loop turn)    close the open run, hand frames to the WAL while it has a free slot
        on_written                 apply to state, read index and memory log; wake readers; answer callers

Nothing here waits for the disk. Group commit needs no timer: while the WAL is busy the open frame fills. The
bounded pool of frames is the back-pressure. A failed WAL write is the end of this owner: everything
accepted and not yet durable has an unknown outcome, and recovery decides.

Source: ``docs/flows/append.md``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.errors import (
    AttributeMismatchError,
    ContainerOfflineError,
    EventTooLargeError,
    HeadraceError,
    OffsetMismatchError,
    WalWriteError,
)
from headrace.limits import MIB
from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT
from headrace.runtime.clock import Clock
from headrace.segmentstore.container import transitions
from headrace.segmentstore.container.container_state import ContainerState
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.contract import (
    ReadIndex,
    StoredCheckpoint,
    StoredDelete,
    StoredMerge,
    StoredSeal,
    StoredTruncate,
)
from headrace.segmentstore.durablelog.frame_builder import FrameBuilder, OpenFrame
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, WHOLE
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.catalogue import Operation, OperationKind
from headrace.wal.contract import Wal, WalFrame

_RUN_HEAD: Final = codec.RUN.size
_RUN_OVERHEAD: Final = ENTRY_HEADER.size + _RUN_HEAD
_REQUEST_OVERHEAD: Final = 128
"""Upper bound of what an operation takes besides its payload, values and names."""

FRAMES_AHEAD_MAX: Final = 4
"""Full frames handed to the log, written or waiting for one of its writers."""

Propose = Callable[[int], Operation]
"""Check a request against the accepted state and return its operation under the given sequence number."""


class AppendOwner(Protocol):
    """One writer on one connection: where the answers to its append blocks go."""

    writer_id: bytes

    def on_durable(self, last_event_number: int, request_id: int, segment_length: int) -> None: ...

    def on_failed(self, error: HeadraceError) -> None: ...


class OpenRun:
    """Blocks of one owner and segment that lie next to each other in one frame."""

    __slots__ = (
        "at",
        "data_at",
        "event_count",
        "frame",
        "last_event_number",
        "length",
        "offset",
        "owner",
        "pieces",
        "request_id",
        "segment",
        "sequence",
    )

    def __init__(self, owner: AppendOwner, segment: SegmentState, sequence: int, offset: int) -> None:
        self.owner = owner
        self.segment = segment
        self.sequence = sequence
        self.offset = offset
        self.length = 0
        self.event_count = 0
        self.last_event_number = 0
        self.request_id = 0
        self.at = 0
        self.data_at = 0
        self.frame: OpenFrame | None = None
        self.pieces: bytes | None = None
        """The payload of a block too large for one frame; in-frame runs find theirs in the frame."""


class Ticket:
    """An operation on its way to durability, and the future that tells its caller."""

    __slots__ = ("address", "future", "operation")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.address = -1


class _Request:
    __slots__ = ("future", "propose", "size_bytes")

    def __init__(self, propose: Propose, size_bytes: int, future: asyncio.Future[Any]) -> None:
        self.propose = propose
        self.size_bytes = size_bytes
        self.future = future


@dataclass(slots=True)
class ProcessorStatistics:
    """Counters since start; gauges of now."""

    blocks: int = 0
    runs: int = 0
    operations: int = 0
    bytes_appended: int = 0
    frames: int = 0
    frames_in_flight: int = 0
    requests_queued: int = 0
    capacity_waits: int = 0


@dataclass(slots=True)
class ProcessorLimits:
    """Bounds of one processor."""

    requests_max: int = 10_000
    unstored_bytes_max: int = 256 * MIB


class OperationProcessor:
    """The one writer of a container's log. Runs on the container's loop only."""

    def __init__(
        self,
        wal: Wal,
        container: ContainerState,
        memory_log: OperationMemoryLog,
        read_index: ReadIndex,
        clock: Clock,
        limits: ProcessorLimits,
        on_failed: Callable[[HeadraceError], None],
        on_frame_durable: Callable[[int], None],
    ) -> None:
        self._wal = wal
        self._container = container
        self._memory_log = memory_log
        self._read_index = read_index
        self._clock = clock
        self._limits = limits
        self._report_failure = on_failed
        self._on_frame_durable = on_frame_durable
        self._builder = FrameBuilder(wal)
        self._in_flight: deque[OpenFrame] = deque()
        self._queues: tuple[deque[_Request], deque[_Request]] = (deque(), deque())
        self._waiters: deque[Callable[[], None]] = deque()
        self._run: OpenRun | None = None
        self._turn_scheduled = False
        self._failed: HeadraceError | None = None
        self._barriers: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._stats = ProcessorStatistics()
        wal.set_on_frame_free(self._on_frame_free)

    # -------------------------------------------------------------------------------------- capacity

    def can_accept(self, size_bytes: int) -> bool:
        """Whether an append of ``size_bytes`` would find room now. Cheap: asked for every block.

        True once this owner has failed: the append then raises ContainerOfflineError instead of waiting for
        ever.
        """
        if self._failed is not None:
            return True
        if self._queues[0] or self._queues[1]:
            return False
        return self._has_frames(size_bytes + _RUN_OVERHEAD) and self._has_memory()

    def _has_memory(self) -> bool:
        return (
            len(self._memory_log) < self._memory_log.count_max
            and self._read_index.unstored_bytes() < self._limits.unstored_bytes_max
        )

    def _has_frames(self, size_bytes: int) -> bool:
        current = self._builder.current
        if current is not None and current.used + size_bytes <= current.capacity:
            return True
        free = self._wal.statistics().frames_free
        return free >= self._builder.frames_needed(size_bytes) - (
            size_bytes < self._builder.content_bytes_max
        )

    def wait_capacity(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, later on the loop, when something has been freed."""
        self._stats.capacity_waits += 1
        self._waiters.append(resume)
        if self._failed is not None:
            self._wake()

    def on_memory_freed(self) -> None:
        """The storage writer has moved bytes on: requests and connections may go on."""
        self._drain()
        self._wake()

    def _on_frame_free(self) -> None:
        if self._failed is None:
            self._drain()
        self._wake()

    def _wake(self) -> None:
        waiters = self._waiters
        if waiters and (self._failed is not None or self._has_memory()):
            self._waiters = deque()
            for resume in waiters:
                self._loop.call_soon(resume)

    # -------------------------------------------------------------------------------------- appends

    def append_block(
        self,
        segment: SegmentState,
        owner: AppendOwner,
        pieces: Sequence[memoryview],
        size: int,
        previous_event_number: int,
        last_event_number: int,
        event_count: int,
        request_id: int,
        expected_offset: int,
    ) -> None:
        """Accept one append block: ``pieces`` are copied before this returns.

        Raises:
            ContainerOfflineError: this owner has ended.
            NoSuchSegmentError, SegmentSealedError: nothing changed.
            AttributeMismatchError: the writer's attribute is not ``previous_event_number``; nothing changed.
            OffsetMismatchError: the segment's length is not ``expected_offset``; nothing changed.
        """
        if self._failed is not None:
            raise ContainerOfflineError("the container has stopped; reconnect to its next owner")
        if segment.accepted_sealed or segment.accepted_deleted:
            transitions.check_appendable(segment)
        attributes = segment.accepted_attributes
        writer_id = owner.writer_id
        existing = attributes.get(writer_id, ATTRIBUTE_NULL)
        if existing != previous_event_number:
            raise AttributeMismatchError(segment.name, writer_id, previous_event_number, existing)
        offset = segment.accepted_length
        if expected_offset >= 0 and expected_offset != offset:
            raise OffsetMismatchError(segment.name, expected_offset, offset)

        run = self._run
        if run is not None and (
            run.owner is not owner
            or run.segment is not segment
            or expected_offset >= 0
            or run.frame.used + size > run.frame.capacity  # type: ignore[union-attr]  # open runs have a frame
        ):
            self._close_run()
            run = None
        if run is None:
            run = self._open_run(owner, segment, offset, pieces, size)
        if run.frame is not None:
            frame = run.frame
            view = frame.view
            at = frame.used
            for piece in pieces:
                end = at + len(piece)
                view[at:end] = piece
                at = end
            frame.used = at
        run.length += size
        run.event_count += event_count
        run.last_event_number = last_event_number
        run.request_id = request_id
        attributes[writer_id] = last_event_number
        attributes[EVENT_COUNT] = attributes.get(EVENT_COUNT, 0) + event_count
        segment.accepted_length = offset + size
        segment.checkpoint_row = None
        self._stats.blocks += 1
        if run.pieces is not None:
            self._write_large_run(run)
        elif expected_offset >= 0:
            self._close_run()
        if not self._turn_scheduled:
            self._schedule_turn()

    def _open_run(
        self, owner: AppendOwner, segment: SegmentState, offset: int, pieces: Sequence[memoryview], size: int
    ) -> OpenRun:
        run = OpenRun(owner, segment, self._container.next_sequence(), offset)
        if _RUN_OVERHEAD + size > self._builder.content_bytes_max:
            run.pieces = b"".join(pieces)
            return run
        frame = self._builder.frame_with_room(_RUN_OVERHEAD + size)
        if frame is None:
            raise ContainerOfflineError("no frame is free: ask can_accept before appending")
        run.frame = frame
        run.at = frame.used
        run.data_at = frame.used + _RUN_OVERHEAD
        frame.used = run.data_at
        if frame.first_sequence < 0:
            frame.first_sequence = run.sequence
        self._run = run
        return run

    def _close_run(self) -> None:
        run = self._run
        if run is None:
            return
        self._run = None
        frame = run.frame
        assert frame is not None
        ENTRY_HEADER.pack_into(frame.view, run.at, _RUN_HEAD + run.length, WHOLE)
        codec.RUN.pack_into(
            frame.view,
            run.at + ENTRY_HEADER.size,
            OperationKind.APPEND_RUN,
            codec.VERSION,
            0,
            run.sequence,
            run.segment.segment_id,
            run.offset,
            run.owner.writer_id,
            run.last_event_number,
            run.event_count,
            run.length,
        )
        frame.items.append(run)
        self._stats.runs += 1
        self._stats.bytes_appended += run.length

    def _write_large_run(self, run: OpenRun) -> None:
        assert run.pieces is not None
        operation = ops.AppendRun(
            run.sequence,
            run.segment.segment_id,
            run.offset,
            run.owner.writer_id,
            run.last_event_number,
            run.event_count,
            run.pieces,
        )
        encoded = codec.encode(operation)
        written = self._builder.write(encoded, _RUN_HEAD + run.length, run, run.sequence)
        assert written, "can_accept counted the frames"
        self._stats.runs += 1
        self._stats.bytes_appended += run.length

    def end_of_read(self) -> None:
        """A connection has handed over all it had: its blocks form one run."""
        if self._run is not None:
            self._close_run()

    # -------------------------------------------------------------------------------------- other operations

    def submit(self, propose: Propose, size_bytes: int = 0, *, critical: bool = False) -> asyncio.Future[Any]:
        """Queue a request; the future gives its Ticket once durable, or the error of ``propose``.

        ``size_bytes`` is an upper bound of payload and values. The request is decided at once, in call
        order, if
        there is room and nothing waits in front of it. Critical requests overtake those that wait, and are
        not held back by memory pressure.

        Raises (through the future):
            ContainerOfflineError: this owner has ended and the request had not begun.
            WalWriteError: it may have happened.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._failed is not None:
            future.set_exception(ContainerOfflineError("the container has stopped"))
            return future
        request = _Request(propose, size_bytes + _REQUEST_OVERHEAD, future)
        if self._builder.frames_needed(request.size_bytes) > self._pool_size():
            future.set_exception(EventTooLargeError(size_bytes, self._pool_size() * MIB))
            return future
        queue = self._queues[0 if critical else 1]
        waiting = self._queues[0] or (not critical and self._queues[1])
        if waiting or not self._admit(request, critical=critical):
            if len(queue) >= self._limits.requests_max:
                future.set_exception(ContainerOfflineError("too many requests wait; send again"))
            else:
                queue.append(request)
        return future

    def _pool_size(self) -> int:
        statistics = self._wal.statistics()
        open_frames = len(self._in_flight) + len(self._builder.ready) + (self._builder.current is not None)
        return statistics.frames_free + open_frames

    def _admit(self, request: _Request, *, critical: bool) -> bool:
        """Decide ``request`` now if there is room. Its error, if any, goes to its future."""
        if not critical and not self._has_memory():
            return False
        if not self._has_frames(request.size_bytes):
            return False
        if request.future.cancelled():
            return True
        self._close_run()
        sequence = self._container.next_sequence()
        try:
            operation = request.propose(sequence)
        except HeadraceError as error:
            request.future.set_exception(error)
            return True
        transitions.accept(self._container, operation)
        pieces = codec.encode(operation)
        ticket = Ticket(operation, request.future)
        written = self._builder.write(pieces, sum(map(len, pieces)), ticket, sequence)
        assert written, "frames were counted above"
        self._stats.operations += 1
        if not self._turn_scheduled:
            self._schedule_turn()
        return True

    def _drain(self) -> None:
        for queue, critical in ((self._queues[0], True), (self._queues[1], False)):
            while queue and self._failed is None:
                if not self._admit(queue[0], critical=critical):
                    return
                queue.popleft()

    # -------------------------------------------------------------------------------------- frames

    def _schedule_turn(self) -> None:
        self._turn_scheduled = True
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self._failed is None:
            self._send()

    def _send(self) -> None:
        builder = self._builder
        wal = self._wal
        while True:
            if builder.ready:
                # Full frames may wait in the log as well: its writers then need not wait for the loop.
                if wal.slots_free <= 0 and len(self._in_flight) >= FRAMES_AHEAD_MAX:
                    return
            else:
                if wal.slots_free <= 0:
                    return  # the open frame goes on filling: that is group commit
                self._close_run()
                builder.seal()
                if not builder.ready:
                    return
            open_frame = builder.take_ready(self._clock.now_ms())
            self._in_flight.append(open_frame)
            self._stats.frames += 1
            wal.append(open_frame.frame, self._on_written)
            for item in open_frame.items:
                if type(item) is Ticket:
                    item.address = open_frame.frame.address

    def _on_written(self, frame: WalFrame, error: Exception | None) -> None:
        if self._failed is not None:
            return
        open_frame = self._in_flight[0]
        assert open_frame.frame is frame, "the WAL answers in submission order"
        if error is not None:
            self.fail(error if isinstance(error, HeadraceError) else WalWriteError(str(error)))
            return
        try:
            self._apply(open_frame)
        except HeadraceError as failure:
            # A durable operation that cannot be made readable ends this owner (CacheFullError, corruption).
            self.fail(failure)
            return
        self._in_flight.popleft()  # not before: whoever waits for a frame that fails has to be told
        self._wal.release_frame(frame)
        self._on_frame_durable(open_frame.used)
        self._send()
        self._release_barriers()

    def _apply(self, frame: OpenFrame) -> None:
        """Make the items of a durable frame visible, then answer their callers, all in log order."""
        time_ms = self._clock.now_ms()
        touched: dict[SegmentState, None] = {}
        read_index = self._read_index
        add_append = self._memory_log.add_append
        for item in frame.items:
            if type(item) is OpenRun:
                segment = item.segment
                data = (
                    frame.view[item.data_at : item.data_at + item.length]
                    if item.pieces is None
                    else memoryview(item.pieces)
                )
                segment.durable_length = item.offset + item.length
                values = segment.attributes
                values[item.owner.writer_id] = item.last_event_number
                values[EVENT_COUNT] = values.get(EVENT_COUNT, 0) + item.event_count
                segment.last_modified_ms = time_ms
                read_index.append(segment, item.offset, data)
                add_append(item.sequence, segment, item.offset, item.length)
                touched[segment] = None
            else:
                make_visible(self._container, item.operation, time_ms, read_index, self._memory_log, touched)
        for segment in touched:
            read_index.on_changed(segment)
        for item in frame.items:
            if type(item) is OpenRun:
                item.owner.on_durable(item.last_event_number, item.request_id, item.offset + item.length)
            elif not item.future.done():
                item.future.set_result(item)

    # -------------------------------------------------------------------------------------- end

    def fail(self, error: HeadraceError) -> None:
        """End this owner: everything not acknowledged has an unknown outcome, everything queued did not
        happen.
        """
        if self._failed is not None:
            return
        self._failed = error
        unknown = WalWriteError(f"the log failed before the acknowledgement: {error}")
        owners: dict[AppendOwner, None] = {}
        frames = [*self._in_flight, *self._builder.ready]
        if self._builder.current is not None:
            frames.append(self._builder.current)
        for frame in frames:
            for item in frame.items:
                if type(item) is OpenRun:
                    owners[item.owner] = None
                elif not item.future.done():
                    item.future.set_exception(unknown)
        if self._run is not None:
            owners[self._run.owner] = None
            self._run = None
        for queue in self._queues:
            for request in queue:
                if not request.future.done():
                    request.future.set_exception(ContainerOfflineError("the container has stopped"))
            queue.clear()
        for owner in owners:
            owner.on_failed(unknown)
        self._wake()
        self._release_barriers()
        self._report_failure(error)

    @property
    def idle(self) -> bool:
        """Whether everything accepted so far is durable (or has failed)."""
        return self._failed is not None or not (
            self._in_flight
            or self._builder.ready
            or self._builder.current is not None
            or self._queues[0]
            or self._queues[1]
        )

    async def flush(self) -> None:
        """Wait until everything accepted so far is durable or has failed."""
        while not self.idle:
            barrier: asyncio.Future[None] = self._loop.create_future()
            self._barriers.append(barrier)
            if not self._turn_scheduled:
                self._schedule_turn()
            await barrier

    def _release_barriers(self) -> None:
        if self._barriers and self.idle:
            barriers, self._barriers = self._barriers, []
            for barrier in barriers:
                if not barrier.done():
                    barrier.set_result(None)

    def statistics(self) -> ProcessorStatistics:
        self._stats.frames_in_flight = len(self._in_flight)
        self._stats.requests_queued = len(self._queues[0]) + len(self._queues[1])
        return self._stats


def make_visible(
    container: ContainerState,
    operation: Operation,
    time_ms: int,
    read_index: ReadIndex,
    memory_log: OperationMemoryLog,
    touched: dict[SegmentState, None],
) -> None:
    """Apply one durable operation to the state, the read index and the memory log. Also what recovery
    runs.
    """
    transitions.apply(container, operation, time_ms)
    match operation:
        case ops.AppendRun() | ops.Append():
            segment = container.by_id[operation.segment_id]
            if len(operation.data):
                read_index.append(segment, operation.offset, memoryview(operation.data))
                memory_log.add_append(operation.sequence, segment, operation.offset, len(operation.data))
        case ops.Seal():
            segment = container.by_id[operation.segment_id]
            memory_log.add(StoredSeal(operation.sequence, segment))
        case ops.Truncate():
            segment = container.by_id[operation.segment_id]
            memory_log.add(StoredTruncate(operation.sequence, segment, operation.offset))
        case ops.Merge():
            segment = container.by_id[operation.segment_id]
            source = container.by_id[operation.source_id]
            read_index.begin_merge(segment, operation.offset, source, operation.length)
            memory_log.add(
                StoredMerge(operation.sequence, segment, source, operation.offset, operation.length)
            )
            touched[source] = None
        case ops.Delete():
            segment = container.by_id[operation.segment_id]
            memory_log.add(StoredDelete(operation.sequence, segment))
        case ops.CheckpointEnd():
            memory_log.add(StoredCheckpoint(operation.sequence))
            return
        case _:
            return
    touched[segment] = None
