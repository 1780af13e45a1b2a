"""Reads of bytes that do not exist yet: one plain future each, woken by whatever may bring an answer."""

from __future__ import annotations

import asyncio

from headrace.errors import HeadraceError


class TailWaiters:
    """Who waits for which offset of one segment.

    A woken reader looks again from the start, so waking too many is never wrong, and a wake-up carries no
    data that could be lost when the reader has gone in the meantime. Bounded by the number of clients'
    outstanding reads.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int) -> asyncio.Future[None]:
        """Return a future that resolves when a read at ``offset`` is worth another look."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = offset
        return waiter

    def discard(self, waiter: asyncio.Future[None]) -> None:
        """The reader does not wait any more."""
        self._waiting.pop(waiter, None)

    def wake_below(self, length: int) -> None:
        """Bytes below ``length`` may be there now."""
        ready = [waiter for waiter, offset in self._waiting.items() if offset < length]
        for waiter in ready:
            del self._waiting[waiter]
            if not waiter.done():
                waiter.set_result(None)

    def wake_all(self) -> None:
        """The segment changed in a way that concerns every waiting read."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def fail_all(self, error: HeadraceError) -> None:
        """There will never be an answer."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
