"""Requests that become operations: those that wait for room, and the tickets of those on their way.

Appends of connections never wait here: a connection that finds no room stops reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.errors import ContainerOfflineError
from headrace.segmentstore.operations.catalogue import Operation

Propose = Callable[[int], Operation]
"""Check a request against the accepted state and return its operation under the given sequence number."""


class Ticket:
    """An operation on its way to durability, and the future that tells its caller."""

    __slots__ = ("address", "future", "operation")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.address = -1


class Request:
    """A request that has not become an operation yet. ``size_bytes`` is an upper bound."""

    __slots__ = ("critical", "future", "propose", "size_bytes")

    def __init__(
        self, propose: Propose, size_bytes: int, future: asyncio.Future[Any], *, critical: bool
    ) -> None:
        self.propose = propose
        self.size_bytes = size_bytes
        self.future = future
        self.critical = critical


class RequestQueue:
    """Critical requests before the others, first come first served within each."""

    __slots__ = ("_count_max", "_queues", "count")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._queues: tuple[deque[Request], deque[Request]] = (deque(), deque())
        self.count = 0
        """How many wait: a plain number, because it is asked for every append block."""

    def has_before(self, *, critical: bool) -> bool:
        """Whether somebody waits in front of a request that comes now."""
        return bool(self._queues[0] or (not critical and self._queues[1]))

    def push(self, request: Request) -> bool:
        """Let ``request`` wait; False if too many of its kind do."""
        queue = self._queues[0 if request.critical else 1]
        if len(queue) >= self._count_max:
            return False
        queue.append(request)
        self.count += 1
        return True

    def drain(self, admit: Callable[[Request], bool]) -> None:
        """Pass requests to ``admit`` in order until it says that there is no room."""
        for queue in self._queues:
            while queue:
                if not admit(queue[0]):
                    return
                queue.popleft()
                self.count -= 1

    def end(self) -> None:
        """The owner of the log has ended: none of those that wait has happened, and each is told."""
        for queue in self._queues:
            for request in queue:
                if not request.future.done():
                    request.future.set_exception(ContainerOfflineError("the container has stopped"))
            queue.clear()
        self.count = 0
