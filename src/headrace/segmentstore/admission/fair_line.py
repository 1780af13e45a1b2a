"""Those who wait for room in one container's log: a fair line, and a lane for what must not wait.

The line is first come, first served, whatever somebody needs: nobody passes the head, so a block of 8 MiB
gets its frames although small appends would take each that comes back. Connections wait in it with the size
of their next block, requests with their upper bound; a connection that was served and has more goes to the
end.

The lane belongs to urgent requests: what the rest of the system waits for, and what frees something. They
wait for frames only, and go in front of the line. A request never passes an earlier one on any of its
segments, though: who appends and then deletes does not find the append refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import ContainerOfflineError
from headrace.segmentstore.operations.catalogue import Operation
from headrace.segmentstore.state.segment_state import SegmentState

Propose = Callable[[int], Operation]
"""Check a request against the accepted state and return its operation under the given sequence number."""

Resume = Callable[[], None]


class Request:
    """A request that has not become an operation yet. ``size_bytes`` is an upper bound."""

    __slots__ = ("future", "is_urgent", "propose", "segments", "size_bytes")

    def __init__(
        self,
        propose: Propose,
        size_bytes: int,
        future: asyncio.Future[Any],
        segments: tuple[SegmentState, ...] = (),
        *,
        is_urgent: bool = False,
    ) -> None:
        self.propose = propose
        self.size_bytes = size_bytes
        self.future = future
        self.segments = segments
        self.is_urgent = is_urgent


@dataclass(slots=True)
class WaitingBlock:
    """A connection whose next block has ``size_bytes``; ``resume`` lets it go on."""

    size_bytes: int
    resume: Resume
    is_urgent = False


@dataclass(slots=True)
class LineStatistics:
    """How many wait now."""

    urgent: int
    requests: int
    """Of the line, so without the urgent ones."""
    connections: int


class FairLine:
    """Both lines of one container. ``requests_max`` bounds the requests of each; a connection waits once."""

    __slots__ = ("_lane", "_line", "_requests", "_requests_max", "_segments", "count")

    def __init__(self, requests_max: int) -> None:
        self._requests_max = requests_max
        self._lane: deque[Request] = deque()
        self._line: dict[Request | Resume, Request | WaitingBlock] = {}
        self._requests = 0
        """Requests in the line."""
        self._segments: dict[SegmentState, int] = {}
        """How many requests in the line concern a segment."""
        self.count = 0
        """How many wait in both lines: a plain number, because it is asked for every append block."""

    @property
    def head(self) -> Request | WaitingBlock | None:
        """The one whose turn it is."""
        if self._lane:
            return self._lane[0]
        return next(iter(self._line.values()), None)

    def must_wait(self, request: Request) -> bool:
        """Whether ``request`` comes behind somebody who waits."""
        if not self.count:
            return False
        return bool(self._lane) or not request.is_urgent or self._is_held_back(request)

    def _is_held_back(self, request: Request) -> bool:
        return any(segment in self._segments for segment in request.segments)

    def add_request(self, request: Request) -> bool:
        """Let ``request`` wait; False if too many do already."""
        if request.is_urgent and not self._is_held_back(request):
            if len(self._lane) >= self._requests_max:
                return False
            self._lane.append(request)
        else:
            if self._requests >= self._requests_max:
                return False
            self._line[request] = request
            self._requests += 1
            for segment in request.segments:
                self._segments[segment] = self._segments.get(segment, 0) + 1
        self.count += 1
        return True

    def add_block(self, size_bytes: int, resume: Resume) -> None:
        """Let a connection wait at the end of the line, unless it is there already."""
        waiting = self._line.get(resume)
        if isinstance(waiting, WaitingBlock):
            waiting.size_bytes = size_bytes
        else:
            self._line[resume] = WaitingBlock(size_bytes, resume)
            self.count += 1

    def remove_head(self) -> None:
        if self._lane:
            self._lane.popleft()
        else:
            self._remove(next(iter(self._line)))
            return
        self.count -= 1

    def remove_block(self, resume: Resume) -> None:
        """The connection is gone. It may also not be in the line."""
        if resume in self._line:
            self._remove(resume)

    def _remove(self, key: Request | Resume) -> None:
        waiting = self._line.pop(key)
        self.count -= 1
        if isinstance(waiting, Request):
            self._requests -= 1
            for segment in waiting.segments:
                if self._segments[segment] > 1:
                    self._segments[segment] -= 1
                else:
                    del self._segments[segment]

    def end(self, *, lane_too: bool) -> list[Resume]:
        """Refuse every request of the line, and of the lane if asked to: none has begun.

        Returns:
            What lets the connections go on that waited.
        """
        resumes = [waiting.resume for waiting in self._line.values() if isinstance(waiting, WaitingBlock)]
        refused = [waiting for waiting in self._line.values() if isinstance(waiting, Request)]
        self._line.clear()
        self._segments.clear()
        self._requests = 0
        if lane_too:
            refused += self._lane
            self._lane.clear()
        self.count = len(self._lane)
        for request in refused:
            if not request.future.done():
                request.future.set_exception(ContainerOfflineError("the container has stopped"))
        return resumes

    def statistics(self) -> LineStatistics:
        return LineStatistics(len(self._lane), self._requests, len(self._line) - self._requests)

    def check(self) -> None:
        """Assert that counts agree with the lines."""
        assert self.count == len(self._lane) + len(self._line)
        requests = [waiting for waiting in self._line.values() if isinstance(waiting, Request)]
        assert self._requests == len(requests) <= self._requests_max
        assert len(self._lane) <= self._requests_max
        assert all(request.is_urgent for request in self._lane)
        assert sum(self._segments.values()) == sum(len(request.segments) for request in requests)
