"""Which bytes of which chunks were written last, and which are old enough to be dropped from the page cache.

What a store writes stays in the page cache until the system needs the memory, though it is hardly ever read:
readers at the tail are served from the cache of the process, and readers far behind need what was written
long ago. So a writer takes every free page once, and on a virtual machine that returns free memory to its
host a page taken for the first time costs ten times what it costs to fill it. With a window, the pages of old
bytes are used again for new ones.

Pure bookkeeping, with bounds of its own; what it forgets is left to the system.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from typing import Final, NamedTuple

CHUNKS_MAX: Final = 10_000
"""Of more chunks than these the oldest are handed out early."""

STALE_MAX: Final = 1000
"""Ranges handed out at a time."""

_STEP_BYTES: Final = 4 << 20
"""So much at least of a long range is handed out at once."""

_SLACK: Final = 16
"""One part in so many of the window is freed at a time: few and large rounds."""


class StaleRange(NamedTuple):
    """``length`` bytes of a chunk from ``offset`` on, in bytes; begins with a page."""

    name: str
    offset: int
    length: int


class WrittenWindow:
    """One range for each chunk; chunks in the order in which their ranges began."""

    __slots__ = ("_bytes_max", "_ranges", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._ranges: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self.bytes = 0
        """In the window, whole pages at the beginnings of ranges."""

    @property
    def is_over(self) -> bool:
        """Whether there is something to hand out."""
        return self.bytes > self._bytes_max or len(self._ranges) > CHUNKS_MAX

    def note(self, name: str, offset: int, length: int) -> None:
        """Add bytes that were written and are synced."""
        if length <= 0:
            return
        begin, end = offset - offset % mmap.PAGESIZE, offset + length
        known = self._ranges.get(name)
        if known is not None:
            begin, end = min(begin, known[0]), max(end, known[1])
            self.bytes -= known[1] - known[0]
        self._ranges[name] = (begin, end)
        self.bytes += end - begin
        if len(self._ranges) > 2 * CHUNKS_MAX:  # what is stale was not taken for a long time
            self.forget(next(iter(self._ranges)))

    def forget(self, name: str) -> None:
        """The chunk is gone."""
        begin, end = self._ranges.pop(name, (0, 0))
        self.bytes -= end - begin

    def take_stale(self) -> list[StaleRange]:
        """Return the oldest ranges, if the window is exceeded, so that it is not for a while."""
        stale: list[StaleRange] = []
        if not self.is_over:
            return stale
        bytes_low = self._bytes_max - self._bytes_max // _SLACK
        chunks_low = CHUNKS_MAX - CHUNKS_MAX // _SLACK
        while self._ranges and len(stale) < STALE_MAX:
            excess = self.bytes - bytes_low
            crowded = len(self._ranges) > chunks_low
            if excess <= 0 and not crowded:
                break
            name, (begin, end) = next(iter(self._ranges.items()))
            cut = end if crowded else min(end, begin + -(-excess // _STEP_BYTES) * _STEP_BYTES)
            if cut == end:
                del self._ranges[name]
            else:
                self._ranges[name] = (cut, end)
            self.bytes -= cut - begin
            stale.append(StaleRange(name, begin, cut - begin))
        return stale
