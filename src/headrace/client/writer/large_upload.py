"""One attempt to store a large event: in pieces to a segment of its own, which is then merged, at once.

The scratch segment lives beside the one that gets the event, as long as the connection: whatever happens
before the merge leaves nothing that a reader could see. The merge sets the number of the writer as an append
does, on condition of the number before. So it happens once, and who asks for the number knows whether it did.

Source: protocol, "Large events".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from headrace.client.connections.connection import Connection
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.segment_address import SegmentAddress
from headrace.client.services import ClientServices
from headrace.client.writer.large_block import LargeBlock
from headrace.errors import ConnectionLostError
from headrace.limits import EVENT_HEADER_BYTES, MIB
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.wire.commands import (
    AppendSetup,
    ConditionalBlockEnd,
    CreateTransientSegment,
    DeleteSegment,
    MergeSegments,
    SegmentCreated,
    SetupAppend,
)
from headrace.wire.commands.kinds import Command

PIECE_BYTES: Final = 1 * MIB
PIECES_IN_FLIGHT_MAX: Final = 8
ANSWER_TIMEOUT_S: Final = 30.0


class RefusedUploadError(Exception):
    """The server answered something else than what was asked for; ``reply`` is what."""

    def __init__(self, reply: Command | ReadBlock) -> None:
        super().__init__(f"unexpected {reply}")
        self.reply = reply


class LargeUpload:
    """A conversation on the connection of a writer. Used on one loop, once."""

    def __init__(
        self, address: SegmentAddress, services: ClientServices, connection: Connection, token: str
    ) -> None:
        self.address = address
        self._connection = connection
        self._token = token
        self._id = services.entropy.uuid4_bytes()
        self._new_request_id = services.pool.new_request_id
        self._request_ids: list[int] = []
        self._answer: asyncio.Future[Any] | None = None
        self._failure: Exception | None = None
        self._stored = -1
        """The number of the last piece that is stored."""
        self._reported = -1
        self._name = ""

    async def send(self, block: LargeBlock, on_piece: Callable[[], None]) -> None:
        """Store all pieces. Ends early if the block is cancelled.

        Raises:
            RefusedUploadError: what the server said instead.
            ConnectionLostError: nothing was heard.
            InvalidArgumentError: the bytes are not to be had any more.
        """
        connection = self._connection
        created = await self._ask(CreateTransientSegment(0, self._id, self.address.name, self._token))
        if not isinstance(created, SegmentCreated):
            raise RefusedUploadError(created)
        self._name = created.segment
        connection.register_writer(self._id, self)
        reply = await self._ask(SetupAppend(0, self._id, self._name, self._token))
        if not isinstance(reply, AppendSetup):
            raise RefusedUploadError(reply)
        request_id = self._register()
        total, offset, sent = len(block.event.source), 0, 0
        head: Any = block.pieces[0]
        while offset < total and not block.event.is_cancelled:
            size = min(PIECE_BYTES, total - offset)
            data = b"".join((head, await block.event.source.read(offset, size)))
            self._report(block, on_piece)
            while sent - self._stored > PIECES_IN_FLIGHT_MAX or not connection.is_writable:
                await self._wait_piece()
                self._report(block, on_piece)
            start = offset + (EVENT_HEADER_BYTES if offset else 0)
            connection.send(ConditionalBlockEnd(self._id, sent, start, data, request_id))
            head = b""
            offset += size
            sent += 1
        while self._stored < sent - 1 and not block.event.is_cancelled:
            await self._wait_piece()
            self._report(block, on_piece)

    async def _wait_piece(self) -> None:
        if not self._connection.is_writable:
            self._connection.wants_to_send(self)
        await self._wait()

    def _report(self, block: LargeBlock, on_piece: Callable[[], None]) -> None:
        if self._failure is not None:
            raise self._failure
        if self._stored == self._reported:
            return
        self._reported = self._stored
        on_piece()
        if block.event.progress is not None:
            total = len(block.event.source)
            block.event.progress(min((self._stored + 1) * PIECE_BYTES, total), total)

    async def merge(self, writer_id: bytes, number: int, former_number: int) -> Command | ReadBlock:
        """Append everything to the segment, and return what the server says."""
        update = AttributeUpdate(writer_id, UpdateKind.REPLACE_IF_EQUALS, number, former_number)
        request = MergeSegments(0, self.address.name, self._name, self._token, [update])
        reply: Command | ReadBlock = await self._ask(request)
        return reply

    def leave(self, *, is_merged: bool) -> None:
        """Leave the connection, and nothing at the server."""
        connection = self._connection
        for request_id in self._request_ids:
            connection.unregister(request_id)
        connection.unregister_writer(self._id, self)
        if self._name and not is_merged:
            connection.send(DeleteSegment(self._new_request_id(), self._name, self._token))

    def _register(self) -> int:
        request_id = self._new_request_id()
        self._connection.register(request_id, self)
        self._request_ids.append(request_id)
        return request_id

    async def _ask(self, request: Any) -> Any:
        request.request_id = self._register()
        self._connection.send(request)
        return await self._wait()

    async def _wait(self) -> Any:
        if self._failure is not None:
            raise self._failure
        answer = self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise ConnectionLostError(f"{self.address.name}: no answer in {ANSWER_TIMEOUT_S} s") from None
        finally:
            self._answer = None

    # ------------------------------------------------------------------------------ for the connection

    def send_blocks(self, connection: Connection) -> None:  # noqa: ARG002
        """Go on: the connection is writable again."""
        self._settle(None)

    def on_appended(self, previous_number: int, number: int, segment_length: int) -> None:  # noqa: ARG002
        """Pieces are stored."""
        self._stored = number
        self._settle(None)

    def on_reply(self, reply: Command | ReadBlock) -> None:
        """Take an answer. To a piece there is none but a refusal."""
        if len(self._request_ids) == 3:  # created, set up: pieces are on their way
            self._fail(RefusedUploadError(reply))
        else:
            self._settle(reply)

    def on_connection_lost(self, error: Exception) -> None:
        """Everything is gone, unless it was merged."""
        self._fail(error)

    def _settle(self, answer: Any) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
