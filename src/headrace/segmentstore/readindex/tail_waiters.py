"""Reads of bytes that do not exist yet: one future each, woken when an answer may exist."""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

from headrace.errors import HeadraceError

WOKEN_AT_ONCE: Final = 500
"""Readers woken in one iteration of the loop. Each plans its read again and answers, some 8 us, and one
segment may have ten thousand of them.
"""


class TailWaiters:
    """The readers that wait at each offset of one segment.

    A woken reader plans its read again, so waking too many is never wrong, and a wake-up carries no data that
    could be lost with a cancelled reader. Bounded by the clients' reads in flight. Readers that wait for
    bytes beyond an append cost it nothing.
    """

    __slots__ = ("_by_offset", "_due", "_error", "_offsets", "_scheduled", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], int] = {}
        """Each with the offset that it waits for. Appends read it; changed only here."""
        self._by_offset: dict[int, dict[asyncio.Future[None], None]] = {}
        self._offsets: list[int] = []  # a heap; some have no waiters any more
        self._due: deque[asyncio.Future[None]] = deque()  # to be woken; some do not wait any more
        self._scheduled = False
        self._error: HeadraceError | None = None

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, offset: int) -> asyncio.Future[None]:
        """Return a future that resolves when a read at ``offset`` may be answered."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[waiter] = offset
        if offset not in self._by_offset:
            self._by_offset[offset] = {}
            heappush(self._offsets, offset)
        self._by_offset[offset][waiter] = None
        return waiter

    def discard(self, waiter: asyncio.Future[None]) -> None:
        """The reader does not wait any more."""
        offset = self.waiting.pop(waiter, None)
        if offset is None or offset not in self._by_offset:
            return
        self._by_offset[offset].pop(waiter, None)
        if not self._by_offset[offset]:
            del self._by_offset[offset]
            if len(self._offsets) > 2 * len(self._by_offset) + 16:
                self._offsets = list(self._by_offset)
                heapify(self._offsets)

    def wake_below(self, length: int) -> None:
        """Bytes below ``length`` may be there now."""
        offsets = self._offsets
        while offsets and offsets[0] < length:
            self._due.extend(self._by_offset.pop(heappop(offsets), ()))
        if not self._scheduled:
            self._wake_due()

    def wake_all(self) -> None:
        """The segment changed in a way that concerns every waiting read."""
        for waiters in self._by_offset.values():
            self._due.extend(waiters)
        self._by_offset.clear()
        self._offsets.clear()
        if not self._scheduled:
            self._wake_due()

    def fail_all(self, error: HeadraceError) -> None:
        """There will never be an answer."""
        self._error = error
        self.wake_all()

    def _wake_due(self) -> None:
        """Wake the first due readers; the next iteration of the loop continues."""
        due, error = self._due, self._error
        for _ in range(min(len(due), WOKEN_AT_ONCE)):
            waiter = due.popleft()
            if self.waiting.pop(waiter, None) is None or waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        self._scheduled = bool(due)
        if due:
            due[0].get_loop().call_soon(self._wake_due)

    def check(self) -> None:
        """Assert that every waiting reader can be found, and few others are retained."""
        found = set(self._due)
        for offset, waiters in self._by_offset.items():
            assert waiters
            assert all(self.waiting.get(waiter) == offset for waiter in waiters)
            found |= waiters.keys()
        assert found >= self.waiting.keys()
        assert set(self._offsets) >= self._by_offset.keys()
        assert len(self._offsets) <= 2 * len(self._by_offset) + 17
        assert self._scheduled or not self._due
