"""How many bytes of requests may be in memory at once, over all connections.

Appends are not counted: they are copied into frames of a bounded pool. Reads hold no bytes until they are
answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class AdmissionStatistics:
    """Bytes now, and how often somebody had to wait."""

    bytes_running: int = 0
    waiting: int = 0
    waits: int = 0


class Admission:
    """Room for ``bytes_max`` bytes. A request that finds nothing running always fits."""

    __slots__ = ("_bytes_max", "_statistics", "_waiters")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiters: deque[Callable[[], None]] = deque()
        self._statistics = AdmissionStatistics()

    def enter(self, size_bytes: int, resume: Callable[[], None]) -> bool:
        """Take room and say so; or remember ``resume``, which is called once when there may be room."""
        running = self._statistics.bytes_running
        if running and running + size_bytes > self._bytes_max:
            self._waiters.append(resume)
            self._statistics.waits += 1
            return False
        self._statistics.bytes_running = running + size_bytes
        return True

    def leave(self, size_bytes: int) -> None:
        """Give room back. Those who wait try again while there is some; who finds too little waits again."""
        self._statistics.bytes_running -= size_bytes
        for _ in range(len(self._waiters)):
            if self._statistics.bytes_running >= self._bytes_max:
                break
            self._waiters.popleft()()

    def statistics(self) -> AdmissionStatistics:
        self._statistics.waiting = len(self._waiters)
        return self._statistics

    def check(self) -> None:
        """Assert that room is not given back twice."""
        assert self._statistics.bytes_running >= 0
