"""The frames that one log may have of those of a process: the back-pressure of its append path. All logs
lend them in the same way, which is here.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.wal.contract import WalFrame
from headrace.wal.frame import Frame
from headrace.wal.frame_memory import FrameMemory


class FramePool:
    """At most ``frames_max`` frames of ``memory`` at a time; at the bound it answers None. Used on one loop.

    Without a shared ``memory`` it has one of its own.
    """

    def __init__(self, capacity: int, frames_max: int, memory: FrameMemory | None = None) -> None:
        self.memory = FrameMemory(capacity) if memory is None else memory
        assert self.memory.capacity == capacity
        self.capacity = capacity
        self.frames_max = frames_max
        self.frames_free = frames_max
        """How many ``acquire`` would lend now; of a closed pool: that were released."""
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
        """Have memory for ``count`` frames, as far as the bound allows so many; lend none.

        Raises:
            OSError: see ``FrameMemory.prepare``.
        """
        if not self._closed:
            self.memory.prepare(min(count, self.frames_free))

    def lent(self, frame: WalFrame) -> Frame:
        """Return a frame that is given to its log, for the log; it is lent, filled and not in flight."""
        assert isinstance(frame, Frame)
        assert frame.lent
        assert frame.done is None
        assert 0 <= frame.length <= self.capacity
        return frame

    def release(self, frame: Frame) -> None:
        """Release a frame and call the hook."""
        assert frame.lent  # a second release would lend one buffer to two writers
        assert frame.done is None  # in flight
        frame.lent = False
        frame.reset()
        self.frames_free += 1
        if not self._closed:
            self.memory.release(frame)
        if self._on_free is not None:
            self._on_free()

    def close(self) -> None:
        """Lend nothing more. Frames that are lent are never lent again, whether they are released or not.

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


class FrameLender:
    """What a ``Wal`` promises of its frames: the base of those that lend frames of a ``FramePool``."""

    def __init__(self, pool: FramePool) -> None:
        self._pool = pool

    @property
    def frame_bytes_max(self) -> int:
        """See ``Wal.frame_bytes_max``."""
        return self._pool.capacity

    @property
    def frames_free(self) -> int:
        """See ``Wal.frames_free``."""
        return self._pool.frames_free

    def acquire_frame(self) -> WalFrame | None:
        """See ``Wal.acquire_frame``."""
        return self._pool.acquire()

    def prepare_frames(self, count: int) -> None:
        """See ``Wal.prepare_frames``."""
        self._pool.prepare(count)

    def release_frame(self, frame: WalFrame) -> None:
        """See ``Wal.release_frame``."""
        assert isinstance(frame, Frame)
        self._pool.release(frame)

    def set_on_frame_free(self, hook: Callable[[], None] | None) -> None:
        """See ``Wal.set_on_frame_free``."""
        self._pool.set_on_frame_free(hook)
