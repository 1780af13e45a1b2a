"""Turns requests into durable operations: check, number, serialise, hand to the WAL, apply, answer. In order.

::

    append_block / submit          check against the accepted state, number, copy into the open frame
      send (once per loop turn)    close the open run, hand frames to the WAL while it has a free slot
        on_written                 apply to state, read index and memory log; wake readers; answer callers

This module decides who may enter, and what happens at the end; the parts are modules of their own
(:mod:`.append_runs`, :mod:`.request_queue`, :mod:`.frame_dispatch`, :mod:`.durable_apply`). The bounded pool
of frames is the back-pressure. A failed WAL write is the end of this owner: everything accepted and not yet
durable has an unknown outcome, and recovery decides.

Source: ``docs/flows/append.md``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import ContainerOfflineError, EventTooLargeError, HeadraceError, WalWriteError
from headrace.limits import MIB
from headrace.runtime.clock import Clock
from headrace.segmentstore.container import transitions
from headrace.segmentstore.container.container_state import ContainerState
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.durablelog.append_runs import RUN_OVERHEAD, AppendOwner, AppendRuns, OpenRun
from headrace.segmentstore.durablelog.durable_apply import DurableApply
from headrace.segmentstore.durablelog.frame_builder import FrameBuilder
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.loop_turn import LoopTurn
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.segmentstore.durablelog.request_queue import Propose, Request, RequestQueue, Ticket
from headrace.segmentstore.operations import codec
from headrace.wal.contract import Wal

__all__ = ["AppendOwner", "OperationProcessor", "ProcessorLimits", "ProcessorStatistics", "Propose"]

_REQUEST_OVERHEAD: Final = 128
"""Upper bound of what an operation takes besides its payload, values and names."""


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
        self._limits = limits
        self._report_failure = on_failed
        self._on_frame_durable = on_frame_durable
        self._waiters: deque[Callable[[], None]] = deque()
        self._failed: HeadraceError | None = None
        self._barriers: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._stats = ProcessorStatistics()
        self._queue = RequestQueue(limits.requests_max)
        self._builder = FrameBuilder(wal)
        self._turn = LoopTurn(self._loop)
        self._runs = AppendRuns(container, self._builder, self._turn, self._stats)
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
        self.append_block: Final = self._runs.append_block
        """See :meth:`AppendRuns.append_block`; here so that an append costs no call more than that one."""
        self.end_of_read: Final = self._runs.close
        """A connection has handed over all it had: its blocks form one run."""
        wal.set_on_frame_free(self._on_frame_free)

    # -------------------------------------------------------------------------------------- capacity

    def can_accept(self, size_bytes: int) -> bool:
        """Whether an append of ``size_bytes`` would find room now. Cheap: asked for every block.

        True once this owner has failed: the append then raises ContainerOfflineError instead of waiting for
        ever.
        """
        if self._failed is not None:
            return True
        if self._queue.count:
            return False
        return self._has_frames(size_bytes + RUN_OVERHEAD) and self._has_memory()

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
        self._drain()
        self._wake()

    def _wake(self) -> None:
        waiters = self._waiters
        if waiters and (self._failed is not None or self._has_memory()):
            self._waiters = deque()
            for resume in waiters:
                self._loop.call_soon(resume)

    # -------------------------------------------------------------------------------------- requests

    def submit(self, propose: Propose, size_bytes: int = 0, *, critical: bool = False) -> asyncio.Future[Any]:
        """Queue a request; the future gives its Ticket once durable, or the error of ``propose``.

        ``size_bytes`` is an upper bound of payload and values. The request is decided at once, in call
        order, if there is room and nothing waits in front of it. Critical requests overtake those that wait,
        and are not held back by memory pressure.

        Raises (through the future):
            ContainerOfflineError: this owner has ended and the request had not begun.
            WalWriteError: it may have happened.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._failed is not None:
            future.set_exception(ContainerOfflineError("the container has stopped"))
            return future
        request = Request(propose, size_bytes + _REQUEST_OVERHEAD, future, critical=critical)
        if self._builder.frames_needed(request.size_bytes) > self._pool_size():
            future.set_exception(EventTooLargeError(size_bytes, self._pool_size() * MIB))
            return future
        waiting = self._queue.has_before(critical=critical)
        if (waiting or not self._admit(request)) and not self._queue.push(request):
            future.set_exception(ContainerOfflineError("too many requests wait; send again"))
        return future

    def _pool_size(self) -> int:
        return self._wal.statistics().frames_free + self._dispatch.frames_held

    def _admit(self, request: Request) -> bool:
        """Decide ``request`` now if there is room. Its error, if any, goes to its future."""
        if not request.critical and not self._has_memory():
            return False
        if not self._has_frames(request.size_bytes):
            return False
        if request.future.cancelled():
            return True
        self._runs.close()
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
        if not self._turn.scheduled:
            self._turn.schedule()
        return True

    def _drain(self) -> None:
        if self._failed is None:
            self._queue.drain(self._admit)

    # -------------------------------------------------------------------------------------- durable, or end

    def _on_durable(self, size_bytes: int) -> None:
        self._on_frame_durable(size_bytes)
        self._dispatch.send()
        self._release_barriers()

    def fail(self, error: HeadraceError) -> None:
        """End this owner: everything not acknowledged has an unknown outcome, everything queued did not
        happen.
        """
        if self._failed is not None:
            return
        self._failed = error
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
            owner.on_failed(unknown)
        self._wake()
        self._release_barriers()
        self._report_failure(error)

    @property
    def idle(self) -> bool:
        """Whether everything accepted so far is durable (or has failed)."""
        return self._failed is not None or not (self._dispatch.frames_held or self._queue.count)

    async def flush(self) -> None:
        """Wait until everything accepted so far is durable or has failed."""
        while not self.idle:
            barrier: asyncio.Future[None] = self._loop.create_future()
            self._barriers.append(barrier)
            self._turn.schedule()
            await barrier

    def _release_barriers(self) -> None:
        if self._barriers and self.idle:
            barriers, self._barriers = self._barriers, []
            for barrier in barriers:
                if not barrier.done():
                    barrier.set_result(None)

    def statistics(self) -> ProcessorStatistics:
        self._stats.frames_in_flight = self._dispatch.frames_in_flight
        self._stats.requests_queued = self._queue.count
        return self._stats
