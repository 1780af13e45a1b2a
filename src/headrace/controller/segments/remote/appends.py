"""Appends over connections, each exactly once although answers are lost.

An append is one of a writer with an id and increasing numbers. When an answer is lost, the writer is set up
again, under its id, at the owner, which says what its last number is, and the append is sent again unless it
is there. A writer has one append in flight, so its acknowledgement says where that begins; there are as many
writers as appends at the same time, and each keeps its id, since a segment remembers every writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.client.connections.connection import Connection
from headrace.client.connections.pool import Use
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.controller.segments.remote.refusals import owner_of, refused_writer
from headrace.controller.segments.remote.store_calls import TIMEOUT_S, Connected
from headrace.errors import (
    ConnectionLostError,
    HeadraceError,
    OffsetMismatchError,
    OwnershipError,
    TokenExpiredError,
    UnreachableError,
)
from headrace.model.endpoint import Endpoint
from headrace.wire.commands import AppendSetup, ConditionalBlockEnd, ConditionalCheckFailed, SetupAppend
from headrace.wire.commands.kinds import Command

WRITERS_MAX: Final = 128
"""Appends in flight. Further ones wait."""


class _Writer:
    """One writer: an id and a number, where it is set up, and the answer that it waits for."""

    address = None
    """Nobody has to be asked who owns its segment."""

    def __init__(self, writer_id: bytes) -> None:
        self.writer_id = writer_id
        self.number = 0
        self.segment = ""
        self.connection: Connection | None = None
        self._answer: asyncio.Future[Command | int] | None = None

    def is_at(self, segment: str) -> bool:
        """Whether it may append to ``segment``, as far as is known here."""
        return self.connection is not None and not self.connection.closed and self.segment == segment

    def move(self, connection: Connection) -> None:
        """It is about to be set up, perhaps again."""
        self.leave()
        self.connection = connection
        connection.register_writer(self.writer_id, self)

    def leave(self) -> None:
        """It has to be set up before it appends again."""
        if self.connection is not None:
            self.connection.unregister_writer(self.writer_id, self)
        self.connection, self.segment = None, ""

    async def exchange(self, request_id: int, send: Callable[[Connection], None]) -> Command | int:
        """Send something; return the reply, or the length of the segment behind the append.

        Raises ConnectionLostError: there is none.
        """
        connection = self.connection
        assert connection is not None
        answer: asyncio.Future[Command | int] = asyncio.get_running_loop().create_future()
        self._answer = answer
        connection.register(request_id, self)
        try:
            send(connection)
            if connection.closed:
                raise ConnectionLostError(f"the connection to {connection.endpoint} was lost")
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise ConnectionLostError(f"an append was not answered within {TIMEOUT_S} s") from None
        finally:
            self._answer = None
            connection.unregister(request_id)

    # ---- called by the connection

    def on_reply(self, reply: Command | ReadBlock) -> None:
        assert isinstance(reply, Command)
        self._settle(reply)

    def on_appended(self, previous_number: int, number: int, segment_length: int) -> None:  # noqa: ARG002
        if number == self.number:
            self._settle(segment_length)

    def send_blocks(self, connection: Connection) -> None:
        """It sends by itself."""

    def on_connection_lost(self, error: Exception) -> None:
        self.connection, self.segment = None, ""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _settle(self, answer: Command | int) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


class RemoteAppends:
    """The appends of one process. Used on one loop."""

    def __init__(self, connected: Connected, length_of: Callable[[str], Awaitable[int]]) -> None:
        self._connected = connected
        self._length_of = length_of
        self._slots = asyncio.Semaphore(WRITERS_MAX)
        self._idle: dict[_Writer, None] = {}
        """The last used one is the last."""
        self._count = 0

    async def append(self, segment: str, data: bytes, expected_offset: int) -> int | None:
        """Append, at ``expected_offset`` unless that is -1; return where ``data`` begins.

        None: it is there, but the answer that said where was lost.

        Raises:
            ConnectionLostError: it may have happened.
            OffsetMismatchError, SegmentSealedError, NoSuchSegmentError: it has not.
        """
        async with self._slots:
            writer = self._take(segment)
            try:
                return await self._append(writer, segment, data, expected_offset)
            except OffsetMismatchError:
                raise
            except (asyncio.CancelledError, HeadraceError):
                writer.leave()
                raise
            finally:
                self._idle[writer] = None

    def _take(self, segment: str) -> _Writer:
        """Return a writer that is idle: of this segment if there is one, else a new one, or the oldest."""
        for writer in reversed(self._idle):
            if writer.is_at(segment):
                break
        else:
            if self._count < WRITERS_MAX:
                self._count += 1
                return _Writer(self._connected.entropy.uuid4_bytes())
            writer = next(iter(self._idle))
        del self._idle[writer]
        return writer

    async def _append(self, writer: _Writer, segment: str, data: bytes, expected_offset: int) -> int | None:
        attempts = self._connected.attempts()
        writer.number += 1
        while True:
            sent = False
            owner: Endpoint | None = None
            try:
                if not writer.is_at(segment):
                    answer = await self._set_up(writer, segment)
                    owner = owner_of(answer)
                    if not isinstance(answer, AppendSetup):
                        raise refused_writer(segment, answer)
                    if writer.connection is None:
                        raise UnreachableError(
                            f"{segment}: the connection was lost before the append was sent"
                        )
                    writer.segment = segment
                    if answer.last_event_number >= writer.number:
                        assert attempts.doubt is not None
                        return None if expected_offset == -1 else expected_offset
                sent = True
                answer = await self._send(writer, data, expected_offset)
                if isinstance(answer, int):
                    return answer - len(data)
                if isinstance(answer, ConditionalCheckFailed):
                    break
                owner = owner_of(answer)
                raise refused_writer(segment, answer)
            except (OwnershipError, ConnectionLostError, TokenExpiredError) as error:
                writer.leave()
                if isinstance(error, OwnershipError):
                    self._connected.locator.moved(segment, owner)
                elif sent and isinstance(error, ConnectionLostError):
                    attempts.doubt = error
                await attempts.wait(error)
        raise OffsetMismatchError(segment, expected_offset, await self._length_of(segment))

    async def _set_up(self, writer: _Writer, segment: str) -> Command | int:
        connected = self._connected
        connection = await connected.pool.lease(connected.locator.locate(segment), Use.APPEND)
        writer.move(connection)
        request_id = connected.pool.new_request_id()
        request = SetupAppend(request_id, writer.writer_id, segment, connected.tokens(segment))
        return await writer.exchange(request_id, lambda connection: connection.send(request))

    async def _send(self, writer: _Writer, data: bytes, expected_offset: int) -> Command | int:
        request_id = self._connected.pool.new_request_id()
        number = writer.number
        if expected_offset == -1:

            def send(connection: Connection) -> None:
                connection.send_append(writer.writer_id, [data], len(data), 1, number, request_id)

        else:
            block = ConditionalBlockEnd(writer.writer_id, number, expected_offset, data, request_id)

            def send(connection: Connection) -> None:
                connection.send(block)

        return await writer.exchange(request_id, send)
