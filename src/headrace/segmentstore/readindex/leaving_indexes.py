"""Segment indexes that have left a read index: readers are told, the cache gets its memory back, and others
have turns of the loop in between.

A container that ends may have tens of thousands of segments, a segment a hundred thousand extents of one
block. Nobody finds them any more, so only whoever needs the memory has to wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.errors import ContainerOfflineError, NoSuchSegmentError
from headrace.segmentstore.readindex.segment_index import SegmentIndex

FREED_AT_ONCE: Final = 1000
"""Extents that are freed in one turn of the loop, some 3 us each."""
_SEGMENT_AS_EXTENTS: Final = 4
"""What it takes to forget a segment, and to tell one reader."""


class LeavingIndexes:
    """A queue of indexes to be closed. The first are closed at once, the others in the turns that follow."""

    def __init__(self) -> None:
        self._queue: deque[tuple[SegmentIndex, ContainerOfflineError | None]] = deque()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __iter__(self) -> Iterator[SegmentIndex]:
        return (index for index, _ in self._queue)

    def add(self, indexes: Iterable[SegmentIndex], error: ContainerOfflineError | None = None) -> None:
        """Close ``indexes``. Their readers are told ``error`` when it is their turn, if that is given."""
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
            if error is not None:
                queue[0] = index, None
                tell_readers(index, error)
            if not index.close(room):
                break
            queue.popleft()
            room -= cost
        if not queue:
            self._is_empty.set()
        else:
            self._is_empty.clear()
            asyncio.get_running_loop().call_soon(self._go_on)


def tell_readers(index: SegmentIndex, error: NoSuchSegmentError | ContainerOfflineError) -> None:
    """Fail the reads that wait for bytes to come, in the segment and in what is merged into it."""
    for redirect in index.redirects:
        assert redirect.source.parked is not None
        redirect.source.parked.fail_all(error)
    index.waiters.fail_all(error)
