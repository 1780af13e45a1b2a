"""The memory of frames, shared by all logs of a process: what one log does not need now another one uses.

Logs are busy at different times. With frames of its own each would have as many as it needed in its worst
moment; together they have what all of them needed at one moment. The frame that was released last is lent
first: its pages are in memory already, and often in the processor's cache. So unused frames gather at the
bottom of the stack, and their pages go back to the system (:meth:`FrameMemory.trim`).

Each frame is a mapping of its own. A frame that its log never releases (an owner of a log that failed) is
forgotten here and unmapped once nothing refers to it: it is never lent again, so a late write into it does
no harm.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from dataclasses import dataclass
from typing import Final

from headrace.limits import MIB
from headrace.wal.frame import Frame
from headrace.wal.record_format import padded_bytes

WARM_FRAMES: Final = 2
"""Free frames whose pages are never returned: the first append after a pause finds memory."""

_HUGE_PAGE_BYTES: Final = 2 * MIB


@dataclass(slots=True)
class FrameMemoryStatistics:
    """Gauges of now."""

    frames_lent: int = 0
    frames_free: int = 0
    """Made and not lent."""

    frames_lent_max: int = 0
    """Most that were lent at a time since the start."""

    bytes_kept: int = 0
    """Memory of frames that are lent, or free and not trimmed."""

    frames_trimmed: int = 0
    """How often the pages of a frame went back to the system."""


class FrameMemory:
    """Frames of ``capacity`` bytes, made when needed. How many is bounded by the pools that take them.

    Used on one loop.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.frames_made = 0
        self.frames_lent = 0
        self._frames_lent_max = 0
        self._frames_trimmed = 0
        self._frame_bytes = padded_bytes(capacity)
        self._free: list[Frame] = []  # a stack; [0, _cold) have no pages
        self._cold = 0
        self._free_least = 0  # shortest the stack was since the last trim: what lies below was not used

    def take(self) -> Frame:
        """Lend a frame: the one that was released last, or a new one.

        Raises:
            OSError: the system gives no memory for a new one; nothing was taken.
        """
        if self._free:
            frame = self._free.pop()
            left = len(self._free)
            if left < self._free_least:
                self._free_least = left
                self._cold = min(self._cold, left)
        else:
            frame = Frame(reserve_pages(self._frame_bytes), self.capacity)
            self.frames_made += 1
        self.frames_lent += 1  # not before there is one
        self._frames_lent_max = max(self._frames_lent_max, self.frames_lent)
        return frame

    def prepare(self, count: int) -> None:
        """Have ``count`` free frames, so that the next calls of :meth:`take` need no memory.

        New ones, which have no pages yet, lie below all others.

        Raises:
            OSError: the system gives no memory for them all.
        """
        while len(self._free) < count:
            self._free.insert(0, Frame(reserve_pages(self._frame_bytes), self.capacity))
            self.frames_made += 1
            self._cold += 1
            self._free_least += 1

    def release(self, frame: Frame) -> None:
        """Release a frame that is not used any more."""
        self.frames_lent -= 1
        self._free.append(frame)

    def abandon(self, count: int) -> None:
        """Forget ``count`` frames that were taken and will never be released."""
        self.frames_lent -= count
        self.frames_made -= count

    def trim(self) -> int:
        """Return the pages of frames that were not taken since the last call to the system.

        Called now and then. Returns how many bytes that were.
        """
        unused = min(self._free_least, len(self._free) - WARM_FRAMES)
        self._free_least = len(self._free)
        cold = self._free[self._cold : max(self._cold, unused)]
        for frame in cold:
            return_pages(frame.buffer)
        self._cold += len(cold)
        self._frames_trimmed += len(cold)
        return len(cold) * self._frame_bytes

    def statistics(self) -> FrameMemoryStatistics:
        return FrameMemoryStatistics(
            frames_lent=self.frames_lent,
            frames_free=len(self._free),
            frames_lent_max=self._frames_lent_max,
            bytes_kept=(self.frames_made - self._cold) * self._frame_bytes,
            frames_trimmed=self._frames_trimmed,
        )

    def check(self) -> None:
        """Assert the invariants."""
        free = self._free
        assert 0 <= self._cold <= self._free_least <= len(free)
        assert self.frames_lent >= 0
        assert self.frames_made == self.frames_lent + len(free)
        assert self.frames_lent <= self._frames_lent_max
        assert all(not frame.lent and frame.done is None for frame in free)
        assert len({id(frame) for frame in free}) == len(free)


def reserve_pages(length: int) -> memoryview:
    """Return ``length`` bytes of zeroed memory on a page boundary; each page is allocated when it is touched.

    From 2 MiB on they begin at a huge page's boundary, and the kernel is asked for such pages as far as they
    can be filled: a direct write of 1 MiB then pins a page or two instead of 256, which halves its CPU time.
    It may refuse.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if length < _HUGE_PAGE_BYTES:
        return memoryview(mmap.mmap(-1, length, flags=flags))
    pages = mmap.mmap(-1, length + _HUGE_PAGE_BYTES, flags=flags)
    start = -_address_of(pages) % _HUGE_PAGE_BYTES
    with contextlib.suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE, start, length - length % _HUGE_PAGE_BYTES)
    return memoryview(pages)[start : start + length]


def return_pages(pages: memoryview) -> None:
    """Return memory of :func:`reserve_pages` to the system. It stays usable; its content is lost."""
    mapping = pages.obj
    assert isinstance(mapping, mmap.mmap)
    with contextlib.suppress(OSError):  # of a process whose memory is locked
        mapping.madvise(mmap.MADV_DONTNEED, _address_of(pages) - _address_of(mapping), len(pages))


def _address_of(memory: mmap.mmap | memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
