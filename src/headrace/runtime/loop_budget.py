"""A work budget: what a task may do before it yields to the event loop."""

from __future__ import annotations

import asyncio


class LoopBudget:
    """Yields to the loop whenever ``units`` of work are spent: a few milliseconds' worth.

    The owner chooses the unit: names, rows, bytes. So the work alone decides what is done in which iteration,
    not a clock. One piece of work is never split: it may exceed the rest of the budget.
    """

    __slots__ = ("_left", "_units")

    def __init__(self, units: int) -> None:
        assert units > 0
        self._units = self._left = units

    async def spend(self, units: int = 1) -> bool:
        """Spend ``units`` before work of that size; yield to the loop first if none are left.

        Returns:
            Whether it yielded: state that was read before may have changed.
        """
        yields = self._left <= 0
        if yields:
            await asyncio.sleep(0)
            self._left = self._units
        self._left -= units
        return yields

    def note(self, units: int) -> None:
        """Spend ``units`` after work whose size was not known before."""
        self._left -= units
