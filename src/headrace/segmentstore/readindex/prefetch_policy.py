"""Which readers read a segment sequentially, and how far ahead of them storage should be read.

A read that begins where an earlier one ended is by the same *sequential reader*. Its second read (the first,
if it is at the start of the segment) asks for one piece ahead; the window doubles with each piece that is
used up, as far as the cache has capacity for the windows of all readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.limits import MIB

PIECE_BYTES: Final = 1 * MIB
WINDOW_BYTES_MAX: Final = 8 * MIB
READERS_MAX: Final = 16
"""Sequential readers of one segment; the one that has been idle longest is forgotten first."""


def grant_window(share_bytes: int, active: int) -> int:
    """Return how far each of ``active`` readers may read ahead if history has ``share_bytes`` of the cache.

    All windows together fill half of the share. Readers that ended unnoticed still count, so each gets at
    least two pieces, unless the share is too small for that: then nothing is read ahead.
    """
    fair = max(2 * PIECE_BYTES, share_bytes // (2 * max(1, active)))
    return min(fair, share_bytes // 4, WINDOW_BYTES_MAX) // PIECE_BYTES * PIECE_BYTES


@dataclass(slots=True)
class SequentialReader:
    """A reader of a segment, identified only by the offset of its next read."""

    ahead: int
    """Bytes below this offset were requested already."""
    window: int = 0
    at_hand: bool = False
    """Storage answered its last read without waiting: reading ahead gains nothing."""


class SequentialReaders:
    """The sequential readers of one segment. Pure: takes reads, returns ranges."""

    __slots__ = ("_readers", "active")

    def __init__(self) -> None:
        self._readers: dict[int, SequentialReader] = {}
        self.active = 0  # readers with a window

    def __len__(self) -> int:
        return len(self._readers)

    def is_sequential(self, offset: int, start_offset: int) -> bool:
        """Whether a read at ``offset`` continues earlier ones, or is at the start of the segment."""
        return offset in self._readers or offset == start_offset

    def on_at_hand(self, offset: int, length: int) -> None:
        """A reader got ``length`` bytes at ``offset`` that storage had in memory."""
        reader = self._move(offset, offset + length)[0]
        reader.at_hand = True
        self.active -= reader.window > 0
        reader.window = 0

    def on_fetched(self, offset: int) -> None:
        """The read at ``offset`` has to wait for storage."""
        if (reader := self._readers.get(offset)) is not None:
            reader.at_hand = False

    def on_read(self, offset: int, length: int, start_offset: int, window_max: int) -> tuple[int, int] | None:
        """A reader got ``length`` bytes at ``offset``. Return the range ``[from, to)`` to read ahead, if any.

        Ranges end on multiples of PIECE_BYTES. ``window_max``: window that the cache grants one reader now.
        """
        end = offset + length
        reader, fresh = self._move(offset, end)
        if reader.at_hand or (fresh and offset != start_offset) or window_max < PIECE_BYTES:
            return None
        if reader.window and (end + reader.window) // PIECE_BYTES * PIECE_BYTES <= reader.ahead:
            return None  # no whole piece has been used up since the last time
        self.active += reader.window == 0
        reader.window = min(max(reader.window * 2, PIECE_BYTES), window_max)
        begin = max(reader.ahead, end)
        target = (end + reader.window) // PIECE_BYTES * PIECE_BYTES
        if target <= begin:
            return None
        reader.ahead = target
        return begin, target

    def _move(self, offset: int, end: int) -> tuple[SequentialReader, bool]:
        """Move the reader at ``offset`` to ``end``; return it, and whether it is new."""
        reader = self._readers.pop(offset, None)
        fresh = reader is None
        if reader is None:
            reader = SequentialReader(end)
            if len(self._readers) >= READERS_MAX:
                idle = self._readers.pop(next(iter(self._readers)))
                self.active -= idle.window > 0
        if (other := self._readers.pop(end, None)) is not None:  # two readers meet and become one
            self.active -= other.window > 0
            reader.ahead = max(reader.ahead, other.ahead)
            reader.at_hand = reader.at_hand or other.at_hand
        self._readers[end] = reader
        return reader, fresh
