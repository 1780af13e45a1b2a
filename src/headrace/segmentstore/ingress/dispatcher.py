"""Dispatches what a connection has received, in order. No clock, no waiting.

::

    dispatch -> plain appends, batched   -> append_session -> container (no task, no future)
                SetupAppend              -> connection_writers
                conditional appends      -> append_session
                ReadSegment              -> read_session -> answered now, or a waiting task
                updates of tables, gets  -> request_session -> begun, or answered, at once if possible
                everything else          -> a task per request, its reply when it ends

It is blocked while the container does not accept the next append, while the client does not take its replies,
while too many requests run, and while a request or a large wire frame waits for its lease. Received bytes
stay in the buffer; its bound is the back-pressure.
"""

from __future__ import annotations

from typing import Final, cast

from headrace.errors import HeadraceError, ProtocolError
from headrace.limits import INT64_MAX, KIB
from headrace.security.permission import Permission
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.ingress.blocked import CAPACITY, MEMORY, OUTBOX, SETUP, YIELDING
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.connection_writers import ConnectionWriters
from headrace.segmentstore.ingress.frame_lease import FrameLease
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.read_session import ReadSession
from headrace.segmentstore.ingress.request_session import RequestSession
from headrace.wire import commands as c
from headrace.wire.append_block import APPEND_BLOCK, APPEND_BLOCK_END, AppendBatch, take_batch, wanted
from headrace.wire.catalogue import LAYOUTS, TYPE_IDS
from headrace.wire.commands.kinds import Command, Request
from headrace.wire.frames import HEAD, HEAD_BYTES, FrameDecoder, encode
from headrace.wire.layouts import Layout
from headrace.wire.server_session import ServerSession

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
        c.AppendBlock,
        c.AppendBlockEnd,
        c.ConditionalAppend,
        c.ConditionalBlockEnd,
        c.ReadSegment,
    )
)
"""Commands that are not started as tasks. Appends are copied into frames of a bounded pool, and reads consume
no memory until they are answered."""

_TAKEN_MAX: Final = 64
"""Frames, or append batches, of one connection in an iteration of the loop. They are answered in place, and
the loop reads a socket repeatedly while more arrives: a client of tiny requests would occupy the loop.
"""

_SMALL_PAYLOAD_BYTES: Final = 1 * KIB
"""A request up to this size is decoded before it is admitted, rather than measured first."""

_APPENDS_FOR_ONE: Final = 16
"""So many appends of a batch count as one more frame. A megabyte has thousands of them, and refused ones are
answered one by one, in 10 us each.
"""


