"""Reads one segment forward: one block waits for its consumer while the next one is on its way.

At the tail the request waits at the server until there is something to answer. Lost connections and moved
segments are dealt with here; the consumer sees contiguous blocks, an end, or the reason why there is
neither.

Source: protocol, "Reads" and "How readers parse a segment".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from headrace.client.config import ReaderConfig
from headrace.client.connections.connection import Connection
from headrace.client.connections.pool import Use
from headrace.client.connections.reconnect_policy import Reconnects
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.control.tokens import Access
from headrace.client.services import ClientServices, SegmentAddress
from headrace.errors import (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    CorruptionError,
    HeadraceError,
    NoSuchSegmentError,
    ProtocolError,
    RequestError,
    SegmentTruncatedError,
)
from headrace.limits import READ_BYTES_MAX
from headrace.wire.commands import (
    AuthTokenCheckFailed,
    NoSuchSegment,
    ReadSegment,
    SegmentIsSealed,
    SegmentIsTruncated,
    WrongHost,
)

_TOKEN_EXPIRED: Final = 1
_BLOCKS_WAITING_MAX: Final = 1


class SegmentInput:
    """A read flow. Used on one loop. ``on_ready`` is called whenever there is something new to take."""

    def __init__(
        self,
        address: SegmentAddress,
        services: ClientServices,
        config: ReaderConfig,
        on_ready: Callable[[SegmentInput], None],
        *,
        offset: int,
        end: int | None = None,
        read_bytes: int | None = None,
    ) -> None:
        assert end is None or 0 <= offset <= end
        self.address = address
        self.end = end
        """Where to stop; None: where the segment is sealed."""
        self.next_offset = offset
        """What is asked for next; everything below was received."""
        self.error: HeadraceError | None = None
        """Why no more blocks come."""
        self.is_sealed_at_end = False
        """The segment is sealed and everything of it was received."""
        self._name = address.name
        self._services = services
        self._config = config
        self._on_ready = on_ready
        self._read_bytes = read_bytes or config.read_bytes_max
        self._blocks: deque[ReadBlock] = deque()
        self._connection: Connection | None = None
        self._request_id = -1
        self._requested = False
        self._connecting = False
        self._closed = False
        self._reconnects = Reconnects(config.reconnect)
        self._token = ""

    # ------------------------------------------------------------------------------ for the consumer

    def start(self) -> None:
        """Begin to read."""
        if self.is_at_end:
            self._on_ready(self)
        else:
            self._ask()

    def take(self) -> ReadBlock | None:
        """Return the next block, or None: nothing has come (yet)."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if not self._requested:
            self._ask()
        return block

    @property
    def is_at_end(self) -> bool:
        """Everything there is to be read was received; some of it may still wait in :meth:`take`."""
        return self.is_sealed_at_end or (self.end is not None and self.next_offset >= self.end)

    @property
    def has_news(self) -> bool:
        return bool(self._blocks) or self.error is not None or self.is_at_end

    def restart_at(self, offset: int) -> None:
        """Go on elsewhere after an error: the consumer has decided to skip what is gone."""
        assert self.error is not None
        assert not self._blocks
        self.error = None
        self.next_offset = offset
        self.start()

    def close(self) -> None:
        """Ask for nothing any more. Idempotent."""
        self._closed = True
        self._blocks.clear()
        self._detach()

    # ------------------------------------------------------------------------------ asking

    def _ask(self) -> None:
        """Send the next request if there is something to ask for and room for the answer."""
        if self._closed or self._requested or self.error is not None or self.is_at_end:
            return
        connection = self._connection
        if connection is None:
            self._begin_to_connect(0.0)
            return
        length = min(self._read_bytes, READ_BYTES_MAX)
        if self.end is not None:
            length = min(length, self.end - self.next_offset)
        self._requested = True
        connection.send(ReadSegment(self._name, self.next_offset, length, self._token, self._request_id))

    def _begin_to_connect(self, delay_s: float) -> None:
        if self._connecting:
            return
        self._connecting = True
        try:
            self._services.supervisor.spawn(f"read {self._name}", self._connect(delay_s))
        except ClosedError as error:
            self._fail(error)

    async def _connect(self, delay_s: float) -> None:
        try:
            await asyncio.sleep(delay_s)
            await self._connect_until_attached()
        except asyncio.CancelledError:
            self._fail(ClosedError(f"{self._name}: the client was closed"))
            raise
        finally:
            self._connecting = False

    async def _connect_until_attached(self) -> None:
        address, services = self.address, self._services
        loop = asyncio.get_running_loop()
        while not self._closed:
            try:
                self._token = await services.tokens.token(address.scope, address.stream, Access.READ)
                endpoint = await services.segments.endpoint(address.scope, address.stream, address.segment_id)
                connection = await services.pool.lease(endpoint, Use.READ)
            except (RequestError, CorruptionError, ClosedError) as error:
                self._fail(error)
                return
            except HeadraceError as error:
                failure = error
            else:
                self._attach(connection)
                return
            self._forget_owner()
            delay = self._reconnects.on_failure(loop.time(), services.entropy.random())
            if delay is None:
                self._fail(ConnectionLostError(f"{self._name}: gave up reading: {failure}"))
                return
            await asyncio.sleep(delay)

    def _attach(self, connection: Connection) -> None:
        if self._closed:
            return
        self._connecting = False
        self._request_id = self._services.pool.new_request_id()
        self._connection = connection
        connection.register(self._request_id, self)
        self._ask()

    def _detach(self) -> None:
        connection, self._connection = self._connection, None
        self._requested = False
        if connection is not None:
            connection.unregister(self._request_id)

    def _forget_owner(self) -> None:
        self._services.segments.forget_endpoint(
            self.address.scope, self.address.stream, self.address.segment_id
        )

    # ------------------------------------------------------------------------------ replies

    def on_reply(self, reply: Any) -> None:
        """Keep the block, or react to why there is none."""
        if isinstance(reply, ReadBlock):
            self._on_block(reply)
            return
        match reply:
            case SegmentIsSealed():
                self._requested = False
                self.is_sealed_at_end = True
                self._finish()
            case SegmentIsTruncated(start_offset=start_offset):
                self._fail(SegmentTruncatedError(self._name, start_offset, self.next_offset))
            case NoSuchSegment():
                self._fail(NoSuchSegmentError(self._name))
            case AuthTokenCheckFailed(error_code=code) if code != _TOKEN_EXPIRED:
                self._fail(AccessDeniedError(f"{self._name}: the token was refused"))
            case AuthTokenCheckFailed():
                self._services.tokens.forget(self.address.scope, self.address.stream)
                self._retry(ConnectionLostError(f"{self._name}: the token has expired"))
            case WrongHost():
                self._retry(ConnectionLostError(f"{self._name}: the host is not the owner"))
            case _:
                self._retry(ConnectionLostError(f"{self._name}: unexpected {reply}"))

    def _on_block(self, block: ReadBlock) -> None:
        if not self._requested or block.offset != self.next_offset:
            raise ProtocolError(f"{self._name}: data at {block.offset} was not asked for")
        self._requested = False
        self._reconnects.on_success()
        size = len(block)
        if self.end is not None and block.offset + size > self.end:
            raise ProtocolError(f"{self._name}: {size} bytes are more than was asked for")
        self.next_offset += size
        if block.end_of_segment:
            self.is_sealed_at_end = True
        if size:
            self._blocks.append(block)
        if self.is_at_end:
            self._finish()
            return
        if len(self._blocks) <= _BLOCKS_WAITING_MAX:
            self._ask()
        if size:
            self._on_ready(self)

    def _finish(self) -> None:
        self._detach()
        self._on_ready(self)

    def _retry(self, error: HeadraceError) -> None:
        """Ask again, elsewhere, after a while: a container may be on its way between hosts."""
        self._detach()
        self._forget_owner()
        loop = asyncio.get_running_loop()
        delay = self._reconnects.on_failure(loop.time(), self._services.entropy.random())
        if delay is None:
            self._fail(ConnectionLostError(f"{self._name}: gave up reading: {error}"))
        elif not self._closed:
            self._begin_to_connect(delay)

    def on_connection_lost(self, error: Exception) -> None:
        """Repeat the request on another connection."""
        if not self._closed and not self.is_at_end and self.error is None:
            self._retry(ConnectionLostError(str(error)))

    def _fail(self, error: HeadraceError) -> None:
        self._detach()
        self.error = error
        self._on_ready(self)

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._blocks) <= _BLOCKS_WAITING_MAX + 1
        assert not self._requested or self._connection is not None
        assert self.end is None or self.next_offset <= self.end
