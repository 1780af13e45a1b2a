"""One client's connection: receives into one buffer, starts requests in their order, stops reading when it
must.

::

    buffer_updated -> _parse:  plain appends, in runs   -> append_session -> container (no task, no future)
                               SetupAppend              -> connection_writers
                               conditional appends      -> append_session
                               ReadSegment              -> read_session -> answered now, or a waiting task
                               everything else          -> a task per request, its reply when it ends

Parsing stops, and then reading, while the container has no room for an append, while the client does not take
its replies, while too many requests run, and while others have the room for large frames. What was received
stays in the buffer; its bound is the back-pressure.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, cast

from headrace.errors import CorruptionError, HeadraceError, InvalidArgumentError, ProtocolError
from headrace.segmentstore.ingress.authorisation import Permission
from headrace.segmentstore.ingress.connection_writers import ConnectionWriters
from headrace.segmentstore.ingress.contract import AppendTarget
from headrace.segmentstore.ingress.frame_room import FrameRoom
from headrace.segmentstore.ingress.home import ConnectionHome
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.read_session import ReadSession
from headrace.segmentstore.ingress.reply_mapping import question_of, reply_to
from headrace.segmentstore.ingress.request_session import Admitted, RequestSession
from headrace.segmentstore.ingress.transient_segments import TransientSegments
from headrace.wire import commands as c
from headrace.wire.append_block import APPEND_BLOCK, APPEND_BLOCK_END, AppendRun, take_run, wanted
from headrace.wire.catalogue import LAYOUTS, TYPE_IDS
from headrace.wire.commands.kinds import Command, Request
from headrace.wire.frames import HEAD, HEAD_BYTES, FrameDecoder, encode
from headrace.wire.server_session import ServerSession

_logger = logging.getLogger(__name__)

_APPENDS: Final = (APPEND_BLOCK_END, APPEND_BLOCK)
_KEEP_ALIVE: Final = encode(c.KeepAlive())

_NO_REQUESTS: Final = frozenset(
    TYPE_IDS[command]
    for command in (
        c.Hello,
        c.KeepAlive,
        c.Padding,
        c.PartialEvent,
        c.SetupAppend,
        c.ConditionalAppend,
        c.ConditionalBlockEnd,
        c.ReadSegment,
    )
)
"""What is not started as a task, and so needs not be admitted."""

_TAKEN_MAX: Final = 64
"""Frames, or runs of appends, of one connection in a turn of the loop. They are answered in place, and the
loop reads a socket again and again while more arrives: a client that asks for a byte at a time would have it
alone.
"""

_APPENDS_FOR_ONE: Final = 16
"""So many appends of a run count as one frame more. A megabyte has thousands of them, and refused ones are
answered one by one, in 10 us each.
"""

_NO_BUFFER_BYTES: Final = 64
"""Room of the buffer of a connection that is gone: as little as a decoder can have."""


# Why a connection does not parse what it has received: a set of bits. Plain numbers, for every read asks.
_CAPACITY: Final = 1  # the container has no room for the next append
_OUTBOX: Final = 2  # the client does not take its replies
_REQUESTS: Final = 4  # too many requests of this connection run
_ADMISSION: Final = 8  # too many bytes of requests of all connections are in memory
_TURN: Final = 16  # others have a turn: a request that takes its first step, and other connections
_CLOSING: Final = 32
_SETUP: Final = 64  # what a writer wrote last is not known yet; its appends follow in this buffer
_MEMORY: Final = 128  # a large frame has begun, and other connections have the room for such

_REASONS: Final = {
    _CAPACITY: "capacity",
    _OUTBOX: "outbox",
    _REQUESTS: "requests",
    _ADMISSION: "admission",
    _TURN: "turn",
    _CLOSING: "closing",
    _SETUP: "setup",
    _MEMORY: "memory",
}


class Connection(asyncio.BufferedProtocol):
    """The driver of one connection. Runs on the store's loop."""

    def __init__(self, home: ConnectionHome) -> None:
        self._home = home
        self._store = home.store
        self._config = config = home.config
        self._totals = home.totals
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._buffer_bytes = home.receive_buffer_bytes()
        self._decoder = FrameDecoder.for_server(self._buffer_bytes)
        self._room = FrameRoom(
            home.receive_memory,
            self,
            buffer_bytes=self._buffer_bytes,
            patience_s=config.frame_patience_s,
            stall_s=config.frame_stall_s,
        )
        self._run = AppendRun()
        self._session = ServerSession()
        self._writers = ConnectionWriters(home, self, self._session)
        self._touched: dict[AppendTarget, None] = {}
        self._full_target: AppendTarget | None = None
        """Where the next append waits for room."""

        self._blocked = 0
        self._said_all = False
        self._taken = 0
        """Frames and runs since the last pause for others."""
        self._closing_timer: asyncio.TimerHandle | None = None
        self._busy_writers = 0
        self._outbox = Outbox(config.write_buffer_bytes_max, self._on_drained, home.unsent)
        self._reads = ReadSession(
            home.store, self._outbox, home.supervisor.spawn, self.on_error, home.waiting_reads
        )
        self.transients = TransientSegments(home.store, config.transients_max)
        self._requests = RequestSession(home, self, self.transients, self._outbox)
        self.peer = ""

    # -------------------------------------------------------------------------------------- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # some loops have types of their own
        self.peer = str(transport.get_extra_info("peername"))
        self._outbox.open(self._transport)
        if not self._home.on_opened(self, transport):
            self._transport.abort()

    def eof_received(self) -> bool:
        """The client is gone, or says no more: it still gets what it is owed.

        What has arrived and only waits for its turn is taken. What there is no room for is not: the client
        may be back already, and send it again.
        """
        assert self._transport is not None
        self._said_all = True
        self._close_if_all_is_taken()
        return self._transport.get_extra_info("sslcontext") is None  # TLS connections cannot stay half open

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._blocked |= _CLOSING
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        self._transport = None
        if self._full_target is not None:  # a log that stands would gather those of every client that gave up
            self._full_target.stop_waiting(self._on_capacity)
        self._reads.close()
        self._requests.close()
        self._outbox.close()
        self._requests.on_lost()
        self._room.close()
        self._writers.close()
        # The parts of a connection refer to each other, and the collector comes by rarely: the buffer would
        # outlive its connection by hours. Nothing is parsed any more.
        self._decoder = FrameDecoder(buffer_bytes=_NO_BUFFER_BYTES)
        self._home.on_lost(self)

    def pause_writing(self) -> None:
        self._outbox.on_pause()

    def resume_writing(self) -> None:
        self._outbox.on_resume()

    # -------------------------------------------------------------------------------------- receiving

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the buffer knows better
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._decoder.buffer_updated(nbytes)
        self._totals.bytes_received += nbytes
        if not self._blocked:
            self._parse()
        elif self._decoder.pending_bytes >= self._buffer_bytes:
            self._set_reading()

    def _parse(self) -> None:
        """Take everything out of the buffer that may be taken now."""
        try:
            self._take_frames()
        except ProtocolError as error:
            self._totals.violations += 1
            self.close_after_replies(f"protocol violation: {error}")
        except Exception:  # a bug of ours: this connection ends, its neighbours go on
            _logger.exception("connection %s failed", self.peer)
            self.close_after_replies("internal error")
        finally:
            self._run.clear()
            for target in self._touched:
                target.end_of_read()
            self._touched.clear()
        if self._room.borrows:
            self._room.on_taken(self._decoder.taken_bytes, self._decoder.pending_bytes)
        if not self._blocked and not self._room.reserve(self._decoder.wanted, self._decoder.taken_bytes):
            self._blocked |= _MEMORY
            self._totals.memory_waits += 1
        self._close_if_all_is_taken()
        self._set_reading()

    def _close_if_all_is_taken(self) -> None:
        if self._said_all and self._blocked != _TURN:
            self._begin_closing()

    def _take_frames(self) -> None:
        decoder, run = self._decoder, self._run
        if self._outbox.full:
            self._blocked |= _OUTBOX
        while not self._blocked:
            buffer, begin, end = decoder.buffer, decoder.begin, decoder.end
            if end - begin < HEAD_BYTES:
                decoder.wanted = HEAD_BYTES
                return
            type_id, _ = HEAD.unpack_from(buffer, begin)
            if type_id in _APPENDS:
                after = take_run(buffer, decoder.view, begin, end, run)
                if after == begin:
                    decoder.wanted = wanted(buffer, begin, end)
                    return
                writer = self._writers.get(run.writer_id)
                if not writer.append_run(run):
                    self._wait_capacity(writer.target, run.size)
                    return
                self._touched[writer.target] = None
                self._totals.append_runs += 1
                self._totals.appends += len(run.numbers)
                self._taken += len(run.numbers) // _APPENDS_FOR_ONE
                decoder.begin = after
                decoder.wanted = HEAD_BYTES
            else:
                frame = decoder.next_frame()
                if frame is None:
                    return
                payload = frame[1]
                admitted = type_id in _NO_REQUESTS or self._admit(LAYOUTS[type_id].decoded_bytes(payload))
                if not admitted or not self._take_command(LAYOUTS[type_id].read(payload)):
                    decoder.begin = begin
                    return
            self._taken += 1
            if self._taken >= _TAKEN_MAX:
                self._pause()

    def _pause(self) -> None:
        """Let others have a turn of the loop before more is taken."""
        self._taken = 0
        if not self._blocked & _TURN:
            self._blocked |= _TURN
            self._loop.call_soon(self._unblock, _TURN)

    def _set_reading(self) -> None:
        """Read from the socket exactly while what arrives can be parsed.

        Short pauses between requests do not count, unless more arrives in them than is taken.
        """
        readable = not self._blocked & ~_TURN
        if readable and self._blocked:
            # One more read of a full buffer would have to let it grow.
            pending_max = self._buffer_bytes if self._reading else self._buffer_bytes // 2
            readable = self._decoder.pending_bytes < pending_max
        if readable == self._reading:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._reading = readable
        if readable:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _unblock(self, reason: int) -> None:
        self._blocked &= ~reason
        if not self._blocked:
            self._parse()

    # -------------------------------------------------------------------------------------- dispatch

    def _admit(self, size_bytes: int) -> bool:
        match self._requests.admit(size_bytes):
            case Admitted.YES:
                return True
            case Admitted.TOO_MANY:
                self._blocked |= _REQUESTS
            case Admitted.TOO_LARGE:
                self._blocked |= _ADMISSION
        return False

    def _take_command(self, command: Command) -> bool:
        """Start one request; False if it has to wait: it is parsed again later."""
        match command:
            case c.ReadSegment():
                self._on_read(command)
            case c.ConditionalBlockEnd():
                data = memoryview(command.data)
                return self._on_conditional(command, [data] if data else [], len(data))
            case c.ConditionalAppend():
                event = memoryview(command.event)
                head = memoryview(HEAD.pack(0, len(event)))
                pieces = [head, event] if event else [head]
                return self._on_conditional(command, pieces, HEAD_BYTES + len(event))
            case c.SetupAppend():
                if self._writers.set_up(command):
                    self._blocked |= _SETUP
            case c.KeepAlive():
                self._outbox.send(_KEEP_ALIVE)
            case c.Hello():
                answer, close = self._session.on_hello(command)
                self._outbox.send(encode(answer))
                if close:
                    self.close_after_replies(f"versions {command.low_version} to {command.high_version}")
            case c.Padding():
                pass
            case c.PartialEvent():
                raise ProtocolError("a partial event outside of an append block")
            case _:
                assert isinstance(command, Request)
                if self._requests.start(command):
                    # The next request may depend on this one: let it take its first step before going on.
                    self._pause()
        return True

    def _on_conditional(
        self, command: c.ConditionalBlockEnd | c.ConditionalAppend, pieces: list[memoryview], size: int
    ) -> bool:
        writer = self._writers.get(command.writer_id)
        taken = writer.append_conditional(
            pieces, size, command.event_number, command.expected_offset, command.request_id
        )
        if not taken:
            self._wait_capacity(writer.target, size)
            return False
        self._touched[writer.target] = None
        self._totals.appends += 1
        return True

    def _wait_capacity(self, target: AppendTarget, size: int) -> None:
        self._blocked |= _CAPACITY
        self._totals.capacity_waits += 1
        self._full_target = target
        target.wait_capacity(size, self._on_capacity)

    def _on_capacity(self) -> None:
        self._full_target = None
        self._unblock(_CAPACITY)

    def give_back_room(self) -> int:
        return self._decoder.give_back()

    def received_bytes(self) -> int:
        return self._decoder.statistics().bytes_received

    def on_room(self) -> None:
        """There is room for the frame that has begun."""
        self._unblock(_MEMORY)

    def on_overdue(self, held_s: float) -> None:
        """Others wait for the room in which this client does not finish its frame, or we do not take it."""
        if self._blocked and held_s < self._config.taking_patience_s:
            return
        self._totals.frames_overdue += 1
        self.close_after_replies("others need the room of a frame that does not arrive, or is not taken")

    def on_reply_overdue(self) -> None:
        """Others wait for the room of a reply that this client does not take."""
        self._totals.replies_overdue += 1
        self.close_after_replies("others need the room of a table reply that is not taken")
        self._abort()

    @property
    def is_closing(self) -> bool:
        return bool(self._blocked & _CLOSING)

    @property
    def is_lost(self) -> bool:
        return self._outbox.is_closed

    def on_writer_ready(self) -> None:
        """The writer that parsing waits for is set up, or was refused."""
        self._unblock(_SETUP)
        if self._blocked & _CLOSING:
            self._maybe_close()

    def _on_read(self, command: c.ReadSegment) -> None:
        self._totals.reads += 1
        try:
            self._home.authorise(command.delegation_token, command.segment, Permission.READ)
            self._reads.on_read(command)
        except ProtocolError:
            raise
        except HeadraceError as error:
            self.on_error(command, error)
        if self._outbox.full:
            self._blocked |= _OUTBOX

    def on_admission(self) -> None:
        """There is room for the request that found none."""
        # Not at once: somebody else is in the middle of leaving, and it may take a while to decode.
        self._loop.call_soon(self._start_admitted)

    def _start_admitted(self) -> None:
        self._unblock(_ADMISSION)
        self._requests.give_back()  # if it was not started: this client may not take its replies any more

    def on_request_ended(self) -> None:
        """A request was answered."""
        if self._blocked & _REQUESTS:
            self._loop.call_soon(self._unblock, _REQUESTS)
        if self._blocked & _CLOSING:
            self._maybe_close()

    def on_error(self, command: Request, error: Exception) -> None:
        """A request failed: answer, or close if there is no answer to that."""
        reply = reply_to(error, question_of(command))
        if reply is None:
            reason = f"{type(command).__name__} failed: {error}"
            if isinstance(error, CorruptionError):
                _logger.error("damaged data: %s", reason)  # a person has to act; the peer asks again
            self.close_after_replies(reason)
            return
        try:
            self._outbox.send(encode(reply))
        except InvalidArgumentError as unspeakable:
            self.close_after_replies(f"a reply cannot be encoded: {unspeakable}")

    def _on_drained(self) -> None:
        if self._blocked & _OUTBOX:
            self._unblock(_OUTBOX)

    # ---------------------------------------------------------------------------------- for the sessions

    def send(self, frame: bytes) -> None:
        self._outbox.send(frame)

    def on_busy(self, change: int) -> None:
        self._busy_writers += change
        if self._blocked & _CLOSING:
            self._maybe_close()

    # -------------------------------------------------------------------------------------- closing

    def close_after_replies(self, reason: str) -> None:
        """Take nothing more, wait for replies that are owed (not for reads at the tail), send them, close."""
        if not self._blocked & _CLOSING:
            _logger.info("connection %s is closed: %s", self.peer, reason)
            self._begin_closing()

    def _begin_closing(self) -> None:
        if self._blocked & _CLOSING:
            return
        self._blocked |= _CLOSING
        self._reads.end(self._maybe_close)
        self._requests.close()
        self._closing_timer = self._loop.call_later(self._config.drain_s, self._abort)
        self._set_reading()
        self._loop.call_soon(self._maybe_close)

    def _maybe_close(self) -> None:
        if self._busy_writers or self._requests.running or self._reads.waiting or self._writers.setting_up:
            return
        if self._transport is None:
            return
        if not self._transport.is_closing():
            self._outbox.flush()
            self._transport.close()  # sends what it has; a client that takes nothing meets the timer

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def statistics(self) -> dict[str, Any]:
        """What this connection is doing now, for the console."""
        return {
            "peer": self.peer,
            "blocked": [name for bit, name in _REASONS.items() if self._blocked & bit],
            "writers": self._writers.count,
            "writers_in_flight": self._busy_writers,
            "requests_running": self._requests.running,
            "reads_waiting": self._reads.waiting,
            "transients": self.transients.count,
            "buffer_bytes": len(self._decoder.buffer),
        }

    def check(self) -> None:
        """Assert the invariants of a connection."""
        self._decoder.check()
        self._writers.check()
        assert self._requests.running >= 0
        assert self._busy_writers >= self._writers.busy_count
