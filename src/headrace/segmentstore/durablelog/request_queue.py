"""Requests that become operations: those that wait for room, and the tickets of those on their way.

Appends of connections never wait here: a connection that finds no room stops reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.errors import ContainerOfflineError
from headrace.segmentstore.durablelog.priority import DELAYED_FROM, Priority
from headrace.segmentstore.operations.catalogue import Operation
from headrace.segmentstore.state.segment_state import SegmentState

Propose = Callable[[int], Operation]
"""Check a request against the accepted state and return its operation under the given sequence number."""


class Ticket:
    """An operation on its way to durability, and the future that tells its caller."""

    __slots__ = ("address", "future", "is_expected", "operation")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.address = -1
        self.is_expected = False
        """Whether the read index was told that appends behind this merge begin a block of their own."""


class Request:
    """A request that has not become an operation yet. ``size_bytes`` is an upper bound."""

    __slots__ = ("future", "priority", "propose", "segments", "size_bytes")

    def __init__(
        self,
        propose: Propose,
        size_bytes: int,
        future: asyncio.Future[Any],
        priority: Priority,
        segments: tuple[SegmentState, ...],
    ) -> None:
        self.propose = propose
        self.size_bytes = size_bytes
        self.future = future
        self.priority = priority
        self.segments = segments


class RequestQueue:
    """Strictly by priority, first come first served within one; on one segment nobody passes anybody.

    A request waits behind every earlier one on any of its segments, even if that means to wait in the line of
    a lesser priority: who appends and then deletes does not find the append refused.
    """

    __slots__ = ("_count_max", "_lines", "_segments", "count")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._lines: tuple[deque[Request], ...] = tuple(deque() for _ in Priority)
        self._segments: tuple[dict[SegmentState, int], ...] = tuple({} for _ in Priority)
        """Per line: how many requests of a segment wait in it."""
        self.count = 0
        """How many wait: a plain number, because it is asked for every append block."""

    def line_of(self, request: Request) -> int:
        """In which line ``request`` would have to wait."""
        for line in range(Priority.NORMAL, request.priority, -1):
            waiting = self._segments[line]
            if waiting and any(segment in waiting for segment in request.segments):
                return line
        return request.priority

    def has_before(self, line: int) -> bool:
        """Whether somebody waits in front of a request that would come last in ``line``."""
        return any(self._lines[: line + 1])

    def push(self, request: Request, line: int) -> bool:
        """Let ``request`` wait; False if too many do already in its line."""
        queue = self._lines[line]
        if len(queue) >= self._count_max:
            return False
        queue.append(request)
        waiting = self._segments[line]
        for segment in request.segments:
            waiting[segment] = waiting.get(segment, 0) + 1
        self.count += 1
        return True

    def drain(self, admit: Callable[[Request], bool], end: int, count_max: int) -> bool:
        """Pass requests of the lines in front of ``end`` to ``admit``, in order, until there is no room.

        No more than ``count_max`` of them; True if there may be room for others.
        """
        for line, queue in enumerate(self._lines[:end]):
            while queue:
                if count_max <= 0:
                    return True
                count_max -= 1
                if not admit(queue[0]):
                    return False
                if not queue:
                    return False  # the owner of the log has ended by it, and with it all who waited
                self._remove_first(line)
        return False

    def _remove_first(self, line: int) -> None:
        request = self._lines[line].popleft()
        waiting = self._segments[line]
        for segment in request.segments:
            if waiting[segment] > 1:
                waiting[segment] -= 1
            else:
                del waiting[segment]
        self.count -= 1

    def end(self, first: Priority = Priority.SYSTEM_CRITICAL) -> None:
        """The owner of the log ends for requests from ``first`` on: none has happened, each is told."""
        for line in range(first, len(self._lines)):
            for request in self._lines[line]:
                if not request.future.done():
                    request.future.set_exception(ContainerOfflineError("the container has stopped"))
            self.count -= len(self._lines[line])
            self._lines[line].clear()
            self._segments[line].clear()

    @property
    def has_urgent(self) -> bool:
        """Whether somebody waits whom nothing but a lack of frames holds back."""
        return any(self._lines[:DELAYED_FROM])

    def count_from(self, first: Priority) -> int:
        """How many wait in the lines from ``first`` on."""
        return sum(map(len, self._lines[first:]))

    def statistics(self) -> dict[str, int]:
        """How many wait, by the name of their line."""
        return {priority.name.lower(): len(self._lines[priority]) for priority in Priority}

    def check(self) -> None:
        """Assert that counts agree with lines, and lines with priorities."""
        assert self.count == sum(map(len, self._lines))
        for line, (queue, waiting) in enumerate(zip(self._lines, self._segments, strict=True)):
            assert len(queue) <= self._count_max
            assert all(request.priority <= line for request in queue)
            assert sum(waiting.values()) == sum(len(request.segments) for request in queue)
