"""Deadlines of many things with one timer, for what is often done before its time and seldom late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    """Calls back with all keys whose time is over. Used on one loop."""

    __slots__ = ("_at", "_ends", "_on_over", "_timer")

    def __init__(self, on_over: Callable[[Sequence[K]], None]) -> None:
        self._on_over = on_over
        self._ends: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, key: K, left_ms: int | None) -> None:
        """The time of ``key`` ends in so many milliseconds, whatever was said before; None: never."""
        if left_ms is None:
            self._ends.pop(key, None)
            return
        loop = asyncio.get_running_loop()
        end = self._ends[key] = loop.time() + left_ms / 1000
        if self._timer is None or end < self._at:
            self._start(loop, end)

    def discard(self, key: K) -> None:
        """``key`` is done. The timer stays: it finds nothing, or the next one."""
        self._ends.pop(key, None)

    def close(self) -> None:
        """Forget everything."""
        self._ends.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = loop.call_at(at, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = max(loop.time(), self._at)  # loops may call a little early
        over = [key for key, end in self._ends.items() if end <= now]
        for key in over:
            del self._ends[key]
        if self._ends:
            self._start(loop, min(self._ends.values()))
        if over:
            self._on_over(over)