class Dispatcher:
    """Takes the commands out of the buffer of one connection and hands each to its session."""

    def __init__(self, home: ConnectionHome, connection: ServedConnection, outbox: Outbox) -> None:
        self._home = home
        self._totals = home.totals
        self._outbox = outbox
        self._on_error = connection.on_error
        self._close_after_replies = connection.close_after_replies
        self._resume = lambda: connection.unblock(CAPACITY)
        self.blocked = 0
        """Why nothing is dispatched now."""
        self._buffer_bytes = home.receive_buffer_bytes()
        self.decoder = FrameDecoder.for_server(self._buffer_bytes)
        self._frame_lease = FrameLease(home.budget, connection, self.decoder)
        self._batch = AppendBatch()
        self._session = ServerSession()
        self.writers = ConnectionWriters(home, connection, self._session)
        self.reads = ReadSession(home, connection, outbox)
        self.requests = RequestSession(home, connection, outbox, self._frame_lease)
        self._touched: dict[AppendTarget, None] = {}
        self._full_target: AppendTarget | None = None
        """Where the next append waits for capacity."""
        self._taken = 0
        """Frames and batches since this connection last yielded to the loop."""

    def dispatch(self) -> None:
        """Dispatch everything dispatchable.

        Raises:
            ProtocolError: what comes next is illegal, and so is everything behind it.
        """
        try:
            self._take_frames()
        finally:
            self._batch.clear()
            for target in self._touched:
                target.end_of_read()
            self._touched.clear()

    def reserve(self) -> None:
        """Consume the budget for a large frame that has begun, or block; call it after :meth:`dispatch`."""
        if self._frame_lease.lease is not None:
            self._frame_lease.on_taken()
        decoder = self.decoder
        if not self.blocked and decoder.wanted > self._buffer_bytes:
            type_id, _ = HEAD.unpack_from(decoder.buffer, decoder.begin)
            if not self._frame_lease.reserve(Lane.FRAMES if type_id in _NO_REQUESTS else Lane.REQUESTS):
                self.blocked |= MEMORY

    def owns(self, lease: object) -> bool:
        """Whether this is the lease of the frame in the buffer."""
        return lease is self._frame_lease.lease

    def close(self) -> None:
        """The connection is lost, and its outbox closed."""
        if self._full_target is not None:  # else a stalled log would accumulate those of lost connections
            self._full_target.stop_waiting(self._resume)
        self.reads.close()
        self.requests.close()
        self._frame_lease.close()
        self.writers.close()
        # The parts of a connection refer to each other, and collections are rare: the buffer would outlive
        # its connection by hours. Nothing is parsed any more.
        self.decoder.drop()

    # -------------------------------------------------------------------------------------- frames

    def _take_frames(self) -> None:
        decoder, batch = self.decoder, self._batch
        if self._outbox.full:
            self.blocked |= OUTBOX
        while not self.blocked:
            buffer, begin, end = decoder.buffer, decoder.begin, decoder.end
            if end - begin < HEAD_BYTES:
                decoder.wanted = HEAD_BYTES
                return
            type_id, _ = HEAD.unpack_from(buffer, begin)
            if type_id in _APPENDS:
                after = take_batch(buffer, decoder.view, begin, end, batch)
                if after == begin:
                    decoder.wanted = wanted(buffer, begin, end)
                    return
                writer = self.writers.get(batch.writer_id)
                if not writer.append(
                    batch.pieces, batch.size, batch.numbers, batch.request_ids, batch.event_count
                ):
                    self._wait_capacity(writer.target, batch.size)
                    return
                self._touched[writer.target] = None
                self._totals.append_runs += 1
                self._totals.appends += len(batch.numbers)
                self._taken += len(batch.numbers) // _APPENDS_FOR_ONE
                decoder.begin = after
                decoder.wanted = HEAD_BYTES
            else:
                frame = decoder.next_frame()
                if frame is None:
                    return
                payload, layout = frame[1], LAYOUTS[type_id]
                if type_id not in _NO_REQUESTS:
                    if not self._take_request(layout, payload):
                        decoder.begin = begin
                        return
                elif not self._take_command(layout.read(payload)):
                    decoder.begin = begin
                    return
            self._taken += 1
            if self._taken >= _TAKEN_MAX:
                self._pause()

    def _take_request(self, layout: Layout, payload: memoryview) -> bool:
        """Start one request; return False if it has to wait: then it is taken again later."""
        command: Command | None = None
        if len(payload) <= _SMALL_PAYLOAD_BYTES:
            command = layout.read(payload)
            if self.requests.answer_nowait(cast("Request", command)):
                if self._outbox.full:
                    self.blocked |= OUTBOX
                return True
        size = layout.decoded_bytes(payload) if command is None else layout.memory_bytes(command, payload)
        self.blocked |= self.requests.admit(size, self.decoder.taken_bytes - len(payload) - HEAD_BYTES)
        if self.blocked:
            return False
        # A larger one is decoded only when it is admitted: that takes time, and would be repeated.
        if self.requests.start(cast("Request", layout.read(payload) if command is None else command)):
            # The next request may depend on this one, which first takes its first step.
            self._pause()
        return True

    def _pause(self) -> None:
        """Yield to the loop before more is dispatched."""
        self._taken = 0
        self.blocked |= YIELDING

    def _take_command(self, command: Command) -> bool:
        """Take what is no request; return False if it has to wait: then it is dispatched again later."""
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
                if self.writers.set_up(command):
                    self.blocked |= SETUP
            case c.KeepAlive():
                self._outbox.send(_KEEP_ALIVE)
            case c.Hello():
                answer, close = self._session.on_hello(command)
                self._outbox.send(encode(answer))
                if close:
                    self._close_after_replies(f"versions {command.low_version} to {command.high_version}")
            case c.Padding():
                pass
            case c.PartialEvent():
                raise ProtocolError("a partial event outside of an append block")
            case _:
                raise AssertionError(f"{type(command).__name__} is a request")
        return True

    def _on_conditional(
        self, command: c.ConditionalBlockEnd | c.ConditionalAppend, pieces: list[memoryview], size: int
    ) -> bool:
        writer = self.writers.get(command.writer_id)
        offset = command.expected_offset
        if offset < 0:  # no segment has such a length, and the target would treat it as unconditional
            offset = INT64_MAX
        if not writer.append(pieces, size, [command.event_number], [command.request_id], 1, offset):
            self._wait_capacity(writer.target, size)
            return False
        self._touched[writer.target] = None
        self._totals.appends += 1
        return True

    def _wait_capacity(self, target: AppendTarget, size_bytes: int) -> None:
        self.blocked |= CAPACITY
        self._totals.capacity_waits += 1
        self._full_target = target
        target.wait_capacity(size_bytes, self._resume)

    def _on_read(self, command: c.ReadSegment) -> None:
        self._totals.reads += 1
        try:
            left_ms = self._home.authorise(command.delegation_token, command.segment, Permission.READ)
            self.reads.on_read(command, left_ms)
        except ProtocolError:
            raise
        except HeadraceError as error:
            self._on_error(command, error)
        if self._outbox.full:
            self.blocked |= OUTBOX

    def check(self) -> None:
        """Assert the invariants of the dispatcher."""
        self.decoder.check()
        self.writers.check()
        assert self.requests.running >= 0
