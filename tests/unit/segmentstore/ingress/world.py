"""A connection without a network: bytes are handed to it, what it writes is read back as commands."""

import asyncio

from headrace.segmentstore.ingress.authorisation import allow_all
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.connection import Connection
from headrace.segmentstore.ingress.home import ConnectionHome
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode

WRITER = bytes(range(16))
OTHER = bytes(range(16, 32))
SEGMENT = "sc/st/0.#epoch.0"
NULL = -(1 << 63)


class FakeTransport:
    """Takes everything at once, unless ``stuck``: then bytes stay unsent until ``drain``."""

    def __init__(self):
        self.protocol = None
        self.written = []
        self.unsent = 0
        self.stuck = False
        self.reading = True
        self.closing = False
        self.aborted = False
        self.high = None
        self.paused = False

    def get_extra_info(self, name):
        return "test" if name == "peername" else None

    def set_write_buffer_limits(self, high=None):
        self.high = high

    def get_write_buffer_size(self):
        return self.unsent

    def write(self, data):
        if self.aborted:
            return
        assert not self.closing, "written after close"
        self.written.append(bytes(data))
        if self.stuck and len(data):
            self.unsent += len(data)
            if not self.paused and self.unsent > self.high:
                self.paused = True
                self.protocol.pause_writing()

    def drain(self):
        closes = self.closing and self.unsent and not self.aborted
        self.stuck = False
        self.unsent = 0
        if self.paused:
            self.paused = False
            self.protocol.resume_writing()
        if closes:
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def pause_reading(self):
        assert self.reading
        self.reading = False

    def resume_reading(self):
        assert not self.reading
        self.reading = True

    def is_closing(self):
        return self.closing

    def close(self):
        if not self.closing:
            self.closing = True
            self.reading = False
            if not self.unsent:
                asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self):
        self.aborted = True
        if not self.closing or self.unsent:
            self.closing = True
            self.unsent = 0
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class FakeHome(ConnectionHome):
    def __init__(self, store, config=None, authorise=allow_all):
        super().__init__(store, config or IngressConfig(), authorise)
        self.lost = []

    def receive_buffer_bytes(self):
        return self.config.receive_buffer_bytes

    def on_opened(self, connection, transport):
        return True

    def on_lost(self, connection):
        self.lost.append(connection)


class Peer:
    """The client's side of one connection."""

    def __init__(self, home):
        self.home = home
        self.connection = Connection(home)
        self.transport = FakeTransport()
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.unfed = b""
        self.unread = b""

    def feed(self, *frames, chunk=1 << 30):
        """Hand over bytes or commands, as long as the connection reads."""
        self.unfed += b"".join(frame if isinstance(frame, bytes) else encode(frame) for frame in frames)
        self.push(chunk)

    def push(self, chunk=1 << 30):
        while self.unfed and self.transport.reading and not self.transport.closing:
            room = self.connection.get_buffer(-1)
            size = min(len(room), len(self.unfed), chunk)
            room[:size] = self.unfed[:size]
            del room
            self.unfed = self.unfed[size:]
            self.connection.buffer_updated(size)
            self.connection.check()

    async def replies(self, turns=12):
        """Let everything settle, then return the replies since the last call."""
        for _ in range(turns):
            await asyncio.sleep(0)
            self.push()
        self.unread += b"".join(self.transport.written)
        self.transport.written.clear()
        decoder = FrameDecoder.for_client()
        decoder.feed(self.unread)
        commands = list(decoder.commands())
        self.unread = bytes(decoder.view[decoder.begin : decoder.end])
        assert not self.unread or self.closed
        self.connection.check()
        return commands

    async def ask(self, *frames):
        self.feed(*frames)
        return await self.replies()

    async def set_up(self, writer=WRITER, segment=SEGMENT, request_id=1):
        (reply,) = await self.ask(c.SetupAppend(request_id, writer, segment, ""))
        return reply

    @property
    def closed(self):
        return self.transport.closing

    @property
    def lost(self):
        return self.connection in self.home.lost


def append(number, data=b"x", *, events=1, request_id=7, writer=WRITER):
    return encode(c.AppendBlockEnd(writer, len(data), data, events, number, request_id))


def block(number, data=b"x", *, events=1, request_id=7, writer=WRITER):
    return encode(c.AppendBlock(writer, data)) + encode(
        c.AppendBlockEnd(writer, len(data), b"", events, number, request_id)
    )


def acked(number, previous, offset, *, request_id=7, writer=WRITER):
    return c.DataAppended(writer, number, previous, request_id, offset)
