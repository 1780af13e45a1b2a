"""Memory for framed batches, used again as soon as nothing refers to it.

A batch is joined into one piece of memory from which its blocks are sent. In fresh memory the kernel has to
provide every page first, which costs more than the copy: half of a writer's CPU with events of 64 KiB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from io import BytesIO
from typing import Final

from headrace.limits import KIB, MIB

Buffer = bytes | bytearray | memoryview

WORTH_KEEPING_BYTES: Final = 64 * KIB
"""Smaller pieces come from the allocator's own lists without new pages."""
KEPT_BYTES_MAX: Final = 2 * MIB
"""Larger buffers are not kept."""
IDLE_BUFFERS_MAX: Final = 2
_TRIES: Final = 2
"""Buffers looked at per batch: one batch that stays behind is passed over."""


class FrameBuffers:
    """Buffers of one writer, oldest first: batches become durable in about the order they were made in.

    Holds at most twice the writer's window, and two buffers once nothing is on its way.
    """

    __slots__ = ("_count_max", "_ring")

    def __init__(self, window_bytes: int) -> None:
        self._ring: deque[BytesIO] = deque()
        self._count_max = max(IDLE_BUFFERS_MAX, window_bytes // MIB)

    def join(self, parts: Sequence[Buffer], size_bytes: int) -> memoryview:
        """Return ``parts``, ``size_bytes`` together, one behind the other.

        The memory is the caller's until the last view of it is gone.

        Raises:
            TypeError: a part is no bytes.
        """
        if not WORTH_KEEPING_BYTES <= size_bytes <= KEPT_BYTES_MAX:
            return memoryview(b"".join(parts))
        ring = self._ring
        for _ in range(min(_TRIES, len(ring))):
            buffer = ring[0]
            ring.rotate(-1)
            try:
                buffer.seek(0)
                buffer.writelines(parts)
            except BufferError:
                continue  # a block of that batch is still on its way
            return buffer.getbuffer()[:size_bytes]
        buffer = BytesIO()
        buffer.writelines(parts)
        if len(ring) < self._count_max:
            ring.append(buffer)
        return buffer.getbuffer()[:size_bytes]

    def on_idle(self) -> None:
        """Nothing is on its way: keep enough for a caller who waits for each batch."""
        while len(self._ring) > IDLE_BUFFERS_MAX:
            self._ring.popleft()
