"""The wall clock as a parameter, so that simulated time and test time look like real time to everybody else.

Durations and deadlines do not belong here: they use the event loop's monotonic ``loop.time()``.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What time people think it is."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch. May jump backwards: never subtract two readings."""


class SystemClock:
    """The machine's wall clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
