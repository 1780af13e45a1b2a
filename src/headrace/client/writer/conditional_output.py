"""Appends to one segment as long as it has the length that the caller expects. One append at a time.

Each append has the next number of a writer of its own. An append whose answer was lost is sent again under
its number, after the server has said which one it stored last: so it happens once, and its outcome becomes
known.

Source: protocol, "Revisioned stream protocol".
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from headrace.client.connections.connection import Connection
from headrace.client.connections.pool import Use
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.control.tokens import Access
from headrace.client.reconnect_policy import ReconnectPolicy, Reconnects
from headrace.client.segment_address import SegmentAddress
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    HeadraceError,
    NoSuchSegmentError,
    OwnershipError,
    ProtocolError,
    SegmentSealedError,
    TokenExpiredError,
    UnknownOutcomeError,
    UnreachableError,
    WrongHostError,
)
from headrace.runtime import logs
from headrace.wire.commands import (
    AppendSetup,
    AuthTokenCheckFailed,
    ConditionalAppend,
    ConditionalCheckFailed,
    NoSuchSegment,
    SegmentIsSealed,
    SetupAppend,
    WrongHost,
)
from headrace.wire.commands.kinds import Command

_log = logs.logger(__name__)

ANSWER_TIMEOUT_S: Final = 30.0


class ConditionalOutput:
    """A flow of conditional appends. Used on one loop."""

    def __init__(self, address: SegmentAddress, services: ClientServices, policy: ReconnectPolicy) -> None:
        self.address = address
        self._services = services
        self._policy = policy
        self._writer_id = services.entropy.uuid4_bytes()
        self._number = 0
        """Of the last append."""
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._request_id = -1
        self._token = ""
        self._answer: asyncio.Future[Any] | None = None

    async def append(self, event: bytes, expected_offset: int) -> bool:
        """Append ``event`` if the segment has ``expected_offset`` bytes; return whether it had.

        A call that is cancelled may have happened.

        Raises:
            SegmentSealedError, NoSuchSegmentError: nothing was appended.
            AccessDeniedError: nothing was appended.
            ConnectionLostError: the policy gave up; it may have happened.
            UnreachableError: the policy gave up; nothing was appended.
            ClosedError: the client is closed; nothing was appended.
        """
        async with self._turn:
            self._number += 1
            try:
                return await self._append(event, expected_offset)
            except BaseException:
                self._detach()  # an answer may still come, and must not be taken for that of the next append
                raise

    async def _append(self, event: bytes, expected_offset: int) -> bool:
        loop = asyncio.get_running_loop()
        reconnects = Reconnects(self._policy)
        doubt: UnknownOutcomeError | None = None
        while True:
            try:
                if self._connection is None and await self._set_up() >= self._number:
                    return True
                connection = self._connection
                assert connection is not None
                connection.send(
                    ConditionalAppend(self._writer_id, self._number, expected_offset, event, self._request_id)
                )
                if await self._wait_answer():
                    return True
                if doubt is None:
                    return False
                # An attempt whose answer was lost may have been stored meanwhile: then it made the length
                # another one.
                self._detach()
                return await self._set_up() >= self._number
            except ClosedError as error:
                raise error if doubt is None else doubt from error
            except (OwnershipError, UnknownOutcomeError, TokenExpiredError, ProtocolError) as error:
                self._detach()
                if isinstance(error, UnknownOutcomeError):
                    doubt = error
                delay = self._pause(reconnects, error, loop.time(), doubt)
            await asyncio.sleep(delay)

    def _pause(
        self, reconnects: Reconnects, error: HeadraceError, now: float, doubt: UnknownOutcomeError | None
    ) -> float:
        """Return how long to wait before the next attempt; raise if there is none."""
        address = self.address
        self._services.segments.forget_endpoint(address.scope, address.stream, address.segment_id)
        delay = reconnects.on_failure(now, self._services.entropy.random())
        if delay is None:
            gave_up = f"{address.name}: gave up: {error}"
            raise (UnreachableError if doubt is None else ConnectionLostError)(gave_up) from error
        _log.info("an append is repeated", segment=address.name, delay_s=delay, error=error)
        return delay

    async def _set_up(self) -> int:
        """Find the owner and open the writer there; return the number that it stored last."""
        address, services = self.address, self._services
        self._token = await services.tokens.token(address.scope, address.token_stream, Access.READ_WRITE)
        endpoint = await services.segments.endpoint(address.scope, address.stream, address.segment_id)
        connection = await services.pool.lease(endpoint, Use.APPEND)
        self._request_id = services.pool.new_request_id()
        self._connection = connection
        connection.register(self._request_id, self)
        connection.register_writer(self._writer_id, self)
        connection.send(SetupAppend(self._request_id, self._writer_id, address.name, self._token))
        try:
            last: int = await self._wait_answer()
        except BaseException:
            self._detach()
            raise
        return last

    async def _wait_answer(self) -> Any:
        answer = self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise ConnectionLostError(f"{self.address.name}: no answer in {ANSWER_TIMEOUT_S} s") from None
        finally:
            self._answer = None

    def leave(self) -> None:
        """Leave the connection. The next append finds one again."""
        if not self._turn.locked():
            self._detach()

    def _detach(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.unregister(self._request_id)
            connection.unregister_writer(self._writer_id, self)

    # ------------------------------------------------------------------------------ for the connection

    def send_blocks(self, connection: Connection) -> None:
        """Do nothing: it never asks to."""

    def on_appended(self, previous_number: int, number: int, segment_length: int) -> None:  # noqa: ARG002
        """The append is durable."""
        if number == self._number:
            self._settle(True)

    def on_reply(self, reply: Command | ReadBlock) -> None:
        """Take the answer to a setup or an append."""
        name = self.address.name
        match reply:
            case AppendSetup():
                self._settle(reply.last_event_number)
            case ConditionalCheckFailed():
                self._settle(False)
            case SegmentIsSealed():
                self._fail(SegmentSealedError(name))
            case NoSuchSegment():
                self._fail(NoSuchSegmentError(name))
            case WrongHost():
                self._fail(WrongHostError(name))
            case AuthTokenCheckFailed():
                scope, stream = self.address.scope, self.address.token_stream
                self._fail(self._services.tokens.refusal(scope, stream, self._token, reply.error_code, name))
            case _:
                self._fail(ConnectionLostError(f"{name}: unexpected {reply}"))

    def on_connection_lost(self, error: Exception) -> None:
        """What was sent may have happened."""
        self._connection = None
        self._fail(error)

    def _settle(self, answer: Any) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
