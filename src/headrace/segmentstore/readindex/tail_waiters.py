"""Reads of bytes that do not exist yet: one plain future each, woken by whatever may bring an answer."""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush

from headrace.errors import HeadraceError


class TailWaiters:
    """Who waits for which offset of one segment, in the order of their offsets.

    A woken reader looks again from the start, so waking too many is never wrong, and a wake-up carries no
    data that could be lost when the reader has gone in the meantime. Bounded by the number of clients'
    outstanding reads. Whoever waits for bytes far away costs an append nothing.
    """

    __slots__ = ("_heap", "_number", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], int] = {}
        """Who waits, and for which offset. To be looked at by who appends; changed only here."""
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []  # some of them not waiting any more
        self._number = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, offset: int) -> asyncio.Future[None]:
        """Return a future that resolves when a read at ``offset`` is worth another look."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[waiter] = offset
        self._number += 1
        heappush(self._heap, (offset, self._number, waiter))
        return waiter

    def discard(self, waiter: asyncio.Future[None]) -> None:
        """The reader does not wait any more."""
        if self.waiting.pop(waiter, None) is not None:
            self._forget_gone()

    def wake_below(self, length: int) -> None:
        """Bytes below ``length`` may be there now."""
        heap = self._heap
        while heap and heap[0][0] < length:
            waiter = heappop(heap)[2]
            if self.waiting.pop(waiter, None) is not None and not waiter.done():
                waiter.set_result(None)
        if heap:
            self._forget_gone()

    def _forget_gone(self) -> None:
        if len(self._heap) > 2 * len(self.waiting) + 16:
            self._heap = [entry for entry in self._heap if entry[2] in self.waiting]
            heapify(self._heap)

    def wake_all(self) -> None:
        """The segment changed in a way that concerns every waiting read."""
        for waiter in self._take_all():
            if not waiter.done():
                waiter.set_result(None)

    def fail_all(self, error: HeadraceError) -> None:
        """There will never be an answer."""
        for waiter in self._take_all():
            if not waiter.done():
                waiter.set_exception(error)

    def _take_all(self) -> list[asyncio.Future[None]]:
        waiting = list(self.waiting)
        self.waiting.clear()
        self._heap.clear()
        return waiting

    def check(self) -> None:
        """Assert that everybody who waits can be found, and hardly anybody else is kept."""
        found = {waiter: offset for offset, _, waiter in self._heap if waiter in self.waiting}
        assert found == self.waiting
        assert len(self._heap) <= 2 * len(self.waiting) + 16
