"""Asynchronous iterators that outlive a wait: one that is cancelled, or fails, is made again by the next one.

A generator does not: an exception ends it, and the next question is answered as if nothing were left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, Self, TypeVar

from headrace.client.forks import OfOneProcess

T = TypeVar("T")


class Each(OfOneProcess, AsyncIterator[T], Generic[T]):
    """What a call returns, time after time, until that is None. The call goes on only when it returns."""

    __slots__ = ("__weakref__", "_call")
    _called = "the iterator"

    def __init__(self, call: Callable[[], Awaitable[T | None]]) -> None:
        self._call = call

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        item = await self._call()
        if item is None:
            raise StopAsyncIteration
        return item


class Items(OfOneProcess, AsyncIterator[T], Generic[T]):
    """The items of pages, one by one."""

    __slots__ = ("__weakref__", "_page", "_pages", "_taken")
    _called = "the iterator"

    def __init__(self, pages: AsyncIterator[Sequence[T]]) -> None:
        self._pages = pages
        self._page: Sequence[T] = ()
        self._taken = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while self._taken == len(self._page):
            self._page, self._taken = await anext(self._pages), 0
        self._taken += 1
        return self._page[self._taken - 1]
