"""Reads one segment forward: one block waits for its consumer while the next ones are in flight.

Two ranges are asked for ahead while both are known to exist; a reader that gets large answers asks for the
length of the segment to know. At the tail one request waits at the server until there is something to
answer. Lost connections and moved segments are dealt with here; the consumer sees contiguous blocks, an end,
or the reason why there is neither.

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
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.control.tokens import Access
from headrace.client.reader.ranges_in_flight import RANGES_MAX, RangesInFlight
from headrace.client.reconnect_policy import Reconnects, refusal_policy
from headrace.client.segment_address import SegmentAddress
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    CorruptionError,
    HeadraceError,
    NoSuchSegmentError,
    RequestError,
    SegmentTruncatedError,
    StorageReadRefusedError,
    TokenExpiredError,
    UnreachableError,
)
from headrace.limits import READ_BYTES_MAX
from headrace.runtime import logs
from headrace.wire.commands import (
    AuthTokenCheckFailed,
    ErrorMessage,
    GetStreamSegmentInfo,
    NoSuchSegment,
    ReadSegment,
    SegmentIsSealed,
    SegmentIsTruncated,
    StreamSegmentInfo,
    WrongHost,
)
from headrace.wire.commands.errors import ILLEGAL_ARGUMENT

_log = logs.logger(__name__)

AWAY: Final = "a segment is opened again"
BACK: Final = "a segment is read again"
"""What is logged, at level INFO, when no server is found that owns the segment, and when one is again."""

PIECES_MAX: Final = 3
"""Blocks that wait and ranges that were asked for, together."""


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
        self.error: HeadraceError | None = None
        """Why no more blocks come."""
        self.is_sealed_at_end = False
        """The segment is sealed and everything of it was received."""
        self._name = address.name
        self._services = services
        self._config = config
        self._on_ready = on_ready
        self._length_max = min(read_bytes or config.read_bytes_max, READ_BYTES_MAX)
        self._blocks: deque[ReadBlock] = deque()
        self._connection: Connection | None = None
        self._request_ids: list[int] = []
        self._ranges = RangesInFlight(offset)
        self._known_end = 0
        """Bytes below it exist."""
        self._asks_length = False
        self._large_answers = 0
        self._connecting = False
        self._closed = False
        self._reconnects = Reconnects(config.reconnect)
        self._refusals = Reconnects(refusal_policy(config.reconnect))
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
        self._ask()
        return block

    @property
    def next_offset(self) -> int:
        """Everything below was received."""
        return self._ranges.offset

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
        self._ranges = RangesInFlight(offset)
        self.start()

    def close(self) -> None:
        """Ask for nothing any more. Idempotent."""
        self._closed = True
        self._blocks.clear()
        self._detach()

    # ------------------------------------------------------------------------------ asking

    def _ask(self) -> None:
        """Send the next requests if there is something to ask for and the answers can be taken."""
        if self._closed or self.error is not None or self.is_at_end:
            return
        connection = self._connection
        if connection is None:
            self._begin_to_connect(0.0)
            return
        free_pieces = PIECES_MAX - len(self._blocks)
        while (
            question := self._ranges.ask(self._length_max, self.end, self._known_end, free_pieces)
        ) is not None:
            offset, length, request_id = question
            connection.send(ReadSegment(self._name, offset, length, self._token, request_id))

    def _learn_length(self, block: ReadBlock) -> None:
        """A reader far from the tail asks where that is, so that it can ask for two ranges at a time."""
        if block.at_tail or 2 * len(block) < self._length_max:
            self._large_answers = 0
            return
        self._large_answers += 1
        ahead = self.next_offset + RANGES_MAX * self._length_max
        if (
            self._large_answers < RANGES_MAX
            or self._asks_length
            or ahead <= self._known_end
            or (self.end is not None and min(ahead, self.end) <= self._known_end)
        ):
            return
        self._large_answers = 0
        self._ask_length()

    def _ask_length(self) -> None:
        assert self._connection is not None
        self._asks_length = True
        self._connection.send(GetStreamSegmentInfo(self._request_ids[0], self._name, self._token))

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
                if self._reconnects.failures:
                    _log.info(BACK, segment=self._name)
                self._attach(connection)
                return
            self._forget_owner()
            delay = self._reconnects.on_failure(loop.time(), services.entropy.random())
            if delay is None:
                self._give_up(failure)
                return
            _log.info(AWAY, segment=self._name, delay_s=delay, error=failure)
            await asyncio.sleep(delay)

    def _attach(self, connection: Connection) -> None:
        if self._closed:
            return
        self._connecting = False
        self._request_ids = [self._services.pool.new_request_id() for _ in range(RANGES_MAX + 1)]
        self._ranges.begin(self._request_ids[1:])
        self._asks_length = False
        self._connection = connection
        for request_id in self._request_ids:
            connection.register(request_id, self)
        if self._reconnects.failures:  # at the tail no block says that all is well again
            self._ask_length()
        self._ask()

    def _detach(self) -> None:
        connection, self._connection = self._connection, None
        self._ranges.clear()
        if connection is not None:
            for request_id in self._request_ids:
                connection.unregister(request_id)

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
        if isinstance(reply, StreamSegmentInfo):
            self._asks_length = False
            self._known_end = max(self._known_end, reply.write_offset)
            if reply.write_offset <= self.next_offset:
                self._reconnects.on_success()  # the owner answers, and waiting is all there is to do
            self._ask()
            return
        if not self._ranges.on_refusal(reply.request_id):
            return  # it was asked for ahead of its time; the answer in front of it decides
        match reply:
            case SegmentIsSealed():
                self.is_sealed_at_end = True
                self._finish()
            case SegmentIsTruncated(start_offset=start_offset):
                self._fail(SegmentTruncatedError(self._name, start_offset, self.next_offset))
            case NoSuchSegment():
                self._fail(NoSuchSegmentError(self._name))
            case AuthTokenCheckFailed(error_code=code):
                self._on_token_refused(code)
            case ErrorMessage(message=message, error_code=code) if code != ILLEGAL_ARGUMENT:
                self._on_refused_by_store(message)
            case WrongHost():
                self._retry(ConnectionLostError(f"{self._name}: the host is not the owner"))
            case _:
                self._retry(ConnectionLostError(f"{self._name}: unexpected {reply}"))

    def _on_token_refused(self, error_code: int) -> None:
        scope, stream = self.address.scope, self.address.stream
        error = self._services.tokens.refusal(scope, stream, self._token, error_code, self._name)
        if isinstance(error, TokenExpiredError):
            self._retry(error)
        else:
            self._fail(error)

    def _on_refused_by_store(self, message: str) -> None:
        if not self._refusals.failures:
            _log.warning("long-term storage refuses a read: repeating it", segment=self._name, why=message)
        self._retry(StorageReadRefusedError(f"{self._name}: {message}"))

    def _on_block(self, block: ReadBlock) -> None:
        blocks = self._ranges.on_block(block)
        if blocks:  # a range ahead that is answered each time is no progress
            self._reconnects.on_success()
            self._refusals.on_success()
        for ready in blocks:
            if ready.end_of_segment:
                self.is_sealed_at_end = True
            if len(ready):
                self._blocks.append(ready)
        if self.is_at_end:
            self._finish()
            return
        self._learn_length(block)
        self._ask()
        if self._blocks:
            self._on_ready(self)

    def _finish(self) -> None:
        self._detach()
        self._on_ready(self)

    def _retry(self, error: HeadraceError) -> None:
        """Retry elsewhere after a back-off: the container may be moving between hosts."""
        self._detach()
        self._forget_owner()
        loop = asyncio.get_running_loop()
        failures = self._refusals if isinstance(error, StorageReadRefusedError) else self._reconnects
        delay = failures.on_failure(loop.time(), self._services.entropy.random())
        if delay is None:
            self._give_up(error)
        elif not self._closed:
            _log.info("a read is repeated", segment=self._name, delay_s=delay, error=error)
            self._begin_to_connect(delay)

    def on_connection_lost(self, error: Exception) -> None:
        """Repeat the request on another connection."""
        if not self._closed and not self.is_at_end and self.error is None:
            self._retry(ConnectionLostError(str(error)))

    def _give_up(self, failure: HeadraceError) -> None:
        if isinstance(failure, StorageReadRefusedError):
            self._fail(failure)
            return
        kind: type[HeadraceError] = ConnectionLostError
        if isinstance(failure, (TokenExpiredError, UnreachableError)):
            kind = type(failure)
        self._fail(kind(f"{self._name}: gave up reading: {failure}"))

    def _fail(self, error: HeadraceError) -> None:
        self._detach()
        self.error = error
        self._on_ready(self)

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._blocks) + len(self._ranges) <= PIECES_MAX
        assert not self._ranges or self._connection is not None
        assert self.end is None or self.next_offset <= self.end
        self._ranges.check()
