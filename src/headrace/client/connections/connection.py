"""One TCP connection to a segment store, shared by any number of flows: appends, reads and single calls.

A reply is dispatched here, and its flow decides what follows from it. Everything sent within one iteration of
the loop leaves in one write. Large data is handed to the transport uncopied.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from headrace.client.connections.reply_receiver import ReadBlock, ReplyReceiver
from headrace.client.connections.silence import IsGone, SilenceWatch
from headrace.client.segment_address import SegmentAddress
from headrace.errors import ConnectionLostError, ProtocolError
from headrace.model.endpoint import Endpoint
from headrace.wire.catalogue import TYPE_IDS, VERSION, VERSION_OLDEST
from headrace.wire.commands import AppendBlockEnd, DataAppended, Hello, InvalidEventNumber, KeepAlive
from headrace.wire.commands.kinds import Command
from headrace.wire.fields import Buffer
from headrace.wire.frames import HEAD_BYTES, decode_payload, encode, encode_parts

_APPEND_BLOCK_END: Final = TYPE_IDS[AppendBlockEnd]
_KEEP_ALIVE: Final = encode(KeepAlive())
_APPEND_HEAD: Final = struct.Struct(">ii16sii")
_APPEND_TAIL: Final = struct.Struct(">iqq")
_APPEND_OVERHEAD: Final = 16 + 4 + 4 + _APPEND_TAIL.size

_JOIN_BYTES_MAX: Final = 64 << 10
"""Pieces up to this size are joined before they are written; larger ones are not worth the copy."""

_SMALL_BYTES_MAX: Final = 16 << 10
"""Pieces that are smaller on average are counted, not measured."""

WRITE_BUFFER_BYTES: Final = 1 << 20
"""Bytes the transport may hold before flows stop sending."""


class Flow(Protocol):
    """A part of the client that expects replies on a connection."""

    @property
    def address(self) -> SegmentAddress | None:
        """Of the segment whose owner is asked; None where no controller is to be asked about it."""

    def on_reply(self, reply: Command | ReadBlock) -> None:
        """A reply with one of this flow's request ids arrived. ProtocolError closes the connection."""

    def on_connection_lost(self, error: Exception) -> None:
        """The connection is gone; nothing more comes from it. Requests without a reply may have happened."""


class AppendFlow(Flow, Protocol):
    """A flow that appends: it also gets acknowledgements, and is asked to send while the connection is
    writable.
    """

    def on_appended(self, previous_number: int, number: int, segment_length: int) -> None:
        """Everything up to ``number`` is durable. ProtocolError closes the connection."""

    def send_blocks(self, connection: Connection) -> None:
        """Send what there is to send while ``connection.is_writable``."""


