"""Cuts blocks of segment bytes into batches of whole events, joining what is split between two blocks. Pure.

The beginning of an event that ends in the next block is copied into the headroom of that block,
so the block itself stays where the socket put it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.framing.event_framing import find_frames
from headrace.client.reader.event_batch import EventBatch
from headrace.client.segment_address import SegmentAddress
from headrace.errors import DataCorruptionError, LargeEventError
from headrace.limits import EVENT_HEADER_BYTES

_LENGTH: Final = Struct(">i")


class EventCutter:
    """Events of one segment from some offset on. Blocks come in order and without gaps."""

    __slots__ = ("_address", "_bytes_max", "_offset", "_tail", "_wanted", "refused")

    def __init__(self, address: SegmentAddress, offset: int, bytes_max: int) -> None:
        """``bytes_max`` is that of one event."""
        self._address = address
        self._bytes_max = bytes_max
        self.refused: LargeEventError | None = None
        """The next event is larger than that: nothing more may be cut."""
        self._offset = offset
        self._tail = bytearray()
        self._wanted = 0
        """Bytes from ``_offset`` on without which there is no event."""

    @property
    def is_stopped(self) -> bool:
        """The next event is refused."""
        return self.refused is not None

    @property
    def offset(self) -> int:
        """Where the next event starts; everything in front of it was handed out."""
        return self._offset

    def cut(self, block: ReadBlock) -> EventBatch | None:
        """Return the events that are whole now, or None if the next event needs more bytes.

        Raises:
            DataCorruptionError: there is no event where one has to be; ``offset`` is its place in the
            segment.
        """
        assert block.offset == self._offset + len(self._tail)
        if self._tail and len(self._tail) + len(block) < self._wanted:
            self._tail += block.data  # an event larger than a block
            return None
        buffer, begin, end = self._join(block)
        try:
            frames = find_frames(buffer, begin, end)
        except DataCorruptionError as error:
            at = self._offset + (error.offset or begin) - begin
            raise DataCorruptionError(f"{self._address.name}: {error.args[0]}", offset=at) from None
        stop = int(frames[-1])
        self._keep_tail(buffer, stop, end, self._offset + stop - begin)
        if len(frames) == 1:
            return None
        address, offset = self._address, self._offset
        self._offset += stop - begin
        return EventBatch(address.scope, address.stream, address.segment_id, buffer, frames, offset)

    def _keep_tail(self, buffer: bytearray, stop: int, end: int, offset: int) -> None:
        self._tail = buffer[stop:end]
        self._wanted = EVENT_HEADER_BYTES
        if len(self._tail) >= EVENT_HEADER_BYTES:
            length = _LENGTH.unpack_from(self._tail, 4)[0]
            self._wanted += length
            if length > self._bytes_max:
                self._tail = bytearray()
                address, start = self._address, offset + EVENT_HEADER_BYTES
                self.refused = LargeEventError(
                    address.name, address.segment_id, offset, start, start + length, self._bytes_max
                )

    def _join(self, block: ReadBlock) -> tuple[bytearray, int, int]:
        """Put the waiting beginning of an event in front of the block."""
        tail = self._tail
        if not tail:
            return block.buffer, block.begin, block.end
        begin = block.begin - len(tail)
        if begin >= 0:
            block.buffer[begin : block.begin] = tail
            return block.buffer, begin, block.end
        tail += block.data
        return tail, 0, len(tail)

    def finish(self) -> None:
        """The bytes end here.

        Raises:
            DataCorruptionError: in the middle of an event.
        """
        if self._tail:
            raise DataCorruptionError(
                f"{self._address.name}: the segment ends inside an event", offset=self._offset
            )
