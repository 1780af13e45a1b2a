"""Frames lent to the append path: page-aligned memory with room for the log's header, so that what a
connection parsed is written to disk without another copy.

One frame's memory::

    0              64                       64 + capacity      multiple of 4096
    | log's header | content: ``view`` ...  | padding          |

Frames are made on first need, up to the pool's bound, and reused for ever: the most recently returned first,
because its pages are warm.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.wal.record_format import RECORD_HEADER_BYTES, padded_bytes

if TYPE_CHECKING:
    from headrace.wal.file.segment_files import SegmentFile

Done = Callable[["Frame", Exception | None], None]


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
        "length",
        "lent",
        "offset",
        "padded",
        "started_at",
        "view",
    )

    def __init__(self, capacity: int) -> None:
        self.buffer = memoryview(mmap.mmap(-1, padded_bytes(capacity)))
        self.view = self.buffer[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + capacity]
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
        self.started_at = 0.0


class FramePool:
    """At most ``frames_max`` frames of ``capacity`` bytes. Used on one loop; reaching the bound answers
    None.
    """

    def __init__(self, capacity: int, frames_max: int) -> None:
        self.capacity = capacity
        self.frames_max = frames_max
        self.frames_made = 0
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
            frame = Frame(self.capacity)
            self.frames_made += 1
        else:
            return None
        frame.lent = True
        frame.length = 0
        return frame

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
