"""Which of the log lines that would say the same again are due. Pure.

So a failure that thousands of requests meet is a line a minute, and many different ones fill no disk.
"""

from __future__ import annotations

from collections.abc import Hashable


class RepeatedLines:
    """Remembers what was said in the last ``every_s``, at most ``count_max`` things; more are not said."""

    __slots__ = ("_count_max", "_every_s", "_said", "_unsaid")

    def __init__(self, every_s: float, count_max: int) -> None:
        self._every_s = every_s
        self._count_max = count_max
        self._said: dict[Hashable, float] = {}
        """When each was said, the earliest first."""
        self._unsaid = 0

    def due(self, what: Hashable, now: float) -> int | None:
        """Return None if a line about ``what`` is to be left out; else how many were since the last one."""
        while self._said:
            first = next(iter(self._said))
            if now - self._said[first] < self._every_s:
                break
            del self._said[first]
        if what in self._said or len(self._said) >= self._count_max:
            self._unsaid += 1
            return None
        self._said[what] = now
        unsaid, self._unsaid = self._unsaid, 0
        return unsaid
