"""Decides whether an append or a request may enter one container's log now, and serves those that wait.

Three bounds, each in bytes, are checked in this order::

    frames     received and not durable    a block or request fits the open frame, or fresh ones are free
    memory     durable and not stored      before a fresh frame is opened: unstored bytes, what the cache has
                                           free beside the frames in flight, operations in memory
    throttle   all of these, before that   a loaded container admits a burst at a time

What fits the open frame needs no further memory: the cache reserved it when the frame was opened, so applying
durable operations never fails for lack of it. What is not admitted waits in a :class:`FairQueue`.

Source: ``docs/flows/append.md``, "Admission".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from headrace.errors import EventTooLargeError, ThrottledError
from headrace.segmentstore.admission.fair_queue import FairQueue, QueueStatistics, Request, Resume
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.admission.throttle.gate import RECHECK_S, ThrottleGate

SERVED_MAX: Final = 256
"""Items served in one iteration of the loop: 10,000 small requests take 0.15 s."""


class FrameContent(Protocol):
    """The frame that is being filled."""

    capacity: int
    used: int


class LogFrames(Protocol):
    """The frames of one log."""

    @property
    def content_bytes_max(self) -> int:
        """Bytes that fit into one frame."""

    @property
    def current(self) -> FrameContent | None:
        """The frame that is open, if one is."""

    @property
    def frames_free(self) -> int:
        """Number of free frames."""

    def frames_needed(self, size_bytes: int) -> int:
        """How many fresh frames a block larger than one may take in the worst case."""


class LogAdmission:
    """The admission of one log. Runs on the container's loop.

    ``decide`` begins a request for which there are frames; False if it is larger than its stated bound.
    """

    __slots__ = (
        "_decide",
        "_ended",
        "_frames",
        "_frames_in_use",
        "_has_memory",
        "_loop",
        "_overhead",
        "_queue",
        "_recheck",
        "_scheduled",
        "_serving_connection",
        "throttle",
        "waits",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        frames: LogFrames,
        *,
        frames_in_use: Callable[[], int],
        has_memory: Callable[[], bool],
        measure_delay: Callable[[], tuple[float, str]],
        decide: Callable[[Request], bool],
        config: ThrottleConfig,
        requests_max: int,
        block_overhead: int,
    ) -> None:
        """``frames_in_use`` counts frames that are not free, ``has_memory`` says whether a fresh one may be
        opened; ``block_overhead`` is what a block takes in a frame besides its payload, in bytes; the bounds
        of requests include it.
        """
        self._loop = loop
        self._frames = frames
        self._frames_in_use = frames_in_use
        self._has_memory = has_memory
        self._decide = decide
        self._overhead = block_overhead
        self._queue = FairQueue(requests_max)
        self._serving_connection = False
        """Whether the connection at the head of the queue is being served."""
        self._scheduled = False
        self._recheck: asyncio.TimerHandle | None = None
        self._ended = False
        self.throttle = ThrottleGate(
            loop,
            burst_bytes=config.burst_bytes,
            delay_max_s=config.delay_max_s,
            measure=measure_delay,
            on_open=self.wake,
        )
        self.waits = 0
        """How often a connection had to wait."""

    # -------------------------------------------------------------------------------------- asking

    def can_accept(self, size_bytes: int) -> bool:
        """Whether an append of ``size_bytes`` is admitted now; the caller then appends. Called per block.

        True once this owner has ended, or if the block is larger than all frames: the append then raises
        instead of waiting for ever.
        """
        if self._ended:
            return True
        if self._queue.count and not self._serving_connection:
            return False
        size_in_frame = size_bytes + self._overhead
        frame = self._frames.current  # also in has_frames: this is the hottest check of the write path
        if (frame is None or frame.used + size_in_frame > frame.capacity) and not self.has_frames(
            size_in_frame, is_urgent=False
        ):
            return False
        throttle = self.throttle
        return not throttle.active or throttle.enter(size_bytes)

    def check_fits(self, size_bytes: int) -> None:
        """Raise EventTooLargeError if ``size_bytes`` exceed all frames of the log together."""
        frames = self._frames
        if size_bytes >= frames.content_bytes_max:
            count = frames.frames_free + self._frames_in_use()
            if frames.frames_needed(size_bytes) > count:
                raise EventTooLargeError(size_bytes, count * frames.content_bytes_max)

    def has_frames(self, size_in_frame: int, *, is_urgent: bool) -> bool:
        """Whether there are frames for an operation now, and memory if it is not urgent.

        True also if all frames together would not be enough.
        """
        frames = self._frames
        open_frame = frames.current
        if open_frame is not None and open_frame.used + size_in_frame <= open_frame.capacity:
            return True
        large = size_in_frame >= frames.content_bytes_max
        needed = frames.frames_needed(size_in_frame) if large else 1
        free = frames.frames_free
        if needed > free:
            return large and needed > free + self._frames_in_use()
        return is_urgent or self._has_memory()

    def _may_enter(self, size_in_frame: int, *, is_urgent: bool) -> bool:
        return (is_urgent or not self.throttle.closed) and self.has_frames(size_in_frame, is_urgent=is_urgent)

    # -------------------------------------------------------------------------------------- waiting

    def wait(self, size_bytes: int, resume: Resume) -> None:
        """Call ``resume`` once, later on the loop, when a block of ``size_bytes`` is admitted."""
        self.waits += 1
        if self._ended:
            self._loop.call_soon(resume)
            return
        self._queue.add_block(size_bytes, resume)
        self.wake()

    def stop_waiting(self, resume: Resume) -> None:
        """Remove the connection that waits with ``resume``, if it does: it is closed."""
        self._queue.remove_block(resume)
        self.wake()  # those behind it may need fewer frames

    def submit(self, request: Request) -> None:
        """Begin ``request`` now if it is admitted and nothing waits in front of it, otherwise queue it.

        Raises:
            EventTooLargeError: it is larger than all frames of the log together.
            ThrottledError: the queue is full.
        """
        self.check_fits(request.size_bytes)
        if not self._queue.must_wait(request) and self._begin(request):
            return
        if not self._queue.add_request(request):
            raise ThrottledError("too many requests wait, and this one was not begun: send again")
        self._watch_memory()

    def _begin(self, request: Request) -> bool:
        if request.future.done():
            return True  # cancelled while it waited
        if not self._may_enter(request.size_bytes, is_urgent=request.is_urgent):
            return False
        if not request.is_urgent and self.throttle.active and not self.throttle.enter(request.size_bytes):
            return False
        return self._decide(request)

    # -------------------------------------------------------------------------------------- serving

    def wake(self) -> None:
        """Serve the queue in the next iteration of the loop: something may have been freed."""
        if self._queue.count and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        self._scheduled = False
        queue = self._queue
        for _ in range(SERVED_MAX):
            head = queue.head
            if head is None:
                return
            if isinstance(head, Request):
                if not self._begin(head):
                    break
                if queue.head is not head:
                    return  # it ended the owner of the log, which refused the whole queue
                queue.remove_head()
            else:
                if not self._may_enter(head.size_bytes + self._overhead, is_urgent=False):
                    break
                queue.remove_head()
                self._serving_connection = True
                try:
                    head.resume()
                finally:
                    self._serving_connection = False
        else:
            self.wake()
            return
        self._watch_memory()

    def _watch_memory(self) -> None:
        """Check again soon while memory is lacking: other containers free the cache without notice."""
        if self._recheck is None and self._queue.count and not self._ended and not self._has_memory():
            self._recheck = self._loop.call_later(RECHECK_S, self._on_recheck)

    def _on_recheck(self) -> None:
        self._recheck = None
        self.throttle.update()
        self.wake()
        self._watch_memory()

    # -------------------------------------------------------------------------------------- end

    @property
    def count(self) -> int:
        """Items that wait."""
        return self._queue.count

    def end(self, *, include_lane: bool) -> None:
        """Refuse requests, urgent ones only if ``include_lane``; resume connections. Idempotent."""
        self._ended = True
        self.throttle.end()
        if self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None
        for resume in self._queue.end(include_lane=include_lane):
            self._loop.call_soon(resume)
        self.wake()

    def statistics(self) -> QueueStatistics:
        return self._queue.statistics()

    def check(self) -> None:
        """Assert that counts are right, and that nothing but urgent requests waits after the end."""
        self._queue.check()
        self.throttle.check()
        assert not self._ended or self._queue.count == self._queue.statistics().urgent
