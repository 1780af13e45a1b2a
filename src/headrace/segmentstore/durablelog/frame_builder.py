"""Packs operations into data frames lent by the WAL: each payload byte is copied once, from its source.

The builder knows bytes and frames, not what an operation means. A frame has the items (opaque to the builder)
whose last byte it contains; when the frame is durable, these items are, and all earlier ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.errors import ThrottledError
from headrace.segmentstore.durablelog.frame_format import (
    ENTRY_HEADER,
    FIRST,
    FRAME_HEADER,
    LAST,
    VERSION,
    WHOLE,
)
from headrace.wal.contract import Wal, WalFrame

Buffer = bytes | bytearray | memoryview

_FREE_MIN = ENTRY_HEADER.size + 64
"""A frame with fewer free bytes is sealed rather than filled with the start of the next operation."""

_NO_MEMORY: Final = "there is no memory for a frame of the log now"


class OpenFrame:
    """A frame being filled, and the items that will be durable with it."""

    __slots__ = ("capacity", "first_sequence", "frame", "items", "used", "view")

    def __init__(self, frame: WalFrame, capacity: int) -> None:
        self.frame = frame
        self.view = frame.view
        self.capacity = capacity
        self.used = FRAME_HEADER.size
        self.items: list[Any] = []
        self.first_sequence = -1


class FrameBuilder:
    """Fills frames. ``ready`` holds sealed ones, oldest first, for the caller to hand to the WAL."""

    def __init__(self, wal: Wal, set_aside: Callable[[int], None]) -> None:
        """``set_aside`` is notified of the bytes of each frame that is acquired, and, negative, released."""
        self._wal = wal
        self._set_aside = set_aside
        self._capacity = wal.frame_bytes_max
        self.content_bytes_max: Final = self._capacity - FRAME_HEADER.size - ENTRY_HEADER.size
        """Bytes of one operation that fit into one frame."""
        self.current: OpenFrame | None = None
        self.ready: deque[OpenFrame] = deque()

    def find_frame(self, size_bytes: int) -> OpenFrame | None:
        """Return a frame with ``size_bytes`` free bytes, sealing the current one if it has fewer.

        None: no frame is free now. ``size_bytes`` includes the entry header.

        Raises:
            ThrottledError: there is no memory for a frame now; no frame is open then.
        """
        current = self.current
        if current is not None:
            if current.used + size_bytes <= current.capacity:
                return current
            self.seal()
        return self._open()

    def _open(self) -> OpenFrame | None:
        try:
            frame = self._wal.acquire_frame()
        except (OSError, MemoryError) as error:
            raise ThrottledError(_NO_MEMORY) from error
        if frame is None:
            return None
        self._set_aside(self._capacity)
        self.current = OpenFrame(frame, self._capacity)
        return self.current

    def release(self, frame: OpenFrame) -> None:
        """Release a frame to the log: its content was applied."""
        self._set_aside(-self._capacity)
        self._wal.release_frame(frame.frame)

    @property
    def frames_free(self) -> int:
        return self._wal.frames_free

    def frames_needed(self, size_bytes: int) -> int:
        """How many fresh frames an operation of ``size_bytes`` may take in the worst case."""
        return 2 + size_bytes // self.content_bytes_max

    def prepare(self, size_bytes: int) -> None:
        """Ensure memory for a :meth:`write` of up to ``size_bytes`` in this iteration of the loop.

        For callers that change state before they write.

        Raises:
            ThrottledError: there is no memory now; nothing changed.
        """
        current = self.current
        if current is None or current.used + ENTRY_HEADER.size + size_bytes > current.capacity:
            try:
                self._wal.prepare_frames(-(-size_bytes // self.content_bytes_max))
            except (OSError, MemoryError) as error:
                raise ThrottledError(_NO_MEMORY) from error

    def write(self, pieces: Sequence[Buffer], size_bytes: int, item: Any, sequence: int) -> bool:
        """Write one operation into as many frames as it needs; ``item`` belongs to the last of them.

        Returns False, with nothing written, if no frame is free. The caller compares :meth:`frames_needed`
        with the free frames first, so that they cannot run out in the middle.
        """
        current = self.current
        need = ENTRY_HEADER.size + size_bytes
        if current is None or current.used + need > current.capacity:
            if current is not None and (
                current.capacity - current.used < _FREE_MIN or need <= self._capacity - FRAME_HEADER.size
            ):
                self.seal()
                current = None
            if current is None:
                current = self._open()
                if current is None:
                    return False
        if current.first_sequence < 0:
            current.first_sequence = sequence
        if current.used + need <= current.capacity:
            ENTRY_HEADER.pack_into(current.view, current.used, size_bytes, WHOLE)
            at = current.used + ENTRY_HEADER.size
            for piece in pieces:
                end = at + len(piece)
                current.view[at:end] = piece
                at = end
            current.used = at
            current.items.append(item)
            return True
        return self._write_spanning(current, pieces, size_bytes, item, sequence)

    def _write_spanning(
        self, current: OpenFrame, pieces: Sequence[Buffer], size_bytes: int, item: Any, sequence: int
    ) -> bool:
        remaining = size_bytes
        flags = FIRST
        source = iter(pieces)
        piece = memoryview(next(source))
        while True:
            length = min(current.capacity - current.used - ENTRY_HEADER.size, remaining)
            remaining -= length
            if remaining == 0:
                flags |= LAST
            ENTRY_HEADER.pack_into(current.view, current.used, length, flags)
            at = current.used + ENTRY_HEADER.size
            while length:
                while not piece:
                    piece = memoryview(next(source))
                part = piece[:length]
                end = at + len(part)
                current.view[at:end] = part
                piece = piece[len(part) :]
                length -= len(part)
                at = end
            current.used = at
            if remaining == 0:
                current.items.append(item)
                return True
            flags = 0
            self.seal()
            fresh = self._open()
            assert fresh is not None, "frames were counted before the operation began"
            current = fresh
            current.first_sequence = sequence

    def seal(self) -> None:
        """Close the current frame, unless it is empty, and queue it for the WAL."""
        current = self.current
        if current is not None and current.used > FRAME_HEADER.size:
            self.ready.append(current)
            self.current = None

    def take_ready(self, time_ms: int) -> OpenFrame:
        """Remove the oldest sealed frame and finish its header."""
        frame = self.ready.popleft()
        FRAME_HEADER.pack_into(frame.view, 0, VERSION, 0, 0, frame.used - FRAME_HEADER.size, time_ms)
        frame.frame.length = frame.used
        return frame
