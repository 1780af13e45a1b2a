"""Work that several callers share: it runs once for all, and does not end with any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from headrace.errors import ClosedError, ContainerOfflineError, HeadraceError, WalWriteError
from headrace.runtime.supervisor import Supervisor

T = TypeVar("T")


class SharedTasks(Generic[T]):
    """Running tasks of one container, by name. A cancelled caller does not cancel its task.

    Args:
        what: description of a task, for messages; the name follows.
    """

    def __init__(self, supervisor: Supervisor, what: str) -> None:
        self._supervisor = supervisor
        self._what = what
        self._running: dict[str, asyncio.Task[T | HeadraceError]] = {}
        self.started = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, name: str) -> bool:
        return name in self._running

    async def join(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Start ``work``, or join the task of that name; return its result.

        Raises:
            HeadraceError: what it raised, the same for all.
            ContainerOfflineError: the container has ended. Whether the writes of the task are durable makes
                no difference to its callers.
        """
        task = self._running.get(name)
        if task is None:
            try:
                task = self._supervisor.spawn(f"{self._what} {name}", self._run(work))
            except ClosedError as error:
                raise ContainerOfflineError("the container has stopped") from error
            self._running[name] = task
            self.started += 1
            task.add_done_callback(lambda _: self._running.pop(name))
        await asyncio.wait([task])
        if task.cancelled() or task.exception() is not None:
            raise ContainerOfflineError("the container has stopped")
        outcome = task.result()
        if isinstance(outcome, WalWriteError):
            raise ContainerOfflineError(
                f"the container ended during an {self._what} {name}: {outcome}"
            ) from outcome
        if isinstance(outcome, HeadraceError):
            raise outcome
        return outcome

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T | HeadraceError:
        try:
            return await work()
        except HeadraceError as error:  # for the callers; any other error ends the container
            self.failed += 1
            return error
