"""How much of what all containers accept may be on its way to their logs at the same time.

A container whose log has frames accepts, and what it accepted has to find room in the cache when it is
durable. As long as the reserve covers all frames of all containers nobody asks here. Where it cannot, because
the cache is small for so many containers, together they stop in front of its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.limits import MIB

UNBOUNDED: Final = 1 << 62
_KEPT_BYTES_MAX: Final = 16 * MIB
"""An append is not larger."""


class AcceptedBytes:
    """Bytes of appends on their way, counted when a budget is used up and not for each append.

    ``counts`` has of each container that takes appends how many bytes are on their way, at most;
    ``left_bytes`` is how many more may be accepted before they are counted again.
    """

    __slots__ = ("_bytes_max", "counts", "left_bytes")

    def __init__(self) -> None:
        self.counts: dict[object, Callable[[], int]] = {}
        self.left_bytes = UNBOUNDED
        self._bytes_max = UNBOUNDED

    def count(self) -> int:
        """Return how many bytes are on their way now, of all containers."""
        return sum(count_bytes() for count_bytes in self.counts.values())

    def bound(self, reserved_bytes: int, promised_bytes: int) -> None:
        """So much is reserved of what the frames of all containers could hold."""
        self._bytes_max = UNBOUNDED if promised_bytes <= reserved_bytes else reserved_bytes
        self.left_bytes = UNBOUNDED if promised_bytes <= reserved_bytes else 0

    def may_begin(self, size_bytes: int, *, has_some: bool) -> bool:
        """Count anew, ``left_bytes`` being used up: whether who ``has_some`` on its way, or has nothing, may
        accept more. That is ``size_bytes`` then.

        The last append is let in whatever its size, so room is kept for it. Who has nothing may use half of
        that room: else those who have some would take all that comes back, and keep it out for ever.
        """
        kept = min(_KEPT_BYTES_MAX, self._bytes_max // 2)
        left = self._bytes_max - kept - self.count()
        self.left_bytes = left - size_bytes
        return left > (0 if has_some else -kept // 2)
