"""Which containers this process is to host: each is given to it and taken from it, one by one.

Nothing else starts or ends a container. One that another process has taken over is released; whoever gives
decides what that means.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from headrace.errors import ClosedError, FencedOutError
from headrace.segmentstore.hosting.hosted_container import Ended, HostedContainer, MakeContainer, OnChange
from headrace.segmentstore.hosting.next_step import History, NextStep, Outcome
from headrace.segmentstore.hosting.registry import ContainerRegistry

_logger = logging.getLogger(__name__)

STARTS_MAX: Final = 4
"""Containers that start at the same time. A start mostly waits for the disk, for some thirty writes; unstored
bytes of its log take memory, which containers that run free by storing meanwhile."""

_NOTICE_S: Final = 0.01
"""For the end of a log that has had its whole timeout before: enough to notice it."""


@dataclass(slots=True, eq=False)
class _Life:
    hosted: HostedContainer
    online: asyncio.Future[None]
    """Done when it runs for the first time, or never will."""
    task: asyncio.Task[Ended]
    """Done when nothing here uses its log any more."""


class ContainerAssignment:
    """The containers that are given to this process.

    ``restart_delay_s``, ``restart_delay_max_s``: see :class:`History`.
    ``stop_timeout_s``: how long a take waits for one more container to end; None: for ever.
    ``on_fenced``: called when one that has run has ended because another process took it over.
    ``on_change``: called when one has failed after it ran, when it runs again, and when it never will.
    """

    def __init__(
        self,
        registry: ContainerRegistry,
        make_container: MakeContainer,
        *,
        restart_delay_s: float = 0.2,
        restart_delay_max_s: float = 30.0,
        stop_timeout_s: float | None = None,
        on_fenced: Callable[[int, FencedOutError], None] = lambda _, __: None,
        on_change: OnChange = lambda _: None,
    ) -> None:
        self._registry = registry
        self._make = make_container
        self._pauses_s = restart_delay_s, restart_delay_max_s
        self._stop_timeout_s = stop_timeout_s
        self._on_fenced = on_fenced
        self._on_change = on_change
        self._slots = asyncio.Semaphore(STARTS_MAX)
        self._logs = [asyncio.Lock() for _ in range(registry.container_count)]
        self._given: dict[int, _Life] = {}
        self._lives: dict[_Life, None] = {}
        """Those given, and those that still end; a dict, for its order."""

    @property
    def is_stalled(self) -> bool:
        """After a take of all: one has not ended. Its log, and a thread that writes to it, are in use."""
        return any(not life.task.done() for life in self._lives)

    async def give(self, container_id: int) -> None:
        """Start a container, and again whenever it fails, until it is taken or released; return when it runs.

        Waits without a bound for a slot, for its log, which its former life here may still use, for space for
        it, and for free bytes of the cache for what it replays. Any other failure of the first start releases
        it and is raised. One that is given already goes on; a caller that is cancelled takes it.

        Raises:
            ClosedError: it was taken before it ran.
        """
        await asyncio.shield(self._begin(container_id).online)

    async def take(self, container_id: int) -> bool:
        """End a container in order, wherever it is in its life. Idempotent; every caller waits.

        Returns:
            Whether its log is free. If not, it is stalled, and the container goes on ending by itself.

        Raises:
            Exception: it ran and did not stop in order; it has ended.
        """
        self._begin_take(container_id)
        return await self._wait_ended([x for x in self._lives if x.hosted.container_id == container_id])

    async def take_all(self) -> None:
        """Take every container, side by side. Then ``is_stalled`` says whether one goes on ending.

        Raises:
            Exception: of the first container that did not stop in order; all others have ended.
        """
        for container_id in list(self._given):
            self._begin_take(container_id)
        await self._wait_ended(list(self._lives))

    def _begin(self, container_id: int) -> _Life:
        if container_id in self._given:
            return self._given[container_id]
        hosted = HostedContainer(
            container_id, self._make, History(*self._pauses_s), self._stop_timeout_s, self._on_change
        )
        online: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = hosted.run(online, self._slots, self._logs[container_id])
        life = _Life(hosted, online, asyncio.ensure_future(run))
        self._given[container_id] = life
        self._lives[life] = None
        self._registry.enter(hosted)
        online.add_done_callback(lambda _: self._release(life) if online.exception() else None)
        life.task.add_done_callback(lambda _: self._on_ended(life))
        return life

    def _begin_take(self, container_id: int) -> None:
        life = self._given.pop(container_id, None)
        if life is not None:
            life.hosted.take()
            if not life.online.done():
                why = f"container {container_id} was taken away before it ran; it is not started any more"
                life.online.set_exception(ClosedError(why))
            life.task.cancel()

    def _release(self, life: _Life) -> None:
        if self._given.get(life.hosted.container_id) is life:
            del self._given[life.hosted.container_id]

    def _on_ended(self, life: _Life) -> None:
        del self._lives[life]
        hosted, task = life.hosted, life.task
        error = None if task.cancelled() else task.exception()
        if not life.online.done():
            life.online.set_exception(error or ClosedError("the process ends"))
        elif error is not None and not hosted.taken:
            _logger.error("container %d is not started any more", hosted.container_id, exc_info=error)
        elif error is None and not task.cancelled() and task.result().step is NextStep.RELEASE:
            self._release(life)
            if task.result().outcome is Outcome.FENCED and life.online.exception() is None:
                self._on_fenced(hosted.container_id, FencedOutError(task.result().why))

    async def _wait_ended(self, lives: Collection[_Life]) -> bool:
        """Wait for containers that end; return False if none ended within the timeout."""
        left = {life.task: life.hosted for life in lives}
        while left:
            is_granted = all(hosted.is_stalled for hosted in left.values())
            timeout_s = _NOTICE_S if is_granted else self._stop_timeout_s
            ended, _ = await asyncio.wait(left, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not ended:
                names = ", ".join(str(hosted.container_id) for hosted in left.values())
                _logger.error("the log of container %s is stalled: it is abandoned as it is", names)
                break
            left = {task: hosted for task, hosted in left.items() if task not in ended}
        for life in lives:
            if life.hosted.taken and life.task.done() and not life.task.cancelled():
                life.task.result()
        return not left
