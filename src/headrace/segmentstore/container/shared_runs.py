"""Work that several callers want at once, and that must not end with any of them: it runs once, for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from headrace.errors import ClosedError, ContainerOfflineError, HeadraceError, WalWriteError
from headrace.runtime.supervisor import Supervisor

T = TypeVar("T")


class SharedRuns(Generic[T]):
    """Runs under way in one container, by the name of what each is about. Callers may be cancelled, not they.

    Args:
        what: a run, for people; a name may follow.
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

    async def join(self, name: str, run: Callable[[], Awaitable[T]]) -> T:
        """Start ``run``, or join the one of that name; return what comes of it.

        Raises:
            HeadraceError: what it raised, the same for all.
            ContainerOfflineError: the container has ended. Whether what the run wrote is durable is nothing
                that its callers could see: to them nothing has happened.
        """
        task = self._running.get(name)
        if task is None:
            try:
                task = self._supervisor.spawn(f"{self._what} {name}", self._run(run))
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

    async def _run(self, run: Callable[[], Awaitable[T]]) -> T | HeadraceError:
        try:
            return await run()
        except HeadraceError as error:  # the callers' affair; anything else ends the container
            self.failed += 1
            return error
