"""Appends to one segment: blocks leave in order, several at a time, and survive the loss of any connection.

What may be repeated is decided by the :class:`InflightWindow`; what a seal means, by the writer that owns
this. Here is the conversation between them and a segment store::

    idle --write--> connecting --SetupAppend/AppendSetup--> ready --SegmentIsSealed--> confirming
    --AppendSetup--> ended
                        ^                                     |
                        ^ +------- connection lost, WrongHost --+             NoSuchSegment (from any)
                        ---------------+

Confirming asks once more which events are durable, so that exactly the missing ones go to the successors,
whatever order replies came in.

Source: protocol, "Connection setup, reconnect, retry schedule" and "Reaction to each failure reply".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final, Protocol

from headrace.client.config import WriterConfig
from headrace.client.connections.connection import Connection
from headrace.client.connections.pool import Use
from headrace.client.control.tokens import Access
from headrace.client.reconnect_policy import Reconnects
from headrace.client.segment_address import SegmentAddress
from headrace.client.services import ClientServices
from headrace.client.writer.ack import Ack, settle_parts
from headrace.client.writer.inflight_window import Block, InflightStatistics, InflightWindow
from headrace.client.writer.places import Places
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    CorruptionError,
    HeadraceError,
    ProtocolError,
    RequestError,
    TokenExpiredError,
    WriterReplacedError,
)
from headrace.limits import KIB
from headrace.runtime import logs
from headrace.wire.commands import (
    AppendSetup,
    AuthTokenCheckFailed,
    NoSuchSegment,
    SegmentIsSealed,
    SetupAppend,
    WrongHost,
)

_log = logs.logger(__name__)

SMALL_BLOCK_BYTES: Final = 128 * KIB
"""A loaded writer lets an open block grow to this size as long as an acknowledgement for its segment is due.
"""

SETUP_TIMEOUT_S: Final = 30.0

RESUME_S: Final = 0.1
"""A task of a writer may be cancelled by what ends all tasks of a loop. If the loop goes on, so does the
writer after this time; if it ends, the client ends with it, and what it then waits for begins at once.
"""


class OutputState(Enum):
    """Where the conversation is."""

    IDLE = auto()
    CONNECTING = auto()
    READY = auto()
    CONFIRMING = auto()
    ENDED = auto()


class OutputOwner(Protocol):
    """The writer that fills outputs."""

    @property
    def is_loaded(self) -> bool:
        """So much waits for the servers already that waiting for more events delays nothing."""

    def on_durable(self, event_count: int, size_bytes: int) -> None:
        """So much is durable: release its part of the window."""

    def on_segment_ended(self, output: SegmentOutput) -> None:
        """The segment takes no more: its blocks have to go elsewhere."""

    def on_output_failed(self, output: SegmentOutput, error: HeadraceError) -> None:
        """It has failed. Take its unacknowledged blocks, which know whether their outcome is in doubt."""


class SegmentOutput:
    """An append flow. Used on one loop."""

    def __init__(
        self,
        address: SegmentAddress,
        services: ClientServices,
        config: WriterConfig,
        owner: OutputOwner,
        *,
        writer_id: bytes = b"",
        window: InflightWindow | None = None,
    ) -> None:
        """``writer_id`` and ``window`` are given by writers whose numbers outlive them."""
        self.address = address
        self.state = OutputState.IDLE
        self.segment_length = -1
        """The length of the segment right behind the last acknowledged block; -1: not known, or none is."""
        self._name = address.name
        self._services = services
        self._config = config
        self._owner = owner
        self._writer_id = writer_id or services.entropy.uuid4_bytes()
        self._window = InflightWindow() if window is None else window
        self._block_bytes_max = config.block_bytes_max
        self._reconnects = Reconnects(config.reconnect)
        self._connection: Connection | None = None
        self._request_id = -1
        self._token = ""
        self._setup: asyncio.Future[None] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._trouble = ""
        # The block that is being filled; it has no number yet.
        self._open_parts: list[Any] = []
        self._open_places: list[float | str | None] = []
        self._open_bytes = 0
        self._open_ack: Ack | None = None
        """Of the single events in it."""
        self._open_batches: list[Ack] = []
        """Of the batches with events in it."""

    # ------------------------------------------------------------------------------ filling

    def add_event(self, header: bytes, event: bytes, place: float | str | None, size_bytes: int) -> Ack:
        """Put one event of ``size_bytes`` with its header into the open block; return the block's ack."""
        open_bytes = self._open_bytes + size_bytes
        if open_bytes > self._block_bytes_max and self._open_bytes:
            self._close_open_block()
            open_bytes = size_bytes
        ack = self._open_ack
        if ack is None:
            ack = self._open_ack = Ack(1)
        parts = self._open_parts
        parts.append(header)
        parts.append(event)
        self._open_places.append(place)
        self._open_bytes = open_bytes
        if open_bytes == size_bytes or open_bytes >= SMALL_BLOCK_BYTES > open_bytes - size_bytes:
            self._wake()  # at last: if that fails, the block fails with its event
        return ack

    def add_events(
        self, parts: Sequence[Any], places: Sequence[Any], size_bytes: int, acks: Sequence[Ack]
    ) -> None:
        """Put a few events of batches into the open block; the batches' acks count it as a part already.

        ``parts`` are the events, each behind its header, ``size_bytes`` together.
        """
        open_bytes = self._open_bytes + size_bytes
        if open_bytes > self._block_bytes_max and self._open_bytes:
            self._close_open_block()
            open_bytes = size_bytes
        self._open_batches += acks
        self._open_parts += parts
        self._open_places += places
        self._open_bytes = open_bytes
        if open_bytes == size_bytes or open_bytes >= SMALL_BLOCK_BYTES > open_bytes - size_bytes:
            self._wake()

    def add_block(self, block: Block) -> None:
        """Queue a block behind everything that was added before. Its acks count it as a part already."""
        self._close_open_block()
        self._window.add(block)
        self._wake()

    def _close_open_block(self) -> None:
        size = self._open_bytes
        if not size:
            return
        places, acks = self._open_places, self._open_batches
        if self._open_ack is not None:
            acks.append(self._open_ack)
            self._open_ack = None
        block = Block(self._open_parts, size, len(places), places, acks)
        self._open_parts, self._open_places, self._open_batches = [], [], []
        self._open_bytes = 0
        self._window.add(block)

    def add_barrier(self, barrier: Ack) -> None:
        """Let ``barrier`` wait for everything that was added before."""
        self._close_open_block()
        for block in self._window:
            barrier.add_parts(1)
            block.acks.append(barrier)
        self._wake()

    def take_blocks(self) -> list[Block]:
        """Remove and return everything that is not durable, in order."""
        self._close_open_block()
        return self._window.drain()

    @property
    def has_work(self) -> bool:
        """Something was added and is not durable."""
        return self._open_bytes > 0 or len(self._window) > 0

    @property
    def first_places(self) -> Places:
        """Of the first block that is not durable, which may be open; None: everything is."""
        first = next(iter(self._window), None)
        return (self._open_places or None) if first is None else first.places

    # ------------------------------------------------------------------------------ for the watch

    @property
    def stream_name(self) -> str:
        """With its scope."""
        return f"{self.address.scope}/{self.address.stream}"

    @property
    def is_ended(self) -> bool:
        """It takes and sends no more."""
        return self.state is OutputState.ENDED

    @property
    def acknowledged_number(self) -> int:
        return self._window.acknowledged_number

    @property
    def peer(self) -> str:
        """Who is to acknowledge; empty without a connection."""
        return "" if self._connection is None else str(self._connection.endpoint)

    @property
    def trouble(self) -> str:
        """Why there is no connection; empty while there is one, or none was needed yet."""
        return self._trouble

    # ------------------------------------------------------------------------------ sending

    def _wake(self) -> None:
        if self.state is OutputState.READY:
            assert self._connection is not None
            self._connection.wants_to_send(self)
        elif self.state is OutputState.IDLE:
            self._begin_to_connect()

    def send_blocks(self, connection: Connection) -> None:
        """Send while the connection is writable and few enough blocks are in flight."""
        if connection is not self._connection or self.state is not OutputState.READY:
            return
        window, config = self._window, self._config
        self._services.acks.watch(self)
        while (
            window.blocks_sent < config.blocks_in_flight_max
            and window.bytes_sent < config.bytes_in_flight_max
        ):
            if (large := window.next_large) is not None:
                self._send_large(large)
                return
            if not window.has_unsent():
                size = self._open_bytes
                if not size or (size < SMALL_BLOCK_BYTES and window.blocks_sent and self._owner.is_loaded):
                    return  # in the second case the acknowledgement that is due wakes this output again
                self._close_open_block()
            if not connection.is_writable:
                connection.wants_to_send(self)
                return
            blocks = window.take_unsent(self._block_bytes_max)
            last = blocks[-1]
            pieces, size, event_count = last.pieces, last.size_bytes, last.event_count
            if last is not blocks[0]:
                pieces = [piece for block in blocks for piece in block.pieces]
                size = sum([block.size_bytes for block in blocks])
                event_count = sum([block.event_count for block in blocks])
            connection.send_append(
                self._writer_id, pieces, size, event_count, last.last_number, self._request_id
            )

    def _send_large(self, block: Block) -> None:
        raise AssertionError(f"{block.size_bytes} bytes are no append")  # refused when they were written

    def on_appended(self, previous_number: int, number: int, segment_length: int) -> None:
        """Settle durable blocks and send blocks that waited for the setup."""
        if self.state is not OutputState.READY:
            return
        self._settle(self._window.on_appended(previous_number, number))
        self.segment_length = max(self.segment_length, segment_length)
        if self._open_bytes or self._window.has_unsent():
            self._wake()

    def _settle(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._owner.on_durable(block.event_count, block.size_bytes)
            settle_parts(block.acks)
        if self._services.acks.is_silent:
            self._services.acks.look()

    # ------------------------------------------------------------------------------ connecting

    def _begin_to_connect(self) -> None:
        self.state = OutputState.CONNECTING
        self._services.acks.watch(self)
        try:
            task = self._services.supervisor.spawn(f"connect {self._name}", self._connect_until_ready())
        except ClosedError as error:
            self.fail(error)
        else:
            self._connecting = task
            task.add_done_callback(self._on_connect_ended)

    def _on_connect_ended(self, task: asyncio.Task[None]) -> None:
        """React to the end of a task that did not bring the output where it should.

        It may be cancelled before it ran, so this cannot be a part of it.
        """
        if task is not self._connecting:
            return
        self._connecting = None
        if self.state is not OutputState.CONNECTING:
            return
        if not task.cancelled():
            self.fail(ConnectionLostError(f"{self._name}: opening it failed: {task.exception()!r}"))
        elif self._services.supervisor.stopped:
            self.fail(ClosedError(f"{self._name}: the client was closed"))
        else:
            self._detach()
            self.state = OutputState.IDLE
            asyncio.get_running_loop().call_later(RESUME_S, self._resume)

    def _resume(self) -> None:
        if self.has_work:
            self._wake()

    async def _connect_until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        while self.state is OutputState.CONNECTING:
            try:
                await self._set_up()
            except (RequestError, CorruptionError, ClosedError) as error:
                if not isinstance(error, (ProtocolError, TokenExpiredError)):
                    self.fail(error)
                    return
                failure: HeadraceError = error
            except HeadraceError as error:
                failure = error
            else:
                self._reconnects.on_success()
                self._trouble = ""
                return
            self._trouble = str(failure)
            self._detach()
            self._services.segments.forget_endpoint(
                self.address.scope, self.address.stream, self.address.segment_id
            )
            if self.is_ended:
                return
            delay = self._reconnects.on_failure(loop.time(), self._services.entropy.random())
            if delay is None:
                tries = self._reconnects.failures
                # Other segments of the writer may have been sent something, whatever happened here.
                self.fail(ConnectionLostError(f"{self._name}: gave up after {tries} attempts: {failure}"))
                return
            _log.info("a segment is opened again", segment=self._name, delay_s=delay, error=failure)
            await asyncio.sleep(delay)

    async def _set_up(self) -> None:
        """Find the owner and open the writer there. Returns when the output is ready or has ended."""
        address, services = self.address, self._services
        self._token = await services.tokens.token(address.scope, address.stream, Access.WRITE)
        endpoint = await services.segments.endpoint(address.scope, address.stream, address.segment_id)
        connection = await services.pool.lease(endpoint, Use.APPEND)
        if self.is_ended:
            return
        # A fresh id per attempt: late replies to an earlier attempt are ignored.
        self._request_id = services.pool.new_request_id()
        self._connection = connection
        connection.register(self._request_id, self)
        connection.register_writer(self._writer_id, self)
        setup = self._setup = asyncio.get_running_loop().create_future()
        connection.send(SetupAppend(self._request_id, self._writer_id, self._name, self._token))
        try:
            # Not a timeout that cancels: an answer of the same iteration has made the output ready.
            await asyncio.wait([setup], timeout=SETUP_TIMEOUT_S)
        finally:
            if self._setup is setup:  # or the connection was lost since, and the next attempt waits already
                self._setup = None
        if not setup.done():
            raise ConnectionLostError(f"{self._name}: no answer to SetupAppend")
        setup.result()

    def _detach(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.unregister(self._request_id)
            connection.unregister_writer(self._writer_id, self)

    def on_reply(self, reply: Any) -> None:
        """React to anything but an acknowledgement."""
        match reply:
            case AppendSetup():
                self._on_append_setup(reply)
            case NoSuchSegment():
                if self.state is OutputState.READY:  # an append was refused, and with it all behind it
                    self._window.on_refused()
                self._end()
            case SegmentIsSealed():
                self._on_sealed()
            case AuthTokenCheckFailed(error_code=code):
                self._on_token_refused(code)
            case WrongHost():
                self._reconnect(ConnectionLostError(f"{self._name}: the host is not the owner"))
            case _:
                self._reconnect(ConnectionLostError(f"{self._name}: unexpected {reply}"))

    def _on_token_refused(self, error_code: int) -> None:
        scope, stream = self.address.scope, self.address.stream
        error = self._services.tokens.refusal(scope, stream, self._token, error_code, self._name)
        if isinstance(error, TokenExpiredError):
            self._reconnect(error)
        else:
            self.fail(error)

    def _on_append_setup(self, reply: AppendSetup) -> None:
        if reply.writer_id != self._writer_id:
            raise ProtocolError("a writer was set up without a request")
        self._close_open_block()  # a number of an earlier process may be that of an event in it
        try:
            blocks = self._window.on_setup(reply.last_event_number)
            if blocks:
                self.segment_length = -1  # this reply does not say where they are
            self._settle(blocks)
        except (CorruptionError, WriterReplacedError) as error:
            self.fail(error)
            return
        if self.state is OutputState.CONFIRMING:
            self._end()
            return
        self.state = OutputState.READY
        self._finish_setup(None)
        if self.has_work:
            self._wake()

    def _on_sealed(self) -> None:
        if self.state is OutputState.CONFIRMING:
            return  # a reply to another append in flight
        connection = self._connection
        if self.state is not OutputState.READY or connection is None:
            self._end()
            return
        self.state = OutputState.CONFIRMING
        connection.send(SetupAppend(self._request_id, self._writer_id, self._name, self._token))

    def _finish_setup(self, error: Exception | None) -> bool:
        """Wake the task that waits for the setup, if it does."""
        setup = self._setup
        if setup is None or setup.done():
            return False
        if error is None:
            setup.set_result(None)
        else:
            setup.set_exception(error)
        return True

    def _reconnect(self, error: Exception) -> None:
        """Leave this connection and set up again; the setup returns what is durable."""
        if self._finish_setup(error):
            return
        self._detach()
        if self.state in {OutputState.READY, OutputState.CONFIRMING}:
            self.state = OutputState.IDLE
            self._services.segments.forget_endpoint(
                self.address.scope, self.address.stream, self.address.segment_id
            )
            if self.has_work:
                self._begin_to_connect()

    def on_connection_lost(self, error: Exception) -> None:
        """Everything sent and not acknowledged may be in or not."""
        self._reconnect(error)

    # ------------------------------------------------------------------------------ ending

    def _end(self) -> None:
        """The segment is sealed or gone."""
        if self.state is OutputState.ENDED:
            return
        self.leave()
        self._owner.on_segment_ended(self)

    def fail(self, error: HeadraceError) -> None:
        """Give up; the owner takes what is not durable."""
        if self.state is not OutputState.ENDED:
            self.leave()
            self._owner.on_output_failed(self, error)

    def leave(self) -> None:
        """Leave the connection; the owner takes what is not durable. Idempotent."""
        self.state = OutputState.ENDED
        self._finish_setup(None)
        self._detach()
        connecting, self._connecting = self._connecting, None
        if connecting is not None and connecting is not asyncio.current_task():
            connecting.cancel()

    def statistics(self) -> InflightStatistics:
        return self._window.statistics()

    def check(self) -> None:
        """Assert the invariants."""
        self._window.check()
        assert (not self._open_parts) == (not self._open_places) == (self._open_bytes == 0)
        assert self._open_parts or not (self._open_ack or self._open_batches)
        assert (self.state in {OutputState.READY, OutputState.CONFIRMING}) <= (self._connection is not None)
