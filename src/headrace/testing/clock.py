"""Wall clocks that show what a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: 2026-01-01T00:00:00Z: virtual time zero, in milliseconds since the Unix epoch.
WALL_START_MS: Final = 1_767_225_600_000


class ManualClock:
    """A clock that the test moves; it never moves by itself."""

    def __init__(self, now_ms: int = WALL_START_MS) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock; backwards too, as wall clocks do."""
        self.time_ms += milliseconds


class SimulatedClock:
    """The wall clock of a simulated host: virtual time, off by ``skew_ms``."""

    def __init__(self, time_s: Callable[[], float], skew_ms: int = 0) -> None:
        self._time_s = time_s
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return WALL_START_MS + self.skew_ms + int(self._time_s() * 1000)
