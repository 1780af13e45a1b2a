"""A bounded queue between tasks of one loop: the bound, in items and bytes, is what back-pressure is made
of.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.errors import ClosedError, MailboxFullError

T = TypeVar("T")


@dataclass(slots=True)
class MailboxStatistics:
    """Gauges of now and marks since creation."""

    count: int
    count_max: int
    count_peak: int
    bytes: int
    bytes_max: int | None
    puts_waiting: int
    gets_waiting: int
    refused: int
    closed: bool


class Mailbox(Generic[T]):
    """First in, first out, also among those who wait to put. One event loop; no locks.

    At most ``count_max`` items and, if ``size_of`` is given, ``bytes_max`` bytes are held; an item larger
    than ``bytes_max`` is accepted when the mailbox is empty, as it would otherwise wait for ever.
    """

    def __init__(
        self, count_max: int, *, bytes_max: int | None = None, size_of: Callable[[T], int] | None = None
    ) -> None:
        assert count_max >= 1
        assert (bytes_max is None) == (size_of is None)  # a bound on bytes needs a measure, and the reverse
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._size_of = size_of
        self._items: deque[T] = deque()
        self._bytes = 0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._putters: deque[tuple[T, asyncio.Future[None]]] = deque()
        self._closed = False
        self._count_peak = 0
        self._refused = 0

    def __len__(self) -> int:
        return len(self._items)

    # ---- putting

    def put_nowait(self, item: T) -> None:
        """Add ``item`` at the end.

        Raises:
            MailboxFullError: a bound is reached, or others wait to put and come first.
            ClosedError: the mailbox was closed.
        """
        if self._closed:
            raise ClosedError("the mailbox is closed")
        if self._putters or not self._has_room_for(item):
            self._refused += 1
            raise MailboxFullError(f"{len(self._items)} items ({self._bytes} bytes) wait already")
        self._accept(item)

    async def put(self, item: T) -> None:
        """Add ``item`` at the end, waiting for room; those who wait are served in order.

        A cancelled put did not happen, unless the item had been accepted in the same turn of the loop.

        Raises:
            ClosedError: the mailbox was closed before the item was accepted.
        """
        if self._closed:
            raise ClosedError("the mailbox is closed")
        if not self._putters and self._has_room_for(item):
            self._accept(item)
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (item, room)
        self._putters.append(place)
        try:
            await room
        except BaseException:
            if not room.done() or room.cancelled():
                self._forget_putter(room)
                self._admit_putters()  # a smaller item behind this one may fit now
            raise

    # ---- getting

    async def get(self) -> T:
        """Remove and return the first item, waiting for one.

        Raises:
            ClosedError: the mailbox is closed and empty.
        """
        while not self._items:
            if self._closed:
                raise ClosedError("the mailbox is closed")
            arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(arrival)
            try:
                await arrival
            except BaseException:
                if arrival.done() and not arrival.cancelled():
                    self._wake_getter()  # the call was for us, but we leave: pass it on
                elif arrival in self._getters:  # else a wake-up has already passed over the cancelled future
                    self._getters.remove(arrival)
                raise
        return self._take()

    def get_many_nowait(self, n: int) -> list[T]:
        """Remove and return up to ``n`` items, possibly none."""
        return [self._take() for _ in range(min(n, len(self._items)))]

    # ---- life

    def close(self) -> None:
        """Refuse further items; what is inside can still be taken. Those who wait to put fail. Idempotent."""
        self._closed = True
        while self._putters:
            _, room = self._putters.popleft()
            if not room.done():
                room.set_exception(ClosedError("the mailbox is closed"))
        while self._getters:
            self._wake_getter()

    @property
    def closed(self) -> bool:
        return self._closed

    def statistics(self) -> MailboxStatistics:
        return MailboxStatistics(
            count=len(self._items),
            count_max=self._count_max,
            count_peak=self._count_peak,
            bytes=self._bytes,
            bytes_max=self._bytes_max,
            puts_waiting=len(self._putters),
            gets_waiting=len(self._getters),
            refused=self._refused,
            closed=self._closed,
        )

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._items) <= self._count_max
        if self._size_of is not None:
            assert self._bytes == sum(self._size_of(item) for item in self._items)
            assert self._bytes_max is not None
            assert self._bytes <= self._bytes_max or len(self._items) == 1
        if self._putters:
            assert not self._has_room_for(self._putters[0][0])  # nobody waits for room that is there
        assert not (self._closed and (self._putters or self._getters))

    # ---- inside

    def _has_room_for(self, item: T) -> bool:
        if len(self._items) >= self._count_max:
            return False
        if self._bytes_max is None or self._size_of is None or not self._items:
            return True
        return self._bytes + self._size_of(item) <= self._bytes_max

    def _accept(self, item: T) -> None:
        self._items.append(item)
        if self._size_of is not None:
            self._bytes += self._size_of(item)
        self._count_peak = max(self._count_peak, len(self._items))
        self._wake_getter()

    def _take(self) -> T:
        item = self._items.popleft()
        if self._size_of is not None:
            self._bytes -= self._size_of(item)
        if self._putters:
            self._admit_putters()
        return item

    def _admit_putters(self) -> None:
        while self._putters and self._has_room_for(self._putters[0][0]):
            item, room = self._putters.popleft()
            if not room.done():  # a cancelled one has not left the queue yet
                room.set_result(None)
                self._accept(item)

    def _forget_putter(self, room: asyncio.Future[None]) -> None:
        for index, (_, other) in enumerate(self._putters):
            if other is room:
                del self._putters[index]
                return

    def _wake_getter(self) -> None:
        while self._getters:
            arrival = self._getters.popleft()
            if not arrival.done():
                arrival.set_result(None)
                return
