"""Which time counts where data are deleted by their age, if the wall clock jumps ahead. Pure.

A wall clock that is set wrong, to 2040 for a minute, makes all data old. What is deleted then does not come
back with the right time. So a jump ahead of the monotonic clock counts only after it has lasted; meanwhile
the time that counts goes on at the pace of the monotonic clock. A clock that goes back is followed at once:
that deletes nothing. Being slewed, or corrected by less than an hour, is no jump.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JUMP_MS: Final = 3_600_000
"""Between two looks, beyond what has passed on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class CountedTime:
    """The time that counts, and by how much the wall clock has jumped if this is the first look after it."""

    time_ms: int
    jumped_ms: int = 0


class LastingTime:
    """Follows two clocks. After a start the wall clock is believed: nothing is known that contradicts it."""

    def __init__(self, lasting_ms: int) -> None:
        """``lasting_ms``: how long the wall clock has to stay ahead until it counts."""
        self._lasting_ms = lasting_ms
        self._lead_ms: int | None = None
        """Of the time that counts over the monotonic clock."""
        self._jump: tuple[int, int] | None = None
        """A lead that does not count yet, and when it was first seen, on the monotonic clock."""

    def look(self, wall_ms: int, monotonic_ms: int) -> CountedTime:
        """Take the time of both clocks and return the one that counts."""
        lead_ms = wall_ms - monotonic_ms
        if self._lead_ms is None or lead_ms - self._lead_ms <= JUMP_MS:
            return self._believe(lead_ms, wall_ms)
        if self._jump is None or abs(lead_ms - self._jump[0]) > JUMP_MS:
            self._jump = lead_ms, monotonic_ms
            return CountedTime(self._lead_ms + monotonic_ms, lead_ms - self._lead_ms)
        if monotonic_ms - self._jump[1] > self._lasting_ms:
            return self._believe(lead_ms, wall_ms)
        return CountedTime(self._lead_ms + monotonic_ms)

    def _believe(self, lead_ms: int, wall_ms: int) -> CountedTime:
        self._lead_ms, self._jump = lead_ms, None
        return CountedTime(wall_ms)
