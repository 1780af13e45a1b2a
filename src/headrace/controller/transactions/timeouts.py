"""Wakes transactions whose lease ran out: one timer for all of them.

An entry is armed for a version of the row. Whatever this controller does with the transaction afterwards
writes the row, so an entry for an older version is dropped when its time comes. A row that another controller
wrote drops nothing: it may have died since. Deadlines are on the loop's clock: a wall
clock that jumps must not expire anything. After a restart everything is armed anew with a full lease.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

from headrace.controller.transactions.registry import Txn

Expire = Callable[[Txn, int], None]
"""Called with the transaction and the version its entry was armed for. Must not wait."""

_SWEEP_MIN: Final = 1024

TICK_S: Final = 0.4
"""Expiries are acted on in steps of this: what is due within one step costs one wake-up."""


class Timeouts:
    """A heap of deadlines. Used on one event loop; ``run`` is its only task."""

    def __init__(self, expire: Expire) -> None:
        self._expire = expire
        self._heap: list[tuple[float, int, int, Txn]] = []
        self._sequence = 0
        self._sweep_at = _SWEEP_MIN
        self._earlier = asyncio.Event()

    def arm(self, txn: Txn, delay_ms: int) -> None:
        """Expire the transaction in ``delay_ms``, unless its row is written again before."""
        deadline = asyncio.get_running_loop().time() + delay_ms / 1000
        if len(self._heap) >= self._sweep_at:
            self._drop_stale()
        self._sequence += 1
        txn.watched = txn.version
        heapq.heappush(self._heap, (deadline, self._sequence, txn.version, txn))
        if self._heap[0][0] == deadline:
            self._earlier.set()

    def drop(self, is_dropped: Callable[[Txn], bool]) -> None:
        """Expire none of these transactions, unless they are armed again."""
        self._heap = [entry for entry in self._heap if not is_dropped(entry[3])]
        heapq.heapify(self._heap)

    async def run(self) -> None:
        """Expire what is due, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._earlier.clear()
            now = loop.time()
            while self._heap and self._heap[0][0] <= now:
                _, _, version, txn = heapq.heappop(self._heap)
                if txn.watched == version:
                    self._expire(txn, version)
            delay_s = max(TICK_S, self._heap[0][0] - now) if self._heap else None
            try:
                async with asyncio.timeout(delay_s):
                    await self._earlier.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(TICK_S)  # many transactions begin at once: look at them together

    def statistics(self) -> dict[str, int]:
        return {"armed": len(self._heap)}

    def _drop_stale(self) -> None:
        """Keep only entries whose row is still the one they were armed for; most never expire."""
        self._heap = [entry for entry in self._heap if entry[3].watched == entry[2]]
        heapq.heapify(self._heap)
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._heap))
