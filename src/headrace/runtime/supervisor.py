"""One life cycle for all background work: no task is lost, no failure is silent, a stop waits for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.errors import ClosedError

T = TypeVar("T")
OnFailure = Callable[[str, BaseException], None]

_logger = logging.getLogger(__name__)

#: Seconds after which ``stop`` logs, repeatedly, the tasks that have not ended.
STOP_WARNING_S: Final = 10.0


@dataclass(slots=True)
class SupervisorStatistics:
    """Tasks now, and counts since creation."""

    running: list[str]
    spawned: int
    failed: int
    stopped: bool


class Supervisor:
    """Owns the background tasks of one component. Used on one event loop.

    A task that returns is forgotten. A task that raises is reported once to ``on_failure(name, error)``, on
    the loop, whether the supervisor is stopping or not; without a callback the failure is logged with its
    traceback. A cancelled task is no failure. The owner decides what a failure means: usually it stops
    itself and is recovered from its log.
    """

    def __init__(self, name: str, on_failure: OnFailure | None = None) -> None:
        self.name = name
        self._on_failure = on_failure
        self._tasks: dict[
            asyncio.Task[Any], str
        ] = {}  # a dict, for its order: tasks are cancelled oldest first
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._spawned = 0
        self._failed = 0
        self._stopped = False

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start ``coroutine`` as a task that lives until it returns or the supervisor stops.

        Raises:
            ClosedError: the supervisor was stopped; the coroutine is closed without having run.
        """
        if self._stopped:
            coroutine.close()
            raise ClosedError(f"{self.name} is stopped; {name} was not started")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the program is ending
            coroutine.close()
            raise
        task = loop.create_task(coroutine, name=f"{self.name}/{name}")
        self._tasks[task] = name
        self._spawned += 1
        task.add_done_callback(self._on_done)
        return task

    @property
    def stopped(self) -> bool:
        """It starts no more tasks."""
        return self._stopped

    @property
    def count(self) -> int:
        """How many tasks there are now."""
        return len(self._tasks)

    async def stop(self) -> None:
        """Cancel every task and wait until all have ended. Idempotent; concurrent calls are allowed.

        Each task is cancelled once, however long it takes to end: a second cancellation would interrupt the
        clean-up after the first one, and leave files open.

        A task of this supervisor may call it: that task is not cancelled (it is ending anyway).
        """
        self._stopped = True
        me = asyncio.current_task()
        while others := [task for task in self._tasks if task is not me]:
            for task in others:
                if task not in self._cancelled:
                    self._cancelled.add(task)
                    task.cancel()
            _, running = await asyncio.wait(others, timeout=STOP_WARNING_S)
            if running:
                names = ", ".join(task.get_name() for task in others if task in running)
                _logger.warning("%s: still waiting for tasks that do not end: %s", self.name, names)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        self._cancelled.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self._failed += 1
        if self._on_failure is not None:
            self._on_failure(name, error)
        else:
            _logger.error("%s/%s failed", self.name, name, exc_info=error)

    def statistics(self) -> SupervisorStatistics:
        return SupervisorStatistics(list(self._tasks.values()), self._spawned, self._failed, self._stopped)
