"""Frames: an 8-byte head (type, payload length) and a payload; how commands become frames and back.

======  =====  ===================================================
bytes   type   meaning
======  =====  ===================================================
0..3    i32    type id of the command
4..7    i32    length of the payload, without these eight bytes
8..     bytes  payload
======  =====  ===================================================

:class:`FrameDecoder` owns the receive buffer of a connection: bytes are received into it and
commands are taken out of it; data of a command are views of the buffer. Format: ``docs/formats/wire.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.limits import KIB, WIRE_FRAME_BYTES_MAX, WIRE_PAYLOAD_BYTES_MAX
from headrace.wire.catalogue import LAYOUTS, REPLIES, REQUESTS, TYPE_IDS
from headrace.wire.commands.kinds import Command
from headrace.wire.fields import Buffer, Parts

HEAD: Final = struct.Struct(">ii")
HEAD_BYTES: Final = 8

IDLE_BUFFER_BYTES: Final = 16 * KIB
"""Capacity of a receive buffer that has not been filled for a while."""

RECEIVE_BUFFER_BYTES: Final = 256 * KIB
"""Capacity of a receive buffer under load."""

RECEIVE_SLACK_BYTES: Final = 64 * KIB
"""Capacity behind a command that is larger than the buffer, for bytes that arrive in the same read."""

_SHRINK_EVERY: Final = 64
"""How many times a buffer is emptied before its size is reconsidered."""

SERVER_PAYLOAD_BYTES_MAX: Final = WIRE_FRAME_BYTES_MAX - HEAD_BYTES
CLIENT_PAYLOAD_BYTES_MAX: Final = WIRE_PAYLOAD_BYTES_MAX


def encode_parts(command: Command) -> Parts:
    """Return the frame of ``command`` in pieces; large data are the command's own buffers, not copies.

    Raises:
        InvalidArgumentError: a value does not fit its field, or the command no frame.
    """
    type_id = TYPE_IDS[type(command)]
    parts: Parts = [b""]
    LAYOUTS[type_id].write(command, parts)
    size = 0
    for part in parts:
        size += len(part)
    if size > SERVER_PAYLOAD_BYTES_MAX:
        raise InvalidArgumentError(
            f"a {type(command).__name__} of {size} bytes exceeds {SERVER_PAYLOAD_BYTES_MAX}"
        )
    parts[0] = HEAD.pack(type_id, size)
    return parts


def encode(command: Command) -> bytes:
    """Return the frame of ``command``. Raises InvalidArgumentError."""
    return b"".join(encode_parts(command))


def decode_payload(type_id: int, payload: Buffer) -> Command:
    """Return the command in ``payload``; its data are views of ``payload``.

    Raises:
        ProtocolError: there is no such command, or these bytes are none.
    """
    layout = LAYOUTS.get(type_id)
    if layout is None:
        raise ProtocolError(f"there is no command {type_id}")
    return layout.read(memoryview(payload))


def check_head(type_id: int, size: int, accepts: Container[int], payload_bytes_max: int) -> None:
    """Refuse a frame by its head. Raises ProtocolError."""
    if type_id not in accepts:
        raise ProtocolError(f"no command {type_id} may arrive here")
    if not 0 <= size <= payload_bytes_max:
        raise ProtocolError(f"a payload of {size} bytes is outside 0..{payload_bytes_max}")


@dataclass(slots=True)
class FrameDecoderStatistics:
    """Counters since the start, and the size of the buffer now."""

    bytes_received: int = 0
    frames_taken: int = 0
    buffer_bytes: int = 0


class FrameDecoder:
    """Splits received bytes into frames, however they arrive.

    Receive into :meth:`get_buffer`, report with :meth:`buffer_updated` (or copy with :meth:`feed`), then take
    frames until there is none. Every view handed out is valid until the next ``get_buffer`` or ``feed``.

    The buffer grows from ``IDLE_BUFFER_BYTES`` to ``buffer_bytes`` when it is filled, further only for a
    frame that does not fit, and in steps: memory stays within four times the received bytes, whatever a
    head announces. It shrinks again when its size was not needed for a while. An illegal head is refused
    before its payload is received. After a ProtocolError every further call raises it.

    A parser that walks the buffer itself reads ``buffer[begin:end]``, moves ``begin`` and sets ``wanted``.
    """

    __slots__ = (
        "_accepts",
        "_buffer_bytes",
        "_emptied",
        "_error",
        "_idle_bytes",
        "_most",
        "_payload_bytes_max",
        "_statistics",
        "begin",
        "buffer",
        "end",
        "view",
        "wanted",
    )

    def __init__(
        self,
        accepts: Container[int] = frozenset(TYPE_IDS.values()),
        *,
        payload_bytes_max: int = CLIENT_PAYLOAD_BYTES_MAX,
        buffer_bytes: int = RECEIVE_BUFFER_BYTES,
    ) -> None:
        assert buffer_bytes >= 64
        self._accepts = accepts
        self._payload_bytes_max = payload_bytes_max
        self._buffer_bytes = buffer_bytes
        self._error: ProtocolError | None = None
        self._idle_bytes = min(IDLE_BUFFER_BYTES, buffer_bytes)
        self._emptied = 0
        self._most = 0  # bytes in the buffer at most, since its size was last reconsidered
        self._statistics = FrameDecoderStatistics()
        self.buffer = bytearray(self._idle_bytes)
        self.view = memoryview(self.buffer)
        self.begin = 0
        self.end = 0
        self.wanted = HEAD_BYTES
        """Bytes from ``begin`` on that are needed before anything can be taken."""

    @classmethod
    def for_server(cls, buffer_bytes: int = RECEIVE_BUFFER_BYTES) -> FrameDecoder:
        """Return a decoder of requests."""
        return cls(REQUESTS, payload_bytes_max=SERVER_PAYLOAD_BYTES_MAX, buffer_bytes=buffer_bytes)

    @classmethod
    def for_client(cls) -> FrameDecoder:
        """Return a decoder of replies."""
        return cls(REPLIES, payload_bytes_max=CLIENT_PAYLOAD_BYTES_MAX)

    # -------------------------------------------------------------------------------------- bytes in

    def get_buffer(self) -> memoryview:
        """Return the free part of the buffer, at least one byte. Invalidates all views handed out before."""
        begin, end = self.begin, self.end
        if begin == end:
            begin = end = self.begin = self.end = 0
            if self._most >= self._idle_bytes or len(self.buffer) > self._idle_bytes:
                self._adapt()
        capacity = len(self.buffer)
        # If little is free behind the remaining bytes, moving them once is cheaper than many small reads.
        if end == capacity or (begin and (begin + self.wanted > capacity or capacity - end < capacity >> 1)):
            self._make_free()
            capacity = len(self.buffer)
        if capacity > self._buffer_bytes:
            # Little is received behind a large frame: its memory may be released.
            is_large = self.wanted > self._buffer_bytes
            limit = self.begin + (self.wanted + RECEIVE_SLACK_BYTES if is_large else self._buffer_bytes)
            return self.view[self.end : limit if limit > self.end else self.end + RECEIVE_SLACK_BYTES]
        return self.view[self.end :]

    def buffer_updated(self, size: int) -> None:
        """``size`` bytes were written into the view returned last."""
        end = self.end = self.end + size
        if end > self._most:  # noqa: PLR1730 - every read passes here
            self._most = end
        self._statistics.bytes_received += size

    def feed(self, data: Buffer) -> None:
        """Copy ``data`` into the buffer."""
        source = memoryview(data)
        while source:
            free = self.get_buffer()
            size = min(len(free), len(source))
            free[:size] = source[:size]
            self.buffer_updated(size)
            source = source[size:]

    def _adapt(self) -> None:
        """The buffer is empty: make it larger if it was filled, smaller if it long was not."""
        capacity = len(self.buffer)
        if self._most >= capacity and capacity < self._buffer_bytes:
            self._use(bytearray(self._buffer_bytes))
        self._emptied += 1
        if self._emptied < _SHRINK_EVERY:
            return
        enough = self._idle_bytes if self._most <= self._idle_bytes else self._buffer_bytes
        if enough < capacity and self._most <= enough:
            self._use(bytearray(enough))
        self._emptied = self._most = 0

    def _make_free(self) -> None:
        """Move the remaining bytes to the front, of a larger buffer if needed."""
        left = self.end - self.begin
        needed = max(self.wanted, left + 1)
        capacity = len(self.buffer)
        if needed > capacity or (self._most >= capacity and capacity < self._buffer_bytes):
            # Pending bytes double the buffer: all growth together copies them about once. Memory for a whole
            # frame is allocated once a quarter of it has arrived: its head alone proves nothing.
            pending = 2 * left if left >= self.wanted else 0
            size = max(needed + RECEIVE_SLACK_BYTES, pending)
            fresh = bytearray(max(self._buffer_bytes, min(size, 4 * left)))
            fresh[:left] = self.view[self.begin : self.end]
            self._use(fresh)
        else:
            self.view[:left] = self.view[self.begin : self.end]
        self.begin, self.end = 0, left

    def fits(self, size: int) -> bool:
        """Whether the buffer need not grow now for a frame of ``size`` bytes that begins next.

        For a large one it grows when more than a quarter of ``buffer_bytes`` has arrived.
        """
        return size <= self._buffer_bytes or 4 * (self.end - self.begin) <= self._buffer_bytes

    def shrink(self) -> None:
        """Release the memory of a large frame that was taken. Views handed out before stay valid.

        Bytes behind it stay in the buffer: at most ``RECEIVE_SLACK_BYTES``, or ``buffer_bytes``.
        """
        left = self.end - self.begin
        size = max(self._buffer_bytes, left)
        if len(self.buffer) > size:
            fresh = bytearray(size)
            fresh[:left] = self.view[self.begin : self.end]
            self._use(fresh)
            self.begin, self.end = 0, left
            self._most = left

    def drop(self) -> None:
        """The connection is lost and nothing is decoded any more: release the buffer."""
        self._use(bytearray(HEAD_BYTES))
        self.begin = self.end = 0

    def _use(self, buffer: bytearray) -> None:
        self.buffer = buffer
        self.view = memoryview(buffer)

    # -------------------------------------------------------------------------------------- frames out

    def next_frame(self) -> tuple[int, memoryview] | None:
        """Take the next frame: its type id and payload, or None if it is not complete.

        Raises:
            ProtocolError: the head is illegal; so is everything behind it.
        """
        if self._error is not None:
            raise self._error
        begin = self.begin
        if self.end - begin < HEAD_BYTES:
            self.wanted = HEAD_BYTES
            return None
        type_id, size = HEAD.unpack_from(self.buffer, begin)
        try:
            check_head(type_id, size, self._accepts, self._payload_bytes_max)
        except ProtocolError as error:
            self._error = error
            raise
        end = begin + HEAD_BYTES + size
        if end > self.end:
            self.wanted = HEAD_BYTES + size
            return None
        self.begin = end
        self.wanted = HEAD_BYTES
        self._statistics.frames_taken += 1
        return type_id, self.view[begin + HEAD_BYTES : end]

    def next_command(self) -> Command | None:
        """Take the next command, or None if it is not complete. Raises ProtocolError."""
        frame = self.next_frame()
        if frame is None:
            return None
        try:
            return LAYOUTS[frame[0]].read(frame[1])
        except ProtocolError as error:
            self._error = error
            raise

    def commands(self) -> Iterator[Command]:
        """Take every complete command. Raises ProtocolError after those in front of an illegal one."""
        while (command := self.next_command()) is not None:
            yield command

    @property
    def received_bytes(self) -> int:
        """Bytes received since the start."""
        return self._statistics.bytes_received

    @property
    def taken_bytes(self) -> int:
        """Bytes taken since the start: where in the stream the next frame begins."""
        return self._statistics.bytes_received - (self.end - self.begin)

    @property
    def pending_bytes(self) -> int:
        """Bytes received and not taken."""
        return self.end - self.begin

    def statistics(self) -> FrameDecoderStatistics:
        self._statistics.buffer_bytes = len(self.buffer)
        return self._statistics

    def check(self) -> None:
        """Assert the invariants of the buffer."""
        assert 0 <= self.begin <= self.end <= len(self.buffer)
        assert self.wanted >= HEAD_BYTES
        assert len(self.view) == len(self.buffer)