class Connection(asyncio.BufferedProtocol):
    """Created by the pool. Used on one loop; flows register before they send."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_closed: Callable[[Connection], None],
        version: int = VERSION,
        is_gone: IsGone | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._version = version
        self.server_version = 0
        """What the server speaks; 0 until it said so."""
        self.is_writable = True
        """Flows may send more."""
        self.closed = False
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._receiver = ReplyReceiver()
        self._flows: dict[int, Flow] = {}
        self._writers: dict[bytes, AppendFlow] = {}
        self._ready: dict[AppendFlow, None] = {}
        self._outgoing: list[Buffer] = []
        self._outgoing_bytes = 0
        self._send_is_scheduled = False
        self._last_received = self._loop.time()
        self._watch = SilenceWatch(self, is_gone)
        self._greeting: asyncio.Future[None] | None = None
        self._lost_by: Exception | None = None

    # ------------------------------------------------------------------------------ for flows

    @property
    def flow_count(self) -> int:
        return len(self._flows)

    def register(self, request_id: int, flow: Flow) -> None:
        """Deliver replies with this id to ``flow``."""
        assert request_id not in self._flows
        self._flows[request_id] = flow

    def unregister(self, request_id: int) -> None:
        self._flows.pop(request_id, None)

    def register_writer(self, writer_id: bytes, flow: AppendFlow) -> None:
        """Deliver acknowledgements of this wire writer to ``flow``."""
        self._writers[writer_id] = flow

    def unregister_writer(self, writer_id: bytes, flow: AppendFlow) -> None:
        self._writers.pop(writer_id, None)
        self._ready.pop(flow, None)

    def send(self, command: Command) -> None:
        """Send a command at the end of this iteration of the loop; do nothing if the connection is lost."""
        if not self.closed:
            for part in encode_parts(command):
                self._add(part, len(part))
            self._schedule_send()

    def send_append(
        self,
        writer_id: bytes,
        pieces: Sequence[Buffer],
        size: int,
        event_count: int,
        last_number: int,
        request_id: int,
    ) -> None:
        """Send one append as a whole; ``pieces``, ``size`` bytes, must not change until acknowledged."""
        outgoing = self._outgoing
        outgoing.append(_APPEND_HEAD.pack(_APPEND_BLOCK_END, _APPEND_OVERHEAD + size, writer_id, size, size))
        if size <= _JOIN_BYTES_MAX:
            outgoing += pieces
            self._outgoing_bytes += size
        elif size < len(pieces) * _SMALL_BYTES_MAX:
            # Cut by count, which is near enough: a look at each piece would cost as much as its copy.
            step = len(pieces) * _JOIN_BYTES_MAX // size
            for first in range(0, len(pieces), step):
                outgoing += pieces[first : first + step]
                self._write_outgoing()
        else:
            for piece in pieces:
                self._add(piece, len(piece))
        self._add(_APPEND_TAIL.pack(event_count, last_number, request_id), _APPEND_OVERHEAD)
        self._schedule_send()

    def wants_to_send(self, flow: AppendFlow) -> None:
        """Ask ``flow`` for its blocks at the end of this iteration, or when the connection is writable."""
        self._ready[flow] = None
        if self.is_writable:
            self._schedule_send()

    async def wait_server_version(self) -> int:
        """Return what the server speaks, waiting for it to say so.

        Raises:
            ConnectionLostError: it went away instead.
        """
        while not self.server_version:
            if self.closed:
                reason = f": {self._lost_by}" if self._lost_by else ""
                raise ConnectionLostError(f"{self.endpoint} closed the connection{reason}") from self._lost_by
            if self._greeting is None:
                self._greeting = self._loop.create_future()
            await asyncio.shield(self._greeting)
        return self.server_version

    def _wake_greeted(self) -> None:
        greeting, self._greeting = self._greeting, None
        if greeting is not None and not greeting.done():
            greeting.set_result(None)

    def abort(self, error: Exception | None = None) -> None:
        """Drop the connection now; flows are notified."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(error)

    # ------------------------------------------------------------------------------ sending

    def _schedule_send(self) -> None:
        if not self._send_is_scheduled:
            self._send_is_scheduled = True
            self._loop.call_soon(self._send_ready)

    def _send_ready(self) -> None:
        self._send_is_scheduled = False
        if self.closed:
            return
        waiting, self._ready = iter(self._ready), {}
        while self.is_writable and (flow := next(waiting, None)) is not None:
            flow.send_blocks(self)
        self._ready = dict.fromkeys(waiting) | self._ready  # flows that were not served come first
        self._write_outgoing()

    def _add(self, piece: Buffer, size: int) -> None:
        """Send ``piece``: uncopied if it is large, joined with its neighbours otherwise."""
        if len(piece) > _JOIN_BYTES_MAX:
            self._write_outgoing()
            assert self._transport is not None
            self._transport.write(piece)
            return
        self._outgoing.append(piece)
        self._outgoing_bytes += size
        if self._outgoing_bytes > _JOIN_BYTES_MAX:
            self._write_outgoing()

    def _write_outgoing(self) -> None:
        """Hand what was joined to the transport."""
        outgoing = self._outgoing
        if outgoing:
            assert self._transport is not None
            self._transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
            outgoing.clear()
            self._outgoing_bytes = 0

    # ------------------------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.send(Hello(self._version, VERSION_OLDEST))
        self._watch.start()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the receiver knows better
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._last_received = self._loop.time()
        receiver = self._receiver
        receiver.buffer_updated(nbytes)
        try:
            writers = self._writers
            while True:
                while (acknowledged := receiver.next_acknowledgement()) is not None:
                    writer_id, number, previous, length = acknowledged
                    writer = writers.get(writer_id)
                    if writer is not None:
                        writer.on_appended(previous, number, length)
                reply = receiver.next_reply()
                if reply is None:
                    return
                self._deliver(reply)
        except ProtocolError as error:
            self.abort(error)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        if self._ready:
            self._schedule_send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._lost_by = exc
        self.is_writable = False
        self._watch.stop()
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._ready.clear()
        self._on_closed(self)
        self._wake_greeted()
        reason = f"the connection to {self.endpoint} was lost: {exc or 'closed by the server'}"
        error = ConnectionLostError(reason)
        error.__cause__ = exc
        flows: dict[Flow, None] = dict.fromkeys([*self._flows.values(), *self._writers.values()])
        self._flows.clear()
        self._writers.clear()
        for flow in flows:
            flow.on_connection_lost(error)

    # ------------------------------------------------------------------------------ replies

    def _deliver(self, reply: tuple[int, memoryview] | ReadBlock) -> None:
        if isinstance(reply, ReadBlock):
            reader = self._flows.get(reply.request_id)
            if reader is not None:
                reader.on_reply(reply)
            return
        type_id, payload = reply
        command = decode_payload(type_id, payload)
        if isinstance(command, Hello):
            self._on_hello(command)
        elif isinstance(command, InvalidEventNumber):
            raise ProtocolError(f"writer {command.writer_id.hex()} is used by another connection")
        elif isinstance(command, DataAppended):
            writer = self._writers.get(command.writer_id)
            if writer is not None:  # of another size than usual: fields are missing or new
                writer.on_appended(
                    command.previous_event_number,
                    command.event_number,
                    command.current_segment_write_offset,
                )
        elif not isinstance(command, KeepAlive):
            flow = self._flows.get(getattr(command, "request_id", -1))
            if flow is not None:
                flow.on_reply(command)

    def _on_hello(self, hello: Hello) -> None:
        if hello.low_version > VERSION or hello.high_version < VERSION_OLDEST:
            raise ProtocolError(
                f"the server speaks versions {hello.low_version} to {hello.high_version},"
                f" this client {VERSION_OLDEST} to {VERSION}"
            )
        self.server_version = min(hello.high_version, self._version)
        self._wake_greeted()

    @property
    def silent_s(self) -> float:
        """How long nothing was received."""
        return self._loop.time() - self._last_received

    def addresses(self) -> list[SegmentAddress]:
        """Return the segments whose flows are here."""
        flows: dict[Flow, None] = dict.fromkeys([*self._writers.values(), *self._flows.values()])
        return [flow.address for flow in flows if flow.address is not None]

    def keep_alive(self) -> None:
        """Ask the server for a sign of life."""
        self._receiver.forget_spares()
        self._outgoing.append(_KEEP_ALIVE)
        self._schedule_send()

    def statistics(self) -> dict[str, Any]:
        """Return counts since creation and what is open now."""
        received = self._receiver.statistics()
        return {
            "endpoint": self.endpoint,
            "flows": len(self._flows),
            "writers": len(self._writers),
            "bytes_received": received.bytes_received,
            "replies": received.replies,
        }


assert _APPEND_HEAD.size - HEAD_BYTES + _APPEND_TAIL.size == _APPEND_OVERHEAD
