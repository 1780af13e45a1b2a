"""Iterators that wait for those of the loop's thread, and lose nothing to an interrupt of the wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Generic, Self, TypeVar

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.forks import OfOneProcess
from headrace.client.public_calls import OURS, outward

T = TypeVar("T")


class _Item(Generic[T]):
    __slots__ = ("is_taken", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.is_taken = False


class LoopIterator(OfOneProcess, Iterator[T], Generic[T]):
    """Gives what an asynchronous iterator gives, which has to outlive a wait that is cancelled.

    One consumer at a time. An item that has come and was not returned, because Ctrl-C ended the wait for it,
    is the next one.
    """

    _called = "the iterator"

    def __init__(self, thread: LoopThread, items: AsyncIterator[T]) -> None:
        self._thread = thread
        self._items = items
        self._item: _Item[T] | None = None
        self._one_at_a_time = asyncio.Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self._item
        try:
            if item is None or item.is_taken:
                item = self._thread.run(self._hold())
            item.is_taken = True  # right in front of the return: an interrupt finds both or neither done
            return item.value
        except StopAsyncIteration:
            failure: BaseException = StopIteration()
        except OURS as error:
            failure = outward(error)
        raise failure

    async def _hold(self) -> _Item[T]:
        """Have an item that is not taken. It may be cancelled, also after it is done, and repeated."""
        async with self._one_at_a_time:
            item = self._item
            if item is None or item.is_taken:
                item = self._item = _Item(await anext(self._items))
            return item


class PageIterator(OfOneProcess, Iterator[T], Generic[T]):
    """Gives the items of pages, one hop to the loop's thread for each page."""

    _called = "the iterator"

    def __init__(self, thread: LoopThread, pages: AsyncIterator[Sequence[T]]) -> None:
        self._pages = LoopIterator(thread, pages)
        self._page: Sequence[T] = ()
        self._taken = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        page, taken = self._page, self._taken
        try:
            while taken == len(page):
                for following in self._pages:  # unlike next(), it lets no interrupt in behind the page
                    self._page, self._taken = page, taken = following, 0
                    break
                else:
                    raise StopIteration
            item = page[taken]
            self._taken = taken + 1
            return item
        except OURS as error:
            failure = outward(error)
        raise failure
