"""Turns requests into durable operations: check, number, serialise, hand to the WAL, apply, answer. In order.

::

    append_block / submit          check against the accepted state, number, copy into the open frame
      send (once per loop turn)    close the open run, hand frames to the WAL while it has a free slot
        on_written                 apply to state, read index and memory log; wake readers; answer callers

This module decides who may enter, and what happens at the end; the parts are modules of their own
(:mod:`.append_runs`, :mod:`.request_queue`, :mod:`.waiting_blocks`, :mod:`.frame_supply`,
:mod:`.frame_dispatch`, :mod:`.durable_apply`, :mod:`.throttle`).
Back-pressure has two steps: a throttle that slows a loaded container down, and hard bounds - the pool of
frames, bytes and operations that storage does not hold yet - at which it stops. A failed WAL write is the end
of this owner: everything accepted and not yet durable has an unknown outcome, and recovery decides.

Source: ``docs/flows/append.md``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.errors import (
    ContainerOfflineError,
    EventTooLargeError,
    HeadraceError,
    ThrottledError,
    WalWriteError,
)
from headrace.limits import MIB
from headrace.runtime.clock import Clock
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.durablelog.append_runs import RUN_OVERHEAD, AppendOwner, AppendRuns, OpenRun
from headrace.segmentstore.durablelog.durable_apply import DurableApply
from headrace.segmentstore.durablelog.frame_builder import Buffer, FrameBuilder
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.frame_supply import FrameSupply
from headrace.segmentstore.durablelog.kept_frames import KeptFrames
from headrace.segmentstore.durablelog.loop_turn import LoopTurn
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.priority import DELAYED_FROM, Priority, priority_of
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.segmentstore.durablelog.request_queue import Propose, Request, RequestQueue, Ticket
from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig
from headrace.segmentstore.durablelog.throttle.gate import RECHECK_S, ThrottleGate
from headrace.segmentstore.durablelog.throttle.sources import ThrottleSources
from headrace.segmentstore.durablelog.waiting_blocks import WaitingBlocks
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.contract import Wal

_logger = logging.getLogger(__name__)

__all__ = ["AppendOwner", "OperationProcessor", "ProcessorLimits", "ProcessorStatistics", "Propose"]

_REQUEST_OVERHEAD: Final = 128
"""Upper bound of what an operation takes besides its payload, values and names."""

_BEGUN_AT_ONCE: Final = 256
"""Waiting requests that begin in one turn of the loop: 10,000 of them take 0.15 s."""


@dataclass(slots=True)
class ProcessorLimits:
    """Bounds of one processor."""

    requests_max: int = 10_000
    unstored_bytes_max: int = 256 * MIB
    throttle: ThrottleConfig = field(default_factory=ThrottleConfig)


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
        self._limits = limits
        self._report_failure = on_failed
        self._on_frame_durable = on_frame_durable
        self._memory_timer: asyncio.TimerHandle | None = None
        self._goes_on = False
        """Whether requests that may find room are looked at again in the next turn."""
        self._failed: HeadraceError | None = None
        self._barriers: dict[asyncio.Future[None], int] = {}
        """Who waits until so many frames are durable, in that order."""
        self._loop = asyncio.get_running_loop()
        self._stats = ProcessorStatistics()
        self._queue = RequestQueue(limits.requests_max)
        self._blocks = WaitingBlocks(self._loop, self._stats, self._on_blocks_asked, self._has_room)
        self._builder = FrameBuilder(wal)
        self._turn = LoopTurn(self._loop)
        self._runs = AppendRuns(container, self._builder, read_index, self._turn, self._stats)
        self._dispatch = FrameDispatch(
            wal,
            self._builder,
            self._runs,
            self._turn,
            DurableApply(container, read_index, memory_log, clock),
            clock,
            self._stats,
            on_durable=self._on_durable,
            on_failed=self.fail,
        )
        self._kept = KeptFrames(self._loop, wal, self._dispatch, self._stats, self._ask_kept)
        self._frames = FrameSupply(wal, self._builder, self._dispatch, self._kept, self._blocks)
        sources = ThrottleSources(
            limits.throttle,
            read_index=read_index,
            memory_log=memory_log,
            dispatch=self._dispatch,
            wal=wal,
            unstored_bytes_max=limits.unstored_bytes_max,
        )
        self._throttle = ThrottleGate(
            self._loop,
            burst_bytes=limits.throttle.burst_bytes,
            delay_max_s=limits.throttle.delay_max_s,
            measure=sources.measure,
            on_open=self._on_room,
        )
        self.append_block: Final = self._runs.append_block
        """See :meth:`AppendRuns.append_block`; here so that an append costs no call more than that one."""
        self.end_of_read: Final = self._runs.close
        """A connection has handed over all it had: its blocks form one run."""
        wal.set_on_frame_free(self._on_room)
        read_index.set_accepted(self._dispatch.count_bytes_held)

    # -------------------------------------------------------------------------------------- capacity

    def can_accept(self, size_bytes: int) -> bool:
        """Whether an append of ``size_bytes`` finds room now; the caller then appends. Asked for every block.

        True once this owner takes no more, or if there will never be room: the append then raises instead of
        waiting for ever.
        """
        if self._runs.ended:
            return True
        size_in_frame = size_bytes + RUN_OVERHEAD
        queue = self._queue
        if queue.count and (queue.has_urgent or not self._frames.passes_requests(size_in_frame)):
            return False
        frame = self._builder.current
        return (
            (
                (frame is not None and frame.used + size_in_frame <= frame.capacity)
                or self._frames.suffices_for_block(size_in_frame)
            )
            and self._has_memory(size_bytes)
            and (not self._throttle.active or self._throttle.enter(size_bytes))
        )

    def _has_memory(self, size_bytes: int = 0) -> bool:
        return (
            len(self._memory_log) < self._memory_log.count_max
            and self._read_index.unstored_bytes(size_bytes) < self._limits.unstored_bytes_max
        )

    def _ask_kept(self) -> None:
        """Let a large block ask once more, before anybody smaller, since all frames are back."""
        if self._blocks.in_round:
            self._loop.call_soon(self._ask_kept)
            return
        self._on_room()
        self._loop.call_soon(self._stop_keeping)

    def _stop_keeping(self) -> None:
        self._kept.stop(everybody_asked=self._may_wake())
        self._on_room()

    def wait_capacity(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, later on the loop, when something has been freed."""
        self._stats.capacity_waits += 1
        self._blocks.add(resume)
        if self._runs.ended:
            self._wake()
        else:
            self._watch_memory()

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        """Who waits with ``resume`` is gone."""
        self._blocks.remove(resume)

    def on_memory_freed(self) -> None:
        """The storage writer has moved bytes on: requests and connections may go on."""
        self._throttle.update()
        self._on_room()

    def _on_room(self) -> None:
        """A frame came back, memory was freed or the throttle opened: whoever waits goes on."""
        blocks = self._blocks
        if blocks.in_round:
            blocks.room_came = True  # for those who ask, and then for whoever's turn it is
            self._begin_waiting(DELAYED_FROM)
            return
        may_wake = bool(blocks.count) and self._may_wake()
        have_turn = may_wake and blocks.are_first
        self._drain(DELAYED_FROM if have_turn else len(Priority))
        if may_wake and self._may_wake():
            blocks.are_first &= not have_turn
            blocks.begin_round(have_turn=have_turn or not self._queue.count)
        self._watch_memory()

    def _drain(self, end: int) -> None:
        """Let requests that wait in the lines in front of ``end`` go on. The next turn is the blocks'."""
        queue = self._queue
        if queue.count:
            delayed = queue.count_from(DELAYED_FROM)
            self._begin_waiting(end)
            if self._blocks.count and queue.count_from(DELAYED_FROM) < delayed:
                self._blocks.are_first = True

    def _begin_waiting(self, end: int) -> None:
        """Let requests in front of ``end`` begin that find room; many of them go on in the next turn."""
        if not self._goes_on and self._queue.drain(self._admit, end, _BEGUN_AT_ONCE):
            self._goes_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        self._on_room()

    def _on_blocks_asked(self) -> None:
        """Every connection that waited has asked: requests take what is left."""
        waited = self._queue.count
        room_came, self._blocks.room_came = self._blocks.room_came, False
        if not room_came:
            self._drain(len(Priority))
        if room_came or (waited and not self._queue.count):
            self._on_room()

    def _watch_memory(self) -> None:
        """Look again soon if somebody waits for memory: other containers free the cache without telling."""
        if (
            self._memory_timer is None
            and (self._blocks.count or self._queue.count)
            and not self._runs.ended
            and not self._has_memory()
        ):
            self._memory_timer = self._loop.call_later(RECHECK_S, self._look_for_memory)

    def _look_for_memory(self) -> None:
        self._memory_timer = None
        if not self._runs.ended:
            self.on_memory_freed()

    def _wake(self) -> None:
        if self._blocks.count and self._may_wake():
            self._blocks.call()

    def _may_wake(self) -> bool:
        return self._runs.ended or (not self._throttle.closed and self._has_memory())

    def _has_room(self) -> bool:
        """Whether a block might go in that does not fit the open frame."""
        return self._runs.ended or (self._wal.frames_free > 0 and self._may_wake())

    # -------------------------------------------------------------------------------------- requests

    def submit(
        self,
        propose: Propose,
        size_bytes: int = 0,
        *,
        segments: tuple[SegmentState, ...] = (),
        deletes: bool = False,
        critical: bool = False,
    ) -> asyncio.Future[Any]:
        """Queue a request; the future gives its Ticket once durable, or the error of ``propose``.

        ``size_bytes`` is an upper bound of payload and values. The request is decided at once, in call
        order, if there is room, nothing waits in front of it and its turn does not belong to blocks. What it
        concerns, ``segments`` (the one that changes first) and whether it ``deletes`` that, gives its
        priority, unless it is ``critical`` by itself. Requests of the two most urgent priorities are held
        back by nothing but a lack of frames.

        Raises (through the future):
            ContainerOfflineError: this owner has ended and the request had not begun.
            ThrottledError: too many requests wait, or there is no memory for a frame; it had not begun.
            EventTooLargeError: all frames of the log together cannot hold it.
            WalWriteError: it may have happened.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        priority = _priority(segments, deletes=deletes, critical=critical)
        if self._failed is not None or (self._runs.ended and priority >= DELAYED_FROM):
            future.set_exception(ContainerOfflineError("the container has stopped"))
            return future
        request = Request(propose, size_bytes + _REQUEST_OVERHEAD, future, priority, segments)
        try:
            self._frames.check_fits(request.size_bytes)
        except EventTooLargeError as error:
            future.set_exception(error)
            return future
        if self._queue.count:
            line = self._queue.line_of(request)
            waits = self._queue.has_before(line) or not self._admit(request)
        else:
            line = priority
            waits = not self._admit(request)
        if waits and not self._queue.push(request, line):
            future.set_exception(
                ThrottledError("too many requests wait, and this one was not begun: send again")
            )
        elif waits:
            self._watch_memory()
        return future

    def _admit(self, request: Request) -> bool:
        """Decide ``request`` now if there is room. Its error, if any, goes to its future."""
        if request.future.done():
            return True  # cancelled while it waited
        delayed = request.priority >= DELAYED_FROM
        if delayed and (self._throttle.closed or not self._has_memory(request.size_bytes)):
            return False
        if not self._frames.suffices(request.size_bytes):
            return False
        if delayed and not self._frames.leaves_blocks(request.size_bytes):
            return False
        if delayed and self._throttle.active and not self._throttle.enter(request.size_bytes):
            return False
        self._runs.close()
        try:
            self._builder.prepare(request.size_bytes)  # proposing may change what only its caller knows of
            sequence = self._container.next_sequence()
            operation = request.propose(sequence)
            pieces = codec.encode(operation)
            size = sum(map(len, pieces))
            if size > request.size_bytes:
                self._frames.check_fits(size)
                if not self._frames.suffices(size):
                    request.size_bytes = size  # the caller's bound was none; nothing has changed yet
                    return False
                self._builder.prepare(size)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one request is its caller's
            request.future.set_exception(error)
            return True
        ticket = Ticket(operation, request.future)
        try:
            self._accept(ticket, pieces, size, sequence)
        except BaseException as error:
            self._end_by_mistake(request, error)
            if not isinstance(error, Exception):
                raise
        return True

    def _accept(self, ticket: Ticket, pieces: Sequence[Buffer], size: int, sequence: int) -> None:
        """Let an operation change the accepted state, and hand it to the log."""
        operation = ticket.operation
        if type(operation) is ops.Append:
            segment = self._container.by_id[operation.segment_id]
            segment.appends_in_flight += 1
            if segment.appends_in_flight == 1:
                self._read_index.expect_tails(1)
        elif type(operation) is ops.Merge and self._container.by_id[operation.segment_id].appends_in_flight:
            ticket.is_expected = True  # what is appended behind it begins an extent of its own
            self._read_index.expect_tails(1)
        transitions.accept(self._container, operation)
        written = self._builder.write(pieces, size, ticket, sequence)
        assert written, "frames were counted above"
        self._stats.operations += 1
        if not self._turn.scheduled:
            self._turn.schedule()

    def _end_by_mistake(self, request: Request, error: BaseException) -> None:
        """End this owner, since the accepted state has an operation that the log lacks. Nothing that builds
        on it may reach the log: it could never be recovered.
        """
        failure = WalWriteError(f"an accepted operation was not handed to the log: {error!r}")
        request.future.set_exception(failure)
        self.fail(failure)

    # -------------------------------------------------------------------------------------- durable, or end

    def _on_durable(self, size_bytes: int) -> None:
        self._on_frame_durable(size_bytes)
        self._dispatch.send()
        self._throttle.update()
        self._release_barriers()

    def end_intake(self) -> None:
        """Take nothing more but what is critical, and tell all others who wait: the container stops.

        What was accepted goes on to become durable; storage may commit rows until the very end.
        """
        self._throttle.end()
        self._runs.close()
        self._runs.ended = True
        self._queue.end(DELAYED_FROM)
        self._wake()

    def close(self) -> None:
        """Take nothing more at all. What is not durable by now has an unknown outcome."""
        if self._failed is None:
            self._end(ContainerOfflineError("the container has stopped"))

    def fail(self, error: HeadraceError) -> None:
        """End this owner: everything not acknowledged has an unknown outcome, everything queued did not
        happen.
        """
        if self._failed is None:
            self._end(error)
            self._report_failure(error)

    def _end(self, error: HeadraceError) -> None:
        self._failed = error
        self._throttle.end()
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        unknown = WalWriteError(f"the log failed before the acknowledgement: {error}")
        owners: dict[AppendOwner, None] = {}
        for item in self._dispatch.end():
            if type(item) is OpenRun:
                owners[item.owner] = None
            elif not item.future.done():
                item.future.set_exception(unknown)
        if (owner := self._runs.end()) is not None:
            owners[owner] = None
        self._queue.end()
        for owner in owners:
            try:
                owner.on_failed(unknown)
            except Exception:  # a bug of that connection: the others are told all the same
                _logger.exception("the owner of an append failed when it was told of the end of the log")
        self._wake()
        self._release_barriers()

    @property
    def has_ended(self) -> bool:
        """Whether every further append block is refused."""
        return self._runs.ended

    @property
    def idle(self) -> bool:
        """Whether everything accepted so far is durable (or has failed), and nothing waits."""
        return self._failed is not None or not (self._dispatch.frames_held or self._queue.count)

    async def flush(self) -> None:
        """Wait until everything accepted before this call is durable or has failed.

        Requests that wait for room are not accepted; what is accepted later is not waited for.
        """
        if self._failed is None and self._dispatch.frames_held:
            barrier: asyncio.Future[None] = self._loop.create_future()
            self._barriers[barrier] = self._stats.frames_durable + self._dispatch.frames_held
            self._turn.schedule()
            try:
                await barrier
            finally:
                self._barriers.pop(barrier, None)  # the log may stand still for hours, and many give up

    def _release_barriers(self) -> None:
        released: list[asyncio.Future[None]] = []
        for barrier, frames in self._barriers.items():
            if self._failed is None and frames > self._stats.frames_durable:
                break
            released.append(barrier)
        for barrier in released:
            del self._barriers[barrier]
            if not barrier.done():
                barrier.set_result(None)

    def statistics(self) -> ProcessorStatistics:
        stats = self._stats
        stats.frames_in_flight = self._dispatch.frames_in_flight
        stats.requests_queued = self._queue.count
        stats.requests_by_priority = self._queue.statistics()
        stats.throttle = self._throttle.statistics()
        return stats

    def check(self) -> None:
        """Assert the invariants of the parts, that nobody waits for what has ended, and that what is in
        flight is in a frame.
        """
        self._queue.check()
        self._throttle.check()
        assert self._failed is None or not (self._queue.count or self._blocks.count or self._barriers)
        if self._failed is None and not self._dispatch.frames_held:
            assert not any(segment.appends_in_flight for segment in self._container.by_id.values())


def _priority(segments: tuple[SegmentState, ...], *, deletes: bool, critical: bool) -> Priority:
    if critical:
        return Priority.SYSTEM_CRITICAL
    if segments:
        return priority_of(segments[0].type_bits, system=segments[0].is_system, deletes=deletes)
    return Priority.NORMAL
