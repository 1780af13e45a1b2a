"""Goes through a range of a table in the order of its keys: pages of its partitions, one ahead, merged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Self

from headrace.client.tables.key_layout import KeyBounds, next_key
from headrace.client.tables.page_merge import PageMerge

PAGE_COUNT_MAX: Final = 256
"""Items of one request; a server stops a page at some megabytes."""

_ITEMS_AHEAD_MAX: Final = 4096
"""Of all partitions; what each may have of them is not less than ``_PAGE_COUNT_LEAST``."""

_PAGE_COUNT_LEAST: Final = 8
_PAGES_IN_FLIGHT_MAX: Final = 32

ReadPage = Callable[[int, bytes, bytes, int], Awaitable[tuple[Sequence[Any], bytes]]]
"""Reads about so many items of one segment from a first to a last key, in order, and returns them with the
last whole key among them; no items: there are none.
"""


class TableScan(AsyncIterator[Sequence[Any]]):
    """One pass over a range, sorted by key: many items at once. While one page is used the next ones come.

    The first field of an item is its key. What exists during the whole pass comes exactly once. Up to two
    pages of each partition are in memory. After a wait that was cancelled, or has failed, the pass goes on.
    """

    def __init__(self, read_page: ReadPage, segment_ids: Sequence[int], bounds: KeyBounds) -> None:
        self._read_page = read_page
        self._segment_ids = segment_ids
        self._last = bounds.last
        self._next = [bounds.first] * len(segment_ids)
        """Behind the pages that were added."""
        self._coming: dict[int, asyncio.Task[_Page]] | None = None
        self._merge = PageMerge(len(segment_ids))
        self._in_flight = asyncio.Semaphore(_PAGES_IN_FLIGHT_MAX)
        share = _ITEMS_AHEAD_MAX // (2 * len(segment_ids))
        self._page_count = max(_PAGE_COUNT_LEAST, min(PAGE_COUNT_MAX, share))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Any]:
        merge, coming = self._merge, self._coming
        if coming is None:
            coming = self._coming = {}
            for n in merge.wanted:
                coming[n] = self._fetch(n)
        for n in merge.wanted:
            task = coming[n] = coming.get(n) or self._fetch(n)
            try:
                page = await task
            finally:
                del coming[n]  # if it was cancelled or failed, it is asked for again
            following = next_key(page.last) if page.items else None
            if following is not None and following <= self._last:
                self._next[n] = following
                coming[n] = self._fetch(n)
                merge.add(n, page.items, is_last=False)
            else:
                merge.add(n, page.items, is_last=True)
        merged = merge.take()
        if not merged:
            raise StopAsyncIteration
        return merged

    def _fetch(self, n: int) -> asyncio.Task[_Page]:
        """Ask for the next page of a partition."""
        task = asyncio.ensure_future(self._read(n, self._next[n]))
        task.add_done_callback(_ignore_error)  # nobody may want it any more
        return task

    async def _read(self, n: int, first: bytes) -> _Page:
        async with self._in_flight:
            return _Page(*await self._read_page(self._segment_ids[n], first, self._last, self._page_count))

    async def aclose(self) -> None:
        """Ask for nothing any more."""
        tasks = list((self._coming or {}).values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Page(NamedTuple):
    items: Sequence[Any]
    last: bytes


def _ignore_error(task: asyncio.Task[_Page]) -> None:
    if not task.cancelled():
        task.exception()
