"""Joins any number of requests of one iteration of the loop into one call in the next: what arrived together
is sent together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class NextIteration:
    """Calls ``action`` once, in the loop's next iteration, however often it was scheduled before that."""

    __slots__ = ("_loop", "action", "scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.action: Callable[[], None] | None = None
        """Set once, before the first call of :meth:`schedule`."""
        self.scheduled = False

    def schedule(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self.scheduled = False
        assert self.action is not None
        self.action()
