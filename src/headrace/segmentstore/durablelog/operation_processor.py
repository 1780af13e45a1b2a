"""Turns requests into durable operations: check, number, serialise, hand to the WAL, apply, answer. In order.

::

    append_block / submit          check against the accepted state, number, copy into the open frame
      send (once per iteration)    close the open batch, hand frames to the WAL while it has a free slot
        on_written                 apply to state, read index and memory log; wake readers; answer callers

Admission is decided in :mod:`headrace.segmentstore.admission`; the parts are modules of their own
(:mod:`.append_batches`, :mod:`.frame_dispatch`, :mod:`.durable_apply`, :mod:`.durable_barriers`). A failed
WAL write ends this owner: the outcome of everything accepted and not yet durable is unknown until recovery.

Source: ``docs/flows/append.md``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.errors import (
    ContainerOfflineError,
    EventTooLargeError,
    HeadraceError,
    ThrottledError,
    WalWriteError,
)
from headrace.runtime.clock import Clock
from headrace.segmentstore.admission.fair_queue import Propose, Request
from headrace.segmentstore.admission.log_admission import LogAdmission
from headrace.segmentstore.admission.throttle.load import WAL_QUEUE
from headrace.segmentstore.admission.urgency import is_urgent
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.durablelog.append_batches import (
    BATCH_OVERHEAD,
    AppendBatches,
    AppendOwner,
    OpenBatch,
)
from headrace.segmentstore.durablelog.durable_apply import DurableApply, Ticket
from headrace.segmentstore.durablelog.durable_barriers import DurableBarriers
from headrace.segmentstore.durablelog.frame_builder import Buffer, FrameBuilder
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER
from headrace.segmentstore.durablelog.log_load import LogLoad, ProcessorLimits
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.next_iteration import NextIteration
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.segmentstore.operations import codec
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.contract import Wal

_logger = logging.getLogger(__name__)

__all__ = ["AppendOwner", "OperationProcessor", "ProcessorLimits", "ProcessorStatistics", "Propose"]

_REQUEST_OVERHEAD: Final = 128
"""Upper bound of the bytes of an operation besides its payload, values and names."""


class OperationProcessor:
    """The only writer of a container's log. Used on the container's loop only."""

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
        self._container = container
        self._report_failure = on_failed
        self._on_frame_durable = on_frame_durable
        self._failed: HeadraceError | None = None
        self._barriers = DurableBarriers()
        self._loop = asyncio.get_running_loop()
        self._stats = ProcessorStatistics()
        self._builder = FrameBuilder(wal, read_index.set_aside)
        self._next_iteration = NextIteration(self._loop)
        self._batches = AppendBatches(container, self._builder, self._next_iteration, self._stats)
        self._dispatch = FrameDispatch(
            wal,
            self._builder,
            self._batches,
            self._next_iteration,
            DurableApply(container, read_index, memory_log, clock),
            clock,
            self._stats,
            on_durable=self._on_durable,
            on_failed=self.fail,
        )
        load = LogLoad(limits, read_index=read_index, memory_log=memory_log, dispatch=self._dispatch, wal=wal)
        self._admission = LogAdmission(
            self._loop,
            self._builder,
            frames_in_use=lambda: self._dispatch.frames_in_use,
            has_memory=load.has_memory,
            measure_delay=load.measure_delay,
            decide=self._decide,
            config=limits.throttle,
            requests_max=limits.requests_max,
            block_overhead=BATCH_OVERHEAD,
        )
        self.append_block: Final = self._batches.append_block
        """See :meth:`AppendBatches.append_block`; an attribute, which saves each append a call."""
        self.end_of_read: Final = self._batches.close
        """A connection has handed over all blocks of a read: its open batch ends."""
        self.can_accept: Final = self._admission.can_accept
        """See :meth:`LogAdmission.can_accept`."""
        self.wait_capacity: Final = self._admission.wait
        """See :meth:`LogAdmission.wait`."""
        wal.set_on_frame_free(self._admission.wake)

    def wait_durable(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, on the loop, when everything accepted so far is durable, or has failed."""
        if self._dispatch.frames_in_use and self._failed is None:
            self._barriers.add(self._stats.frames_durable + self._dispatch.frames_in_use, resume)
            self._next_iteration.schedule()
        else:
            self._loop.call_soon(resume)

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        """The connection that waits with ``resume``, for capacity or durability, is closed."""
        self._admission.stop_waiting(resume)
        self._barriers.remove(resume)

    @property
    def waits_for_storage(self) -> bool:
        """Whether appends are delayed until something is stored. Cheap."""
        throttle = self._admission.throttle
        return throttle.active and throttle.source != WAL_QUEUE

    def on_memory_freed(self) -> None:
        """The storage writer has freed memory: requests and connections may be served."""
        self._admission.throttle.update()
        self._admission.wake()

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
        order, unless the log is full or other requests wait. It is urgent if it is ``critical``, or by its
        ``segments`` (the changed one first) and whether it ``deletes`` that. Urgent requests wait for frames
        only.

        Raises (through the future):
            ContainerOfflineError: this owner has ended and the request had not begun.
            ThrottledError: too many requests wait, or there is no memory for a frame; it had not begun.
            EventTooLargeError: it is larger than all frames of the log together.
            WalWriteError: it may have happened.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        urgent = critical or is_urgent(segments, deletes=deletes)
        if self._failed is not None or (self._batches.ended and not urgent):
            future.set_exception(ContainerOfflineError("the container has stopped"))
            return future
        request = Request(propose, size_bytes + _REQUEST_OVERHEAD, future, segments, is_urgent=urgent)
        try:
            self._admission.submit(request)
        except (EventTooLargeError, ThrottledError) as error:
            future.set_exception(error)
        return future

    def _decide(self, request: Request) -> bool:
        """Begin ``request``, for which there are frames; its error, if any, goes to its future. False if it
        needs more frames than are free.
        """
        self._batches.close()
        try:
            self._builder.prepare(request.size_bytes)  # propose may change its caller's state
            sequence = self._container.next_sequence()
            operation = request.propose(sequence)
            pieces = codec.encode(operation)
            size = sum(map(len, pieces))
            if size + ENTRY_HEADER.size > request.size_bytes:
                self._admission.check_fits(size)
                request.size_bytes = size + ENTRY_HEADER.size  # the bound was too low; nothing has changed
                if not self._admission.has_frames(request.size_bytes, is_urgent=True):
                    return False
                self._builder.prepare(size)
        except Exception as error:  # noqa: BLE001 - the error of one request is its caller's
            request.future.set_exception(error)
            return True
        try:
            self._accept(Ticket(operation, request.future), pieces, size, sequence)
        except BaseException as error:
            # The accepted state has an operation that the log lacks. No later operation may reach the log:
            # it could not be recovered.
            failure = WalWriteError(f"an accepted operation was not handed to the log: {error!r}")
            request.future.set_exception(failure)
            self.fail(failure)
            if not isinstance(error, Exception):
                raise
        return True

    def _accept(self, ticket: Ticket, pieces: Sequence[Buffer], size: int, sequence: int) -> None:
        transitions.accept(self._container, ticket.operation)
        written = self._builder.write(pieces, size, ticket, sequence)
        assert written, "frames were counted above"
        self._stats.operations += 1
        if not self._next_iteration.scheduled:
            self._next_iteration.schedule()

    # -------------------------------------------------------------------------------------- durable, or end

    def _on_durable(self, size_bytes: int) -> None:
        self._on_frame_durable(size_bytes)
        self._dispatch.send()
        self._admission.throttle.update()
        self._barriers.release(self._stats.frames_durable)

    def end_intake(self) -> None:
        """Accept only urgent requests, refuse those that wait, resume connections: the container stops.

        What was accepted still becomes durable; storage may commit rows until the end.
        """
        self._batches.close()
        self._batches.ended = True
        self._admission.end(include_lane=False)

    def close(self) -> None:
        """Accept nothing more. The outcome of what is not durable is unknown."""
        if self._failed is None:
            self._end(ContainerOfflineError("the container has stopped"))

    def fail(self, error: HeadraceError) -> None:
        """End this owner: the outcome of everything not acknowledged is unknown, everything queued did not
        happen.
        """
        if self._failed is None:
            self._end(error)
            self._report_failure(error)

    def _end(self, error: HeadraceError) -> None:
        self._failed = error
        unknown = WalWriteError(f"the log failed before the acknowledgement: {error}")
        owners: dict[AppendOwner, None] = {}
        for item in self._dispatch.end():
            if type(item) is OpenBatch:
                owners[item.owner] = None
            elif not item.future.done():
                item.future.set_exception(unknown)
        if (owner := self._batches.end()) is not None:
            owners[owner] = None
        self._admission.end(include_lane=True)
        for owner in owners:
            try:
                owner.on_failed(unknown)
            except Exception:  # a bug of that connection: the others are notified all the same
                _logger.exception("the owner of an append failed when it was told of the end of the log")
        self._barriers.release(None)

    @property
    def has_ended(self) -> bool:
        """Whether every further append block is refused."""
        return self._batches.ended

    async def flush(self) -> None:
        """Wait until everything accepted before this call is durable or has failed.

        Queued requests are not accepted, so not waited for; neither is what is accepted later.
        """
        if self._failed is None and self._dispatch.frames_in_use:
            durable = asyncio.Event()
            self.wait_durable(durable.set)
            try:
                await durable.wait()
            finally:
                self._barriers.remove(durable.set)

    def statistics(self) -> ProcessorStatistics:
        stats = self._stats
        stats.frames_in_flight = self._dispatch.frames_in_flight
        waiting = self._admission.statistics()
        stats.urgent_queued = waiting.urgent
        stats.requests_queued = waiting.urgent + waiting.requests
        stats.connections_waiting = waiting.connections
        stats.capacity_waits = self._admission.waits
        stats.throttle = self._admission.throttle.statistics()
        return stats

    def check(self) -> None:
        """Assert the invariants of the parts, and that no callback waits for what has ended."""
        self._admission.check()
        assert self._failed is None or not (self._admission.count or self._barriers.count)
