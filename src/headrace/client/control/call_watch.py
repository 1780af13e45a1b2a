"""Whether a controller that lets calls wait is there at all: it is asked something short, or left.

A call may wait for minutes, for a workflow. A controller whose host sleeps, or has lost its network, lets all
of them wait, and gRPC does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

SLOW_S: Final = 3.0
"""Without any answer, while calls wait."""
IS_THERE_S: Final = 5.0
"""How long the answer to the short question may take."""


class CallWatch:
    """Of the calls of one channel. Used on one loop."""

    def __init__(self, is_there: Callable[[], Awaitable[bool]], leave: Callable[[], None]) -> None:
        """``leave`` is called once, if ``is_there`` says no."""
        self._is_there = is_there
        self._leave = leave
        self._calls = 0
        self._last_answer = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self) -> None:
        """A call is about to wait."""
        self._calls += 1
        if self._timer is None and self._asking is None:
            loop = asyncio.get_running_loop()
            self._last_answer = loop.time()
            self._look_later(loop, SLOW_S)

    def end(self, *, answered: bool) -> None:
        """It waits no more."""
        self._calls -= 1
        if answered:
            self._last_answer = asyncio.get_running_loop().time()

    def close(self) -> None:
        """The channel is closed. Idempotent."""
        self._closed = True

    def _look_later(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        self._timer = loop.call_later(delay_s, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._closed or not self._calls:
            return
        silent_s = loop.time() - self._last_answer
        if silent_s < SLOW_S:
            self._look_later(loop, SLOW_S - silent_s)
        else:
            self._asking = loop.create_task(self._ask(loop))

    async def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        is_there = await self._is_there()
        self._asking = None
        if self._closed:
            return
        if is_there:
            self._look_later(loop, SLOW_S)
        else:
            self._leave()
