"""What one log may borrow of the frames of a process: the back-pressure of its append path."""

from __future__ import annotations

from collections.abc import Callable

from headrace.wal.frame import Frame
from headrace.wal.frame_memory import FrameMemory


class FramePool:
    """At most ``frames_max`` frames of ``memory`` at a time. Used on one loop; at the bound it answers None.

    Without a ``memory`` that is shared it has one of its own.
    """

    def __init__(self, capacity: int, frames_max: int, memory: FrameMemory | None = None) -> None:
        self.memory = FrameMemory(capacity) if memory is None else memory
        assert self.memory.capacity == capacity
        self.capacity = capacity
        self.frames_max = frames_max
        self.frames_free = frames_max
        """How many ``acquire`` would lend now; of a closed pool: that have come back."""
        self._closed = False
        self._on_free: Callable[[], None] | None = None

    def set_on_frame_free(self, hook: Callable[[], None] | None) -> None:
        """Install the hook called after each ``release``."""
        self._on_free = hook

    def acquire(self) -> Frame | None:
        """Lend an empty frame, or None at the bound.

        Raises:
            OSError: see ``FrameMemory.take``; nothing was lent.
        """
        if self._closed or not self.frames_free:
            return None
        frame = self.memory.take()
        self.frames_free -= 1
        frame.lent = True
        frame.length = 0
        return frame

    def prepare(self, count: int) -> None:
        """Have memory for ``count`` frames at hand, as far as there are so many to lend; lend none.

        Raises:
            OSError: see ``FrameMemory.prepare``.
        """
        if not self._closed:
            self.memory.prepare(min(count, self.frames_free))

    def release(self, frame: Frame) -> None:
        """Take a frame back and tell the hook."""
        assert frame.lent  # twice is a bug that would hand one buffer to two writers
        assert frame.done is None  # in the air
        frame.lent = False
        frame.reset()
        self.frames_free += 1
        if not self._closed:
            self.memory.give(frame)
        if self._on_free is not None:
            self._on_free()

    def close(self) -> None:
        """Lend nothing more. Frames that are out are never lent again, whether they come back or not.

        Idempotent.
        """
        if not self._closed:
            self._closed = True
            self.memory.abandon(self.frames_max - self.frames_free)

    def check(self) -> None:
        """Assert the invariants of the pool and of its memory."""
        assert 0 <= self.frames_free <= self.frames_max
        assert self._closed or self.frames_max - self.frames_free <= self.memory.frames_lent
        self.memory.check()
