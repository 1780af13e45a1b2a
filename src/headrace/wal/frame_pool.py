"""Frames lent to the append path: page-aligned memory with room for the log's header, so that what a
connection parsed is written to disk without another copy.

One frame's memory::

    0              64                       64 + capacity      multiple of 4096
    | log's header | content: ``view`` ...  | padding          |

Frames are made on first need, up to the pool's bound, and reused for ever: the most recently returned first,
because its pages are warm. All frames of a pool lie in one reserved range, in huge pages where the system
lends them: a direct write of 1 MiB then pins a page or two instead of 256, which halves its CPU time.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.limits import MIB
from headrace.wal.record_format import RECORD_HEADER_BYTES, padded_bytes

if TYPE_CHECKING:
    from headrace.wal.file.segment_files import SegmentFile

Done = Callable[["Frame", Exception | None], None]

_HUGE_PAGE_BYTES: Final = 2 * MIB


class Frame:
    """One buffer and, while it is in the air, what the log knows about it.

    ``view``, ``length`` and ``address`` are the caller's (see ``WalFrame``); the rest belongs to the log.
    """

    __slots__ = (
        "address",
        "buffer",
        "done",
        "error",
        "file",
        "finished",
        "handed_at",
        "length",
        "lent",
        "offset",
        "padded",
        "started_at",
        "starved",
        "view",
    )

    def __init__(self, buffer: memoryview, capacity: int) -> None:
        self.buffer = buffer
        self.view = buffer[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + capacity]
        self.length = 0
        self.address = 0
        self.lent = False
        self.reset()

    def reset(self) -> None:
        """Forget the last flight."""
        self.done: Done | None = None
        self.error: Exception | None = None
        self.file: SegmentFile | None = None
        self.offset = 0
        self.padded = 0
        self.finished = False
        self.starved = False
        self.started_at = 0.0
        self.handed_at = 0.0


class FramePool:
    """At most ``frames_max`` frames of ``capacity`` bytes. Used on one loop; reaching the bound answers
    None.
    """

    def __init__(self, capacity: int, frames_max: int) -> None:
        self.capacity = capacity
        self.frames_max = frames_max
        self.frames_made = 0
        self._frame_bytes = padded_bytes(capacity)
        self._range: memoryview | None = None
        self._free: list[Frame] = []
        self._on_free: Callable[[], None] | None = None

    @property
    def frames_free(self) -> int:
        return len(self._free) + self.frames_max - self.frames_made

    def set_on_frame_free(self, hook: Callable[[], None] | None) -> None:
        """Install the hook called after each ``release``."""
        self._on_free = hook

    def acquire(self) -> Frame | None:
        """Lend an empty frame, or None at the bound."""
        if self._free:
            frame = self._free.pop()
        elif self.frames_made < self.frames_max:
            frame = self._make_frame()
        else:
            return None
        frame.lent = True
        frame.length = 0
        return frame

    def _make_frame(self) -> Frame:
        if self._range is None:
            self._range = reserve_pages(self._frame_bytes * self.frames_max)
        start = self._frame_bytes * self.frames_made
        self.frames_made += 1
        return Frame(self._range[start : start + self._frame_bytes], self.capacity)

    def release(self, frame: Frame) -> None:
        """Take a frame back and tell the hook."""
        assert frame.lent  # twice is a bug that would hand one buffer to two writers
        assert frame.done is None  # in the air
        frame.lent = False
        frame.reset()
        self._free.append(frame)
        if self._on_free is not None:
            self._on_free()

    def check(self) -> None:
        """Assert the pool's invariants."""
        assert 0 <= len(self._free) <= self.frames_made <= self.frames_max
        assert all(not frame.lent and frame.done is None for frame in self._free)


def reserve_pages(length: int) -> memoryview:
    """Return ``length`` bytes of zeroed memory on a page boundary; each page is taken when it is touched.

    From 2 MiB on they begin at a huge page's boundary, and the kernel is asked for such pages. It may refuse.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if length < _HUGE_PAGE_BYTES:
        return memoryview(mmap.mmap(-1, length, flags=flags))
    length += -length % _HUGE_PAGE_BYTES
    pages = mmap.mmap(-1, length + _HUGE_PAGE_BYTES, flags=flags)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(pages)) % _HUGE_PAGE_BYTES
    with contextlib.suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE, start, length)
    return memoryview(pages)[start : start + length]
