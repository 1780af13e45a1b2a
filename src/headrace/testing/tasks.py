"""For the simulated loop: futures, tasks and callbacks that know their process and keep their identity.

Tasks and futures hash by a counter, not by address: sets of them (``TaskGroup``, ``asyncio.wait``) then
iterate alike in every run.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from headrace.testing.process import CURRENT_PROCESS, SimulatedProcess


class NumberedLoop(asyncio.AbstractEventLoop):
    """A loop that numbers its tasks and futures."""

    @abstractmethod
    def next_serial(self) -> int:
        """Return the next of the numbers that stand for identity."""


class SimulatedFuture(asyncio.Future[Any]):
    """A future with a repeatable hash."""

    def __init__(self, *, loop: NumberedLoop) -> None:
        self._serial = loop.next_serial()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._serial


class SimulatedTask(asyncio.Task[Any]):
    """A task with a repeatable hash that knows its process."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        *,
        loop: NumberedLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        self._serial = loop.next_serial()
        self._process = CURRENT_PROCESS.get() if context is None else context.get(CURRENT_PROCESS)
        self._context = copy_context() if context is None else context
        name = f"task-{self._serial}" if name is None else name
        super().__init__(coroutine, loop=loop, name=name, context=self._context)

    def __hash__(self) -> int:
        return self._serial

    @property
    def serial(self) -> int:
        """Number in the order of creation, shared with futures."""
        return self._serial

    @property
    def lives(self) -> bool:
        """Whether its process, if it has one, was not killed."""
        return self._process is None or self._process.alive

    @property
    def process(self) -> SimulatedProcess | None:
        return self._process

    def get_context(self) -> Context:
        """Return the context of its steps. What asyncio has of that name, it has since Python 3.12."""
        return self._context

    @property
    def place(self) -> str:
        """Where it waits: the innermost frame along the chain of its awaits."""
        place = "?"
        waiting: Any = self.get_coro()
        while waiting is not None:
            frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
            if frame is not None:
                name = frame.f_code.co_filename.rpartition("/")[2]
                place = f"{frame.f_code.co_qualname} ({name}:{frame.f_lineno})"
            waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
        return place


class SimulatedHandle(asyncio.Handle):
    """A callback that is ready, in the process that scheduled it."""

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: NumberedLoop,
        context: Context | None,
        timer: asyncio.TimerHandle | None = None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._called = callback
        self._timer = timer
        owner = getattr(callback, "__self__", None)
        self.task = owner if isinstance(owner, SimulatedTask) else None
        """Set if this is a step of a task."""
        self._process = CURRENT_PROCESS.get() if context is None else context.get(CURRENT_PROCESS)

    @property
    def runs(self) -> bool:
        """Whether it is neither cancelled nor part of a killed process."""
        if self.cancelled() or (self._timer is not None and self._timer.cancelled()):
            return False
        return self._process is None or self._process.alive

    @property
    def is_paused(self) -> bool:
        """Whether its process runs nothing now."""
        return self._process is not None and self._process.paused

    @property
    def label(self) -> str:
        """What a trace calls it."""
        if self.task is not None:
            return self.task.get_name()
        return str(getattr(self._called, "__qualname__", type(self._called).__qualname__))

    def run(self) -> None:
        """Call it; an exception goes to the loop's exception handler."""
        self._run()
