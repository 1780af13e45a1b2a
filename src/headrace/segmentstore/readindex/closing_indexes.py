"""Closes segment indexes that were removed from a read index: fails their readers and frees their extents,
over several iterations of the loop.

A container that ends may have tens of thousands of segments, a segment a hundred thousand extents of one
block. They cannot be found any more, so only a caller that needs the memory has to wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.errors import HeadraceError
from headrace.segmentstore.readindex.segment_index import SegmentIndex

FREED_AT_ONCE: Final = 1000
"""Extents that are freed in one iteration of the loop, some 3 us each."""
_SEGMENT_AS_EXTENTS: Final = 4
"""The cost of closing a segment, or of failing one reader, in extents."""


class ClosingIndexes:
    """A queue of indexes to be closed: the first at once, the others in further iterations of the loop."""

    def __init__(self) -> None:
        self._queue: deque[tuple[SegmentIndex, HeadraceError]] = deque()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __iter__(self) -> Iterator[SegmentIndex]:
        return (index for index, _ in self._queue)

    def add(self, indexes: Iterable[SegmentIndex], error: HeadraceError) -> None:
        """Close ``indexes``; their readers fail with ``error``."""
        self._queue.extend((index, error) for index in indexes)
        if self._is_empty.is_set():
            self._close_some()

    async def wait_freed(self) -> None:
        """Return when the cache has freed the memory of all of them."""
        await self._is_empty.wait()

    def _close_some(self) -> None:
        queue, extents_max = self._queue, FREED_AT_ONCE
        while queue and extents_max > 0:
            index, error = queue[0]
            cost = index.entries.count + _SEGMENT_AS_EXTENTS * (1 + len(index.waiters))
            index.fail_readers(error)
            if index.close(extents_max):
                queue.popleft()
            extents_max -= cost
        if not queue:
            self._is_empty.set()
        else:
            self._is_empty.clear()
            asyncio.get_running_loop().call_soon(self._close_some)
