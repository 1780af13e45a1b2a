"""Segment indexes that have left a read index: their readers hear of it, the cache gets its memory back, and
others have turns of the loop in between.

A container that ends may have tens of thousands of segments, a segment a hundred thousand extents of one
block. Nobody finds them any more, so only whoever needs the memory has to wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.errors import HeadraceError
from headrace.segmentstore.readindex.segment_index import SegmentIndex

FREED_AT_ONCE: Final = 1000
"""Extents that are freed in one turn of the loop, some 3 us each."""
_SEGMENT_AS_EXTENTS: Final = 4
"""What it takes to forget a segment, and to answer one reader."""


class LeavingIndexes:
    """A queue of indexes to be closed. The first are closed at once, the others in the turns that follow."""

    def __init__(self) -> None:
        self._queue: deque[tuple[SegmentIndex, HeadraceError]] = deque()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __iter__(self) -> Iterator[SegmentIndex]:
        return (index for index, _ in self._queue)

    def add(self, indexes: Iterable[SegmentIndex], error: HeadraceError) -> None:
        """Close ``indexes``; their readers get ``error``."""
        self._queue.extend((index, error) for index in indexes)
        if self._is_empty.is_set():
            self._go_on()

    async def wait_freed(self) -> None:
        """Return when the memory of all of them is the cache's again."""
        await self._is_empty.wait()

    def _go_on(self) -> None:
        queue, room = self._queue, FREED_AT_ONCE
        while queue and room > 0:
            index, error = queue[0]
            cost = index.entries.count + _SEGMENT_AS_EXTENTS * (1 + len(index.waiters))
            index.fail_readers(error)
            if index.close(room):
                queue.popleft()
            room -= cost
        if not queue:
            self._is_empty.set()
        else:
            self._is_empty.clear()
            asyncio.get_running_loop().call_soon(self._go_on)
