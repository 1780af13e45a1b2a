"""Cuts what a segment store sends into replies, so that the bytes of large reads land where they stay. Pure.

Small replies are parsed in one reused buffer. A reply that does not fit in what has arrived gets a buffer
of its own, as large as itself plus a headroom: the socket writes into it, nothing is copied, and the caller
of the read owns it. The headroom is for the beginning of an event whose rest arrives with this reply.

A buffer without references is used for another reply: fresh memory of that size is cleared by the
allocator and faulted in page by page by the system, which costs as much as receiving into it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from struct import Struct
from typing import Final

from headrace.errors import ProtocolError
from headrace.limits import KIB, MIB
from headrace.wire.catalogue import REPLIES, TYPE_IDS
from headrace.wire.commands import DataAppended, SegmentRead
from headrace.wire.frames import CLIENT_PAYLOAD_BYTES_MAX, HEAD, HEAD_BYTES, check_head

RECEIVE_BUFFER_BYTES: Final = 64 * KIB
"""Small enough that little of a large reply is copied, large enough for hundreds of acknowledgements."""

HEADROOM_BYTES: Final = 64 * KIB

SPARES_MAX: Final = 4
SPARE_BYTES_MAX: Final = 4 * MIB

_SEGMENT_READ: Final = TYPE_IDS[SegmentRead]
_TEXT_SIZE: Final = Struct(">H")
_READ_MIDDLE: Final = Struct(">q??i")
_REQUEST_ID: Final = Struct(">q")
_ACKNOWLEDGEMENT: Final = Struct(">8s16sqqqq")
_ACKNOWLEDGEMENT_HEAD: Final = HEAD.pack(TYPE_IDS[DataAppended], _ACKNOWLEDGEMENT.size - HEAD_BYTES)


class ReadBlock:
    """The data of one reply to a read: ``buffer[begin:end]``. The bytes before ``begin`` are free to be
    used.
    """

    __slots__ = ("at_tail", "begin", "buffer", "end", "end_of_segment", "offset", "request_id")

    def __init__(
        self,
        buffer: bytearray,
        begin: int,
        end: int,
        offset: int,
        request_id: int,
        at_tail: bool,
        end_of_segment: bool,
    ) -> None:
        self.buffer = buffer
        self.begin = begin
        self.end = end
        self.offset = offset
        self.request_id = request_id
        self.at_tail = at_tail
        self.end_of_segment = end_of_segment

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def data(self) -> memoryview:
        return memoryview(self.buffer)[self.begin : self.end]


@dataclass(slots=True)
class ReplyReceiverStatistics:
    """Counts since creation."""

    bytes_received: int = 0
    replies: int = 0
    large_replies: int = 0


class ReplyReceiver:
    """The receiving half of one connection. Offer :meth:`get_buffer` to the socket, then take replies."""

    __slots__ = (
        "_begin",
        "_buffer",
        "_end",
        "_large",
        "_large_end",
        "_large_filled",
        "_large_view",
        "_spares",
        "_statistics",
        "_view",
    )

    def __init__(self) -> None:
        self._buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._begin = 0
        self._end = 0
        self._large: bytearray | None = None
        self._large_view = memoryview(b"")
        self._large_end = 0
        self._large_filled = 0
        self._spares: list[bytearray] = []
        self._statistics = ReplyReceiverStatistics()

    def get_buffer(self) -> memoryview:
        """Return where the next bytes go; at least one fits."""
        if self._large is not None:
            return self._large_view[self._large_filled :]
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end == len(self._buffer):
            left = self._end - self._begin
            self._view[:left] = bytes(self._view[self._begin : self._end])
            self._begin, self._end = 0, left
        return self._view[self._end :]

    def buffer_updated(self, size: int) -> None:
        """``size`` bytes arrived in the buffer returned last."""
        self._statistics.bytes_received += size
        if self._large is not None:
            self._large_filled += size
        else:
            self._end += size

    def next_reply(self) -> tuple[int, memoryview] | ReadBlock | None:
        """Take the next reply: type and payload (valid until the next ``get_buffer``), or the bytes of a
        read.

        Raises:
            ProtocolError: the peer sent what is no reply; the connection cannot be used any more.
        """
        if self._large is not None:
            return self._take_large()
        begin, available = self._begin, self._end - self._begin
        if available < HEAD_BYTES:
            return None
        type_id, size = HEAD.unpack_from(self._buffer, begin)
        whole = HEAD_BYTES + size
        if 0 <= size and whole <= available:
            if type_id not in REPLIES:
                raise ProtocolError(f"no command {type_id} may arrive here")
            self._begin = begin + whole
            self._statistics.replies += 1
            payload = self._view[begin + HEAD_BYTES : begin + whole]
            if type_id == _SEGMENT_READ:
                copy = bytearray(payload)
                return _read_block(copy, 0, len(copy))
            return type_id, payload
        check_head(type_id, size, REPLIES, CLIENT_PAYLOAD_BYTES_MAX)
        if type_id == _SEGMENT_READ or whole > RECEIVE_BUFFER_BYTES:
            self._begin_large(type_id, size)
        return None

    def next_acknowledgement(self) -> tuple[bytes, int, int, int] | None:
        """Take the next reply if it is an acknowledgement of appends, which most replies of a writer are.

        Returns:
            The writer, the last event number, the one acknowledged before, the length of the segment.
        """
        begin = self._begin
        if self._end - begin < _ACKNOWLEDGEMENT.size or self._large is not None:
            return None
        kind, writer_id, number, previous, _, length = _ACKNOWLEDGEMENT.unpack_from(self._buffer, begin)
        if kind != _ACKNOWLEDGEMENT_HEAD:
            return None
        self._begin = begin + _ACKNOWLEDGEMENT.size
        self._statistics.replies += 1
        return writer_id, number, previous, length

    def _begin_large(self, type_id: int, size: int) -> None:
        """Move what has arrived of a reply into a buffer of its own."""
        headroom = HEADROOM_BYTES if type_id == _SEGMENT_READ else HEAD_BYTES
        self._large_end = headroom + size
        self._large = self._take_buffer(self._large_end)
        start = headroom - HEAD_BYTES
        self._large_view = memoryview(self._large)[start : self._large_end]
        arrived = self._end - self._begin
        self._large_view[:arrived] = self._view[self._begin : self._end]
        self._large_filled = arrived
        self._begin = self._end = 0

    def _take_buffer(self, size: int) -> bytearray:
        """Return a buffer of ``size`` bytes or somewhat more that has no other references."""
        spares = self._spares
        for number in range(len(spares)):
            if size <= len(spares[number]) <= 2 * size and _references(spares, number) == _ALONE:
                return spares[number]
        buffer = bytearray(size)
        if _COUNTS_REFERENCES and size <= SPARE_BYTES_MAX:
            if len(spares) >= SPARES_MAX:
                del spares[0]
            spares.append(buffer)
        return buffer

    def forget_spares(self) -> None:
        """Keep no memory for replies to come."""
        self._spares.clear()

    def _take_large(self) -> tuple[int, memoryview] | ReadBlock | None:
        large, view = self._large, self._large_view
        assert large is not None
        if self._large_filled < len(view):
            return None
        self._large = None
        self._large_view = memoryview(b"")
        self._large_filled = 0
        self._statistics.replies += 1
        self._statistics.large_replies += 1
        type_id = HEAD.unpack_from(view, 0)[0]
        if type_id != _SEGMENT_READ:
            return type_id, view[HEAD_BYTES:]
        return _read_block(large, HEADROOM_BYTES, self._large_end)

    def statistics(self) -> ReplyReceiverStatistics:
        return self._statistics

    def check(self) -> None:
        """Assert the invariants of the buffers."""
        assert 0 <= self._begin <= self._end <= len(self._buffer)
        assert 0 <= self._large_filled <= len(self._large_view)
        assert self._large is not None or not len(self._large_view)


def _read_block(buffer: bytearray, begin: int, end: int) -> ReadBlock:
    """Parse a SegmentRead in ``buffer[begin:end]``; unlike other replies its data stay where they are."""
    try:
        middle = begin + 2 + _TEXT_SIZE.unpack_from(buffer, begin)[0]
        offset, at_tail, end_of_segment, size = _READ_MIDDLE.unpack_from(buffer, middle)
        data = middle + _READ_MIDDLE.size
        request_id = _REQUEST_ID.unpack_from(buffer, data + size)[0]
    except Exception as error:
        raise ProtocolError("a read reply ends early") from error
    if size < 0 or data + size + _REQUEST_ID.size > end:
        raise ProtocolError(f"a read reply announces {size} bytes and has {end - data}")
    return ReadBlock(buffer, data, data + size, offset, request_id, at_tail, end_of_segment)


def _references(buffers: list[bytearray], number: int) -> int:
    """Return how many references to a buffer there are, those of its list and of this call included.

    Views, arrays and tables over a buffer refer to it as long as they live.
    """
    return sys.getrefcount(buffers[number])


_ALONE: Final = _references([bytearray()], 0)
_COUNTS_REFERENCES: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Without the lock the counts of other threads are not known at any moment."""
