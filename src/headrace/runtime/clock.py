"""The wall clock as a parameter, so that components work alike in real, simulated and test time.

Deadlines do not belong here: they use the event loop's monotonic ``loop.time()``. So do durations, unless a
millisecond matters: see :func:`stopwatch`.
"""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """The wall-clock time."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch. May jump backwards: never subtract two readings."""


class SystemClock:
    """The machine's wall clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def stopwatch(loop: AbstractEventLoop) -> Callable[[], float]:
    """Return a function whose readings, in seconds, are subtracted to measure durations of microseconds.

    The time of a uvloop is whole milliseconds, read once per iteration. Of other loops ``loop.time`` is used:
    simulated time stays simulated. The readings are no deadlines for ``loop.call_at``.
    """
    return time.monotonic if type(loop).__module__.startswith("uvloop") else loop.time
