"""Reassembles appends from the frames that carry them, and collects appends of one writer into a batch.

An append arrives in one of three shapes::

    A   AppendBlockEnd(data)                                   everything in the end
    B   AppendBlock(data)  AppendBlockEnd(size of data, "")    everything in the block
    C   AppendBlock(whole events, one nested frame of filler)  AppendBlockEnd(size of whole events, tail)
            filler is Padding (zeros), or PartialEvent: the first part of an event that ends in the tail

Payloads are never joined: the result is a list of views of the receive buffer. Format:
``docs/formats/wire.md``, "Append blocks".
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.errors import ProtocolError
from headrace.limits import KIB
from headrace.wire.catalogue import TYPE_IDS
from headrace.wire.commands import AppendBlock, AppendBlockEnd, Padding, PartialEvent
from headrace.wire.frames import HEAD, HEAD_BYTES, SERVER_PAYLOAD_BYTES_MAX

APPEND_BLOCK: Final = TYPE_IDS[AppendBlock]
APPEND_BLOCK_END: Final = TYPE_IDS[AppendBlockEnd]
_PADDING: Final = TYPE_IDS[Padding]
_PARTIAL_EVENT: Final = TYPE_IDS[PartialEvent]

BATCH_BYTES_MAX: Final = 256 * KIB
"""A batch accepts no further append once it has this many bytes; a single append may be larger."""

BATCH_COUNT_MAX: Final = 1024

_BATCH_EVENTS: Final = 0x7FFF_FFFF
"""The same for events: with those of one more append they fit 32 bits."""

_END_HEAD: Final = struct.Struct(">ii16sii")  # type, length, writer, size of whole events, size of data
_END_TAIL: Final = struct.Struct(">iqq")  # events, last event number, request id
_END_TAIL_OLD: Final = struct.Struct(">iq")  # the same from peers that send no request id here

_BLOCK_HEAD_BYTES: Final = 24  # type, length, writer
_END_HEAD_BYTES: Final = 32
_END_BYTES_MIN: Final = _END_HEAD_BYTES + 12
_END_PAYLOAD_BYTES_MAX: Final = SERVER_PAYLOAD_BYTES_MAX - 36


def reassemble(block: memoryview, size_of_whole_events: int, tail: memoryview) -> list[memoryview]:
    """Return the payload of an append whose block arrived first (shapes B and C), in pieces without empty
    ones.

    Raises:
        ProtocolError: block and end contradict each other.
    """
    size = size_of_whole_events
    if not 0 <= size <= len(block):
        raise ProtocolError(f"{size} bytes of whole events are outside of a block of {len(block)} bytes")
    if size == len(block):
        return [block] if block else []
    rest = block[size:]
    if len(rest) < HEAD_BYTES:
        raise ProtocolError(f"{len(rest)} bytes behind the whole events are no frame")
    type_id, length = HEAD.unpack_from(rest)
    if not 0 <= length <= len(rest) - HEAD_BYTES:
        raise ProtocolError(f"a nested frame of {length} bytes leaves its block")
    if type_id == _PADDING:
        if tail:
            raise ProtocolError("an append block was padded although its last event goes on")
        pieces = [block[:size]]
    elif type_id == _PARTIAL_EVENT:
        pieces = [block[:size], rest[HEAD_BYTES : HEAD_BYTES + length], tail]
    else:
        raise ProtocolError(f"command {type_id} cannot be nested in an append block")
    return [piece for piece in pieces if piece]


class AppendBatch:
    """Consecutive plain appends of one writer, in order of arrival. Reused; views are valid as the buffer is.

    ``numbers[i]`` and ``request_ids[i]`` are the last event number and the request id of append ``i``;
    numbers increase strictly. ``pieces`` hold the payload of all appends, ``size`` its bytes.
    """

    __slots__ = ("event_count", "numbers", "pieces", "request_ids", "size", "writer_id")

    def __init__(self) -> None:
        self.writer_id = b""
        self.pieces: list[memoryview] = []
        self.numbers: list[int] = []
        self.request_ids: list[int] = []
        self.size = 0
        self.event_count = 0

    def clear(self) -> None:
        self.pieces.clear()
        self.numbers.clear()
        self.request_ids.clear()
        self.size = 0
        self.event_count = 0

    def check(self) -> None:
        """Assert the invariants of a batch."""
        assert len(self.numbers) == len(self.request_ids) <= BATCH_COUNT_MAX
        assert self.size == sum(len(piece) for piece in self.pieces)
        assert all(a < b for a, b in zip(self.numbers, self.numbers[1:], strict=False))
        assert len(self.numbers) <= self.event_count < 1 << 32


def take_batch(buffer: bytearray, view: memoryview, begin: int, end: int, batch: AppendBatch) -> int:
    """Parse plain appends of one writer out of ``buffer[begin:end]`` into ``batch``; return where the next
    frame begins.

    A batch ends in front of an incomplete append, another writer, another command, an event number that does
    not increase, and an illegal append. If it is empty (``begin`` is returned) the first append is not
    complete, see :func:`wanted`.

    This is the hottest loop of a server: about ten interpreted calls per append, no object but the views.

    Raises:
        ProtocolError: the first append of the batch is illegal.
    """
    batch.clear()
    pieces, numbers, request_ids = batch.pieces, batch.numbers, batch.request_ids
    unpack_head, unpack_tail = _END_HEAD.unpack_from, _END_TAIL.unpack_from
    writer = b""
    size = event_count = number_last = 0
    try:
        while end - begin >= _END_BYTES_MIN:
            # The last two numbers mean something only if this is an end.
            type_id, length, writer_id, whole, tail_size = unpack_head(buffer, begin)
            if type_id == APPEND_BLOCK_END:
                ending = begin
            elif type_id == APPEND_BLOCK:
                ending = begin + HEAD_BYTES + length
                if not 16 <= length <= SERVER_PAYLOAD_BYTES_MAX:
                    raise ProtocolError(f"an append block of {length} bytes is outside the limits")
                if end - ending < _END_BYTES_MIN:
                    break
                type_id, length, end_writer_id, whole, tail_size = unpack_head(buffer, ending)
                if type_id != APPEND_BLOCK_END or end_writer_id != writer_id:
                    raise ProtocolError("an append block is not followed by its end")
            else:
                break
            if writer_id != writer:
                if numbers:
                    break
                batch.writer_id = writer = writer_id

            # The end: its tail, then three numbers behind it.
            if not 0 <= tail_size <= length - 36 <= _END_PAYLOAD_BYTES_MAX:
                raise ProtocolError(f"{length} bytes of an append block end cannot hold {tail_size} of data")
            after = ending + HEAD_BYTES + length
            if after > end:
                break
            tail_end = ending + _END_HEAD_BYTES + tail_size
            if after - tail_end >= 20:
                events, number, request_id = unpack_tail(buffer, tail_end)
            else:
                events, number = _END_TAIL_OLD.unpack_from(buffer, tail_end)
                request_id = -1
            if events <= 0:
                raise ProtocolError(f"an append cannot have {events} events")
            if number <= number_last and numbers:
                break

            # The payload, by shape.
            if ending == begin:
                if tail_size:
                    pieces.append(view[tail_end - tail_size : tail_end])
                    size += tail_size
            elif whole == ending - begin - _BLOCK_HEAD_BYTES:
                if whole:
                    pieces.append(view[begin + _BLOCK_HEAD_BYTES : ending])
                    size += whole
            else:
                block = view[begin + _BLOCK_HEAD_BYTES : ending]
                for piece in reassemble(block, whole, view[tail_end - tail_size : tail_end]):
                    pieces.append(piece)
                    size += len(piece)

            numbers.append(number)
            request_ids.append(request_id)
            number_last = number
            event_count += events
            begin = after
            if size >= BATCH_BYTES_MAX or len(numbers) >= BATCH_COUNT_MAX or event_count > _BATCH_EVENTS:
                break
    except ProtocolError:
        if not numbers:
            raise
    batch.size = size
    batch.event_count = event_count
    return begin


def wanted(buffer: bytearray, begin: int, end: int) -> int:
    """Return how many bytes from ``begin`` on are needed before the append there can be taken, or its next
    head read.

    Raises:
        ProtocolError: what arrived already cannot become an append.
    """
    available = end - begin
    if available < HEAD_BYTES:
        return HEAD_BYTES
    type_id, size = _append_head(buffer, begin)
    if type_id == APPEND_BLOCK_END:
        return size
    if available < size + HEAD_BYTES:
        return size + HEAD_BYTES
    type_id, size_of_end = _append_head(buffer, begin + size)
    if type_id != APPEND_BLOCK_END:
        raise ProtocolError("an append block is not followed by its end")
    return size + size_of_end


def _append_head(buffer: bytearray, begin: int) -> tuple[int, int]:
    """Return type id and size, with the head, of the append frame at ``begin``."""
    type_id: int
    length: int
    type_id, length = HEAD.unpack_from(buffer, begin)
    length_min = 16 if type_id == APPEND_BLOCK else 36
    if not length_min <= length <= SERVER_PAYLOAD_BYTES_MAX:
        raise ProtocolError(f"an append frame of {length} bytes is outside the limits")
    return type_id, HEAD_BYTES + length
