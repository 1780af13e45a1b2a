"""Brings segments back to memory, one activation per name, and lets those who wait go on in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from headrace.errors import ClosedError, ContainerOfflineError, HeadraceError
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.state.segment_state import SegmentState

Waiters = deque[asyncio.Future[SegmentState]]


class Activations:
    """Those under way in one container.

    ``activate`` finds the segment of a name and makes it active, or raises. A waiter goes on within the turn
    of the loop in which it is released; a call that comes before all have gone on is queued behind them.
    """

    def __init__(self, supervisor: Supervisor, activate: Callable[[str], Awaitable[SegmentState]]) -> None:
        self._supervisor = supervisor
        self._activate = activate
        self._waiting: dict[str, Waiters] = {}
        self._active: set[str] = set()
        """Names whose segment is active, and whose waiters go on in this turn of the loop."""
        self.started = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def is_inactive(self, name: str) -> bool:
        """Whether a name has an activation under way that has not ended yet."""
        return name in self._waiting and name not in self._active

    async def wait(self, name: str) -> SegmentState:
        """Return the segment once it is active, and everybody who asked before has gone on.

        Raises:
            HeadraceError: what ``activate`` raised; exactly those who wait at that moment get it.
        """
        waiting = self._waiting.get(name)
        if waiting is None:
            try:
                task = self._supervisor.spawn(f"activate {name}", self._run(name))
            except ClosedError as error:
                raise ContainerOfflineError("the container has stopped") from error
            task.add_done_callback(partial(self._on_done, name))
            waiting = self._waiting[name] = deque()
        waiter: asyncio.Future[SegmentState] = asyncio.get_running_loop().create_future()
        waiting.append(waiter)
        return await waiter

    async def _run(self, name: str) -> None:
        self.started += 1
        try:
            segment = await self._activate(name)
        except HeadraceError as error:
            self._fail(name, error)
        except BaseException:
            self._fail(name, ContainerOfflineError("the container has stopped"))
            raise
        else:
            self._release(name, segment)

    def _on_done(self, name: str, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs nothing at all: who waits is told here."""
        if task.cancelled() and name in self._waiting:
            self._fail(name, ContainerOfflineError("the container has stopped"))

    def _fail(self, name: str, error: HeadraceError) -> None:
        self.failed += 1
        for waiter in self._waiting.pop(name):
            if not waiter.done():
                waiter.set_exception(error)

    def _release(self, name: str, segment: SegmentState) -> None:
        waiting = self._waiting[name]
        if not waiting:
            del self._waiting[name]
            self._active.discard(name)
            return
        self._active.add(name)
        while waiting:
            waiter = waiting.popleft()
            if not waiter.done():
                waiter.set_result(segment)
        # Behind the wake-ups just scheduled: who comes in between queues up, and is released then.
        asyncio.get_running_loop().call_soon(self._release, name, segment)
