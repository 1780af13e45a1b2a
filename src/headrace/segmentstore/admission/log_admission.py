"""Decides whether an append or a request may enter one container's log now, and lets those who wait go on.

Three bounds, each in bytes, are looked at in this order::

    frames     received and not durable    a block or request finds its place in the open frame, or fresh ones
    memory     durable and not stored      before a fresh frame is opened: what storage lacks, what the cache
                                           has left beside the frames on their way, operations in memory
    throttle   all of these, before that   a loaded container lets in a burst at a time

What fits the open frame asks for no memory: the cache set that aside when the frame was opened, so applying
what is durable never fails for want of room. Who finds no room waits in a :class:`FairLine`.

Source: ``docs/flows/append.md``, "Admission".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from headrace.errors import EventTooLargeError, ThrottledError
from headrace.segmentstore.admission.fair_line import FairLine, LineStatistics, Request, Resume
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.admission.throttle.gate import RECHECK_S, ThrottleGate

SERVED_MAX: Final = 256
"""Those who are served in one turn of the loop: 10,000 small requests take 0.15 s."""


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
        """How many fresh frames there are now."""

    def frames_needed(self, size_bytes: int) -> int:
        """How many fresh frames a block of several may take in the worst case."""


class LogAdmission:
    """The door of one log. Runs on the container's loop.

    ``decide`` begins a request for which there is room; False if it turns out to be larger than it said.
    """

    __slots__ = (
        "_decide",
        "_ended",
        "_frames",
        "_frames_held",
        "_granting",
        "_has_memory",
        "_line",
        "_loop",
        "_overhead",
        "_recheck",
        "_scheduled",
        "throttle",
        "waits",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        frames: LogFrames,
        *,
        frames_held: Callable[[], int],
        has_memory: Callable[[], bool],
        measure_delay: Callable[[], tuple[float, str]],
        decide: Callable[[Request], bool],
        config: ThrottleConfig,
        requests_max: int,
        block_overhead: int,
    ) -> None:
        """``frames_held`` counts frames that are not free, ``has_memory`` says whether a fresh one may be
        opened; ``block_overhead`` is what a block takes in a frame besides its payload, in bytes; requests
        say what they take with it.
        """
        self._loop = loop
        self._frames = frames
        self._frames_held = frames_held
        self._has_memory = has_memory
        self._decide = decide
        self._overhead = block_overhead
        self._line = FairLine(requests_max)
        self._granting = False
        """Whether the connection at the head of the line is having its turn."""
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
        """Whether an append of ``size_bytes`` finds room now; the caller then appends. Asked for every block.

        True once this owner takes no more, or if there will never be room: the append then raises instead of
        waiting for ever.
        """
        if self._ended:
            return True
        if self._line.count and not self._granting:
            return False
        size_in_frame = size_bytes + self._overhead
        frame = self._frames.current  # looked at here as well: this is the hottest question of the write path
        if (frame is None or frame.used + size_in_frame > frame.capacity) and not self.has_frames(
            size_in_frame, is_urgent=False
        ):
            return False
        throttle = self.throttle
        return not throttle.active or throttle.enter(size_bytes)

    def check_fits(self, size_bytes: int) -> None:
        """Raise EventTooLargeError if not even all frames of the log could hold ``size_bytes``."""
        frames = self._frames
        if size_bytes >= frames.content_bytes_max:
            count = frames.frames_free + self._frames_held()
            if frames.frames_needed(size_bytes) > count:
                raise EventTooLargeError(size_bytes, count * frames.content_bytes_max)

    def has_frames(self, size_in_frame: int, *, is_urgent: bool) -> bool:
        """Whether an operation finds its frames now, and memory if it is not urgent.

        True also if there will never be enough frames.
        """
        frames = self._frames
        open_frame = frames.current
        if open_frame is not None and open_frame.used + size_in_frame <= open_frame.capacity:
            return True
        large = size_in_frame >= frames.content_bytes_max
        needed = frames.frames_needed(size_in_frame) if large else 1
        free = frames.frames_free
        if needed > free:
            return large and needed > free + self._frames_held()
        return is_urgent or self._has_memory()

    def _may_enter(self, size_in_frame: int, *, is_urgent: bool) -> bool:
        return (is_urgent or not self.throttle.closed) and self.has_frames(size_in_frame, is_urgent=is_urgent)

    # -------------------------------------------------------------------------------------- waiting

    def wait(self, size_bytes: int, resume: Resume) -> None:
        """Call ``resume`` once, later on the loop, when there is room for a block of ``size_bytes``."""
        self.waits += 1
        if self._ended:
            self._loop.call_soon(resume)
            return
        self._line.add_block(size_bytes, resume)
        self.wake()

    def stop_waiting(self, resume: Resume) -> None:
        """The connection that waits with ``resume`` is gone. It may also not wait."""
        self._line.remove_block(resume)
        self.wake()  # those behind it may need less

    def submit(self, request: Request) -> None:
        """Begin ``request`` now, if nobody waits in front of it and there is room, or let it wait.

        Raises:
            EventTooLargeError: not even all frames of the log could hold it.
            ThrottledError: too many wait already.
        """
        self.check_fits(request.size_bytes)
        if not self._line.must_wait(request) and self._begin(request):
            return
        if not self._line.add_request(request):
            raise ThrottledError("too many requests wait, and this one was not begun: send again")
        self._watch_memory()

    def _begin(self, request: Request) -> bool:
        if request.future.done():
            return True  # given up while it waited
        if not self._may_enter(request.size_bytes, is_urgent=request.is_urgent):
            return False
        if not request.is_urgent and self.throttle.active and not self.throttle.enter(request.size_bytes):
            return False
        return self._decide(request)

    # -------------------------------------------------------------------------------------- serving

    def wake(self) -> None:
        """Something may have been freed: those who wait are served in the next turn of the loop."""
        if self._line.count and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        self._scheduled = False
        line = self._line
        for _ in range(SERVED_MAX):
            head = line.head
            if head is None:
                return
            if isinstance(head, Request):
                if not self._begin(head):
                    break
                if line.head is not head:
                    return  # the owner of the log ended by it, and refused all who waited
                line.remove_head()
            else:
                if not self._may_enter(head.size_bytes + self._overhead, is_urgent=False):
                    break
                line.remove_head()
                self._granting = True
                try:
                    head.resume()
                finally:
                    self._granting = False
        else:
            self.wake()
            return
        self._watch_memory()

    def _watch_memory(self) -> None:
        """Look again soon while memory is lacking: other containers free the cache without telling."""
        if self._recheck is None and self._line.count and not self._ended and not self._has_memory():
            self._recheck = self._loop.call_later(RECHECK_S, self._on_recheck)

    def _on_recheck(self) -> None:
        self._recheck = None
        self.throttle.update()
        self.wake()
        self._watch_memory()

    # -------------------------------------------------------------------------------------- end

    @property
    def count(self) -> int:
        """How many wait."""
        return self._line.count

    def end(self, *, lane_too: bool) -> None:
        """Admit nobody any more, but urgent requests unless ``lane_too``; tell those who wait. Idempotent."""
        self._ended = True
        self.throttle.end()
        if self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None
        for resume in self._line.end(lane_too=lane_too):
            self._loop.call_soon(resume)
        self.wake()

    def statistics(self) -> LineStatistics:
        return self._line.statistics()

    def check(self) -> None:
        """Assert that those who wait are counted, and that nobody waits for what has ended."""
        self._line.check()
        self.throttle.check()
        assert not self._ended or self._line.count == self._line.statistics().urgent
