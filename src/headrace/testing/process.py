"""A simulated process: whose code is running now, and what it means that it was killed.

A killed process does not run ``finally`` blocks, does not answer and closes nothing: the loop drops its
callbacks from that moment on. A paused one runs nothing until it is resumed, and then finds that time has
passed. Code outside of any process is the test itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final


class SimulatedProcess:
    """One life of a program on a simulated host."""

    def __init__(self, host: str, incarnation: int) -> None:
        self.host = host
        self.incarnation = incarnation
        self.alive = True
        self.paused = False
        self._on_kill: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        return f"{self.host}.{self.incarnation}"

    def on_kill(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called at the moment the process dies; at once if it is dead."""
        if self.alive:
            self._on_kill.append(callback)
        else:
            callback()

    def kill(self) -> None:
        """End the process now. Idempotent."""
        if not self.alive:
            return
        self.alive = False
        callbacks, self._on_kill = self._on_kill, []
        for callback in callbacks:
            callback()


#: The process whose code is running; None is the test. Tasks and callbacks inherit it when made.
CURRENT_PROCESS: Final[ContextVar[SimulatedProcess | None]] = ContextVar("headrace_process", default=None)

#: The host name of code that runs outside of any simulated process.
TEST_HOST: Final = "test"


def current_host() -> str:
    """Return the name of the host on which the running code lives."""
    process = CURRENT_PROCESS.get()
    return TEST_HOST if process is None else process.host
