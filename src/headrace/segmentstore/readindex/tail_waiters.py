"""Reads of bytes that do not exist yet: one plain future each, woken by whatever may bring an answer."""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from headrace.errors import HeadraceError

WOKEN_AT_ONCE: Final = 500
"""Readers woken in one turn of the loop; the others are in turns of their own. Each looks again and answers,
some 8 us, and one segment may have ten thousand of them.
"""


class TailWaiters:
    """Who waits for which offset of one segment, in the order of their offsets.

    A woken reader looks again from the start, so waking too many is never wrong, and a wake-up carries no
    data that could be lost when the reader has gone in the meantime. Bounded by the number of clients'
    outstanding reads. Whoever waits for bytes far away costs an append nothing.
    """

    __slots__ = ("_due", "_error", "_heap", "_number", "_scheduled", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], int] = {}
        """Who waits, and for which offset. To be looked at by who appends; changed only here."""
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []  # some of them not waiting any more
        self._due: deque[asyncio.Future[None]] = deque()  # to be woken; some of them not waiting any more
        self._scheduled = False
        self._error: HeadraceError | None = None
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
        room = 0 if self._due else WOKEN_AT_ONCE
        while heap and heap[0][0] < length:
            if not room:
                self._put_off(length)
                return
            waiter = heappop(heap)[2]
            if self.waiting.pop(waiter, None) is not None and not waiter.done():
                waiter.set_result(None)
                room -= 1
        if heap:
            self._forget_gone()

    def _put_off(self, length: int) -> None:
        """Let the next turns of the loop wake those below ``length``."""
        heap, due = self._heap, self._due
        for _ in range(WOKEN_AT_ONCE):
            if not heap or heap[0][0] >= length:
                break
            due.append(heappop(heap)[2])
        else:  # one look at each of very many is cheaper than to take them one by one
            due.extend(waiter for offset, _, waiter in heap if offset < length)
            self._heap = [entry for entry in heap if entry[0] >= length]
            heapify(self._heap)
        self._forget_gone()
        self._schedule()

    def _forget_gone(self) -> None:
        if len(self._heap) > 2 * len(self.waiting) + 16:
            self._heap = [entry for entry in self._heap if entry[2] in self.waiting]
            heapify(self._heap)

    def wake_all(self) -> None:
        """The segment changed in a way that concerns every waiting read."""
        self._heap.clear()
        self._due = deque(self.waiting)
        if not self._scheduled:
            self._wake_due()

    def fail_all(self, error: HeadraceError) -> None:
        """There will never be an answer."""
        self._error = error
        self.wake_all()

    def _wake_due(self) -> None:
        """Wake the first of those who are due; the next turn of the loop goes on."""
        due, error = self._due, self._error
        for _ in range(min(len(due), WOKEN_AT_ONCE)):
            waiter = due.popleft()
            if self.waiting.pop(waiter, None) is None or waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        self._scheduled = False
        self._schedule()

    def _schedule(self) -> None:
        if self._due and not self._scheduled:
            self._scheduled = True
            self._due[0].get_loop().call_soon(self._wake_due)

    def check(self) -> None:
        """Assert that everybody who waits can be found, and hardly anybody else is kept."""
        found = {waiter for _, _, waiter in self._heap} | set(self._due)
        assert found >= self.waiting.keys()
        assert all(offset == self.waiting.get(waiter, offset) for offset, _, waiter in self._heap)
        assert len(self._heap) <= 2 * len(self.waiting) + 16
        assert self._scheduled or not self._due
