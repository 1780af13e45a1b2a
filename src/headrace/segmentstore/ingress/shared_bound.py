"""How many things of a kind connections may have: each, and all of them together."""

from __future__ import annotations

from typing import Final

SHARE_OF_EACH: Final = 64
"""What a connection may have in any case: it is not to suffer from others who have very much."""


class SharedBound:
    """A connection may have ``each_max``, and no more than ``SHARE_OF_EACH`` once all have ``total_max``."""

    __slots__ = ("_each_max", "_total_max", "total")

    def __init__(self, *, each_max: int, total_max: int) -> None:
        self._each_max = each_max
        self._total_max = total_max
        self.total = 0
        """What all connections have now; they keep it."""

    @property
    def limit(self) -> int:
        """How many a connection that has fewer may have now."""
        return self._each_max if self.total < self._total_max else min(SHARE_OF_EACH, self._each_max)
