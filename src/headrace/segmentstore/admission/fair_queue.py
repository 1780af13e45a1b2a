"""What waits for frames or memory of one container's log: a fair queue, and a lane for urgent requests.

The queue is first come, first served, whatever an item needs: nothing passes the head, so a block of 8 MiB
gets its frames although small appends would take each that is released. Connections wait in it with the size
of their next block, requests with their upper bound; a connection that was served and has more goes to the
end.

The lane is for urgent requests: the rest of the system waits for them, or they free something. They wait for
frames only, and are served before the queue. A request never passes an earlier one on any of its segments,
though: a delete that follows an append does not cause its refusal.
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
    """A connection whose next block has ``size_bytes``; ``resume`` notifies it."""

    size_bytes: int
    resume: Resume
    is_urgent = False


@dataclass(slots=True)
class QueueStatistics:
    """How many wait now."""

    urgent: int
    requests: int
    """In the queue, without those in the lane."""
    connections: int


class FairQueue:
    """Queue and lane of one log. ``requests_max`` bounds the requests of each; a connection waits once."""

    __slots__ = ("_lane", "_queue", "_requests", "_requests_max", "_segments", "count")

    def __init__(self, requests_max: int) -> None:
        self._requests_max = requests_max
        self._lane: deque[Request] = deque()
        self._queue: dict[Request | Resume, Request | WaitingBlock] = {}
        self._requests = 0
        """Requests in the queue."""
        self._segments: dict[SegmentState, int] = {}
        """How many requests in the queue concern a segment."""
        self.count = 0
        """Items in queue and lane: a plain number, because every append block reads it."""

    @property
    def head(self) -> Request | WaitingBlock | None:
        """The next item to serve."""
        if self._lane:
            return self._lane[0]
        return next(iter(self._queue.values()), None)

    def must_wait(self, request: Request) -> bool:
        """Whether ``request`` comes behind a waiting item."""
        if not self.count:
            return False
        return bool(self._lane) or not request.is_urgent or self._has_predecessor(request)

    def _has_predecessor(self, request: Request) -> bool:
        return any(segment in self._segments for segment in request.segments)

    def add_request(self, request: Request) -> bool:
        """Queue ``request``; False if the queue or lane is full."""
        if request.is_urgent and not self._has_predecessor(request):
            if len(self._lane) >= self._requests_max:
                return False
            self._lane.append(request)
        else:
            if self._requests >= self._requests_max:
                return False
            self._queue[request] = request
            self._requests += 1
            for segment in request.segments:
                self._segments[segment] = self._segments.get(segment, 0) + 1
        self.count += 1
        return True

    def add_block(self, size_bytes: int, resume: Resume) -> None:
        """Queue a connection at the end, or update the size of its block if it waits already."""
        waiting = self._queue.get(resume)
        if isinstance(waiting, WaitingBlock):
            waiting.size_bytes = size_bytes
        else:
            self._queue[resume] = WaitingBlock(size_bytes, resume)
            self.count += 1

    def remove_head(self) -> None:
        if self._lane:
            self._lane.popleft()
        else:
            self._remove(next(iter(self._queue)))
            return
        self.count -= 1

    def remove_block(self, resume: Resume) -> None:
        """Remove a connection that is closed, if it waits."""
        if resume in self._queue:
            self._remove(resume)

    def _remove(self, key: Request | Resume) -> None:
        waiting = self._queue.pop(key)
        self.count -= 1
        if isinstance(waiting, Request):
            self._requests -= 1
            for segment in waiting.segments:
                if self._segments[segment] > 1:
                    self._segments[segment] -= 1
                else:
                    del self._segments[segment]

    def end(self, *, include_lane: bool) -> list[Resume]:
        """Refuse every request of the queue, and of the lane if ``include_lane``: none has begun.

        Returns:
            The callbacks of the connections that waited.
        """
        resumes = [waiting.resume for waiting in self._queue.values() if isinstance(waiting, WaitingBlock)]
        refused = [waiting for waiting in self._queue.values() if isinstance(waiting, Request)]
        self._queue.clear()
        self._segments.clear()
        self._requests = 0
        if include_lane:
            refused += self._lane
            self._lane.clear()
        self.count = len(self._lane)
        for request in refused:
            if not request.future.done():
                request.future.set_exception(ContainerOfflineError("the container has stopped"))
        return resumes

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(len(self._lane), self._requests, len(self._queue) - self._requests)

    def check(self) -> None:
        """Assert that counts agree with queue and lane."""
        assert self.count == len(self._lane) + len(self._queue)
        requests = [waiting for waiting in self._queue.values() if isinstance(waiting, Request)]
        assert self._requests == len(requests) <= self._requests_max
        assert len(self._lane) <= self._requests_max
        assert all(request.is_urgent for request in self._lane)
        assert sum(self._segments.values()) == sum(len(request.segments) for request in requests)
