"""Goes through a range of a table in the order of its keys: pages of its partitions, one ahead, merged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

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


class TableScan:
    """One pass over a range, sorted by key. While one page is used the next ones come.

    The first field of an item is its key. What exists during the whole pass comes exactly once. Up to two
    pages of each partition are in memory.
    """

    def __init__(self, read_page: ReadPage, segment_ids: Sequence[int], bounds: KeyBounds) -> None:
        self._read_page = read_page
        self._segment_ids = segment_ids
        self._last = bounds.last
        self._next: list[bytes | None] = [bounds.first] * len(segment_ids)
        self._merge = PageMerge(len(segment_ids))
        self._in_flight = asyncio.Semaphore(_PAGES_IN_FLIGHT_MAX)
        share = _ITEMS_AHEAD_MAX // (2 * len(segment_ids))
        self._page_count = max(_PAGE_COUNT_LEAST, min(PAGE_COUNT_MAX, share))

    async def pages(self) -> AsyncIterator[Sequence[Any]]:
        """Yield items, many at once."""
        tasks = {n: asyncio.ensure_future(self._fetch(n)) for n in range(len(self._segment_ids))}
        merge = self._merge
        try:
            while True:
                for n in merge.wanted:
                    page = await tasks.pop(n)
                    following = self._next[n]
                    merge.add(n, page, is_last=following is None)
                    if following is not None:
                        tasks[n] = asyncio.ensure_future(self._fetch(n))
                merged = merge.take()
                if not merged:
                    return
                yield merged
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _fetch(self, n: int) -> Sequence[Any]:
        """Return the next page of a partition, and note where the one behind it begins."""
        first = self._next[n]
        assert first is not None
        async with self._in_flight:
            page, last = await self._read_page(self._segment_ids[n], first, self._last, self._page_count)
        following = next_key(last) if page else None
        self._next[n] = None if following is None or following > self._last else following
        return page
