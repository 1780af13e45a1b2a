"""Work that one task may do before others have a turn of the event loop."""

from __future__ import annotations

import asyncio


class LoopBudget:
    """Yields to the loop whenever so many units of work are used up: a few milliseconds' worth.

    A unit is whatever the maker counts: names, rows, bytes. So it follows from the work alone, and not from a
    clock, what is done in which turn. One piece of work is never split: it may exceed what is left.
    """

    __slots__ = ("_left", "_units")

    def __init__(self, units: int) -> None:
        assert units > 0
        self._units = self._left = units

    async def spend(self, units: int = 1) -> bool:
        """Precede work of so many units, on a turn of its own if none are left.

        Returns:
            Whether others ran meanwhile: what was looked at before may have changed.
        """
        yields = self._left <= 0
        if yields:
            await asyncio.sleep(0)
            self._left = self._units
        self._left -= units
        return yields

    def note(self, units: int) -> None:
        """Work of so many units was done besides: how much was not known before."""
        self._left -= units
