"""Clients of one segment over the wire protocol, which write down their requests and answers.

A writer sends one append at a time and repeats it, under the same event number, until it knows. Whatever
happens to servers and networks meanwhile, the history must be that of a correct segment
(``check_segments``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import ConnectionLostError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.history import History, Operation
from headrace.testing.segment_calls import (
    AppendCall,
    AppendResult,
    Call,
    InfoCall,
    InfoResult,
    ReadCall,
    ReadResult,
    SealCall,
    TruncateCall,
)
from headrace.testing.wire_client import WireClient
from headrace.wire.commands import (
    AppendBlockEnd,
    AppendSetup,
    CreateSegment,
    DataAppended,
    GetStreamSegmentInfo,
    InvalidEventNumber,
    NoSuchSegment,
    ReadSegment,
    SealSegment,
    SegmentAlreadyExists,
    SegmentCreated,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentRead,
    SegmentSealed,
    SegmentTruncated,
    SetupAppend,
    StreamSegmentInfo,
    TruncateSegment,
    WrongHost,
)
from headrace.wire.commands.kinds import Command

#: Pause before a client that was refused retries, in seconds.
_PAUSE_S: Final = 0.1

_READ_BYTES: Final = 1 << 16

_REFUSALS: Final[dict[type[Command], str]] = {
    SegmentIsSealed: "SegmentSealed",
    SegmentIsTruncated: "SegmentTruncated",
    NoSuchSegment: "NoSuchSegment",
    WrongHost: "WrongHost",
}


class SegmentClient:
    """One client of the segment's present owner, at one of ``addresses``.

    Its connection is opened when needed and dropped at the first doubt.
    """

    def __init__(
        self,
        name: str,
        segment: str,
        addresses: Sequence[tuple[str, int]],
        history: History,
        entropy: SeededEntropy,
    ) -> None:
        self.name = name
        self.segment = segment
        self._addresses = list(addresses)
        self._address = self._addresses[0]
        self._history = history
        self._entropy = entropy
        self._writer_id = entropy.uuid4_bytes()
        self._event_number = 0
        self._client: WireClient | None = None
        self._durable_number: int | None = None
        """Last event number the server has sent on this connection; None until it is asked."""

    # ---- what it can do

    async def create(self) -> None:
        """Make the segment; fine if it exists."""
        while True:
            try:
                client = await self._connected()
                reply = await client.call(CreateSegment(client.new_request_id(), self.segment, 0, 0, ""))
            except ConnectionLostError:
                await self._retry_elsewhere()
                continue
            if isinstance(reply, (SegmentCreated, SegmentAlreadyExists)):
                return
            await self._retry_elsewhere()

    async def append(self, data: bytes) -> bool:
        """Append once, however often it takes; return False if the segment is sealed."""
        self._event_number += 1
        while True:
            operation = self._start(AppendCall(self.segment, data, self.name, self._event_number))
            try:
                result = await self._append_once(operation, data)
            except ConnectionLostError as error:
                self._history.fail(operation, error)
                await self._retry_elsewhere()
                continue
            if result is not None:
                self._history.succeed(operation, result)
                return True
            if operation.reason == "SegmentSealed":
                return False
            await self._retry_elsewhere()

    async def read(self, offset: int) -> bytes:
        """Read what is there at ``offset``; empty if the answer was no, or never came."""
        operation = self._start(ReadCall(self.segment, offset))
        reply = await self._ask(operation, lambda i: ReadSegment(self.segment, offset, _READ_BYTES, "", i))
        if not isinstance(reply, SegmentRead):
            return b""
        assert reply.offset == offset
        result = ReadResult(bytes(reply.data), reply.end_of_segment)
        if not result.data and not result.end_of_segment:
            self._history.lose(operation)  # "nothing yet": true at some time, but says nothing
            return b""
        self._history.succeed(operation, result)
        return result.data

    async def info(self) -> InfoResult | None:
        """Ask for the facts; None if there was no answer."""
        operation = self._start(InfoCall(self.segment))
        reply = await self._ask(operation, lambda i: GetStreamSegmentInfo(i, self.segment, ""))
        if not isinstance(reply, StreamSegmentInfo):
            return None
        result = InfoResult(reply.write_offset, reply.start_offset, reply.is_sealed)
        self._history.succeed(operation, result)
        return result

    async def truncate(self, offset: int) -> None:
        """Try to drop the head."""
        operation = self._start(TruncateCall(self.segment, offset))
        reply = await self._ask(operation, lambda i: TruncateSegment(i, self.segment, offset, ""))
        if isinstance(reply, SegmentTruncated):
            self._history.succeed(operation)

    async def seal(self) -> bool:
        """Try to seal; say whether it is sealed for sure."""
        operation = self._start(SealCall(self.segment))
        reply = await self._ask(operation, lambda i: SealSegment(i, self.segment, ""))
        if isinstance(reply, SegmentSealed):
            self._history.succeed(operation)
        return isinstance(reply, (SegmentSealed, SegmentIsSealed))

    async def read_all(self) -> bytes:
        """Read from the start to the end, again and again until everything answers."""
        while (facts := await self.info()) is None:
            await self._retry_elsewhere()
        content = b""
        offset = facts.start_offset
        while offset < facts.length:
            data = await self.read(offset)
            content += data
            offset += len(data)
        return content

    def close(self) -> None:
        """Drop the connection."""
        self._durable_number = None
        if self._client is not None:
            self._client.close()
            self._client = None

    # ---- inside

    def _start(self, call: Call) -> Operation:
        return self._history.start(self.name, call)

    async def _connected(self) -> WireClient:
        if self._client is None:
            self._client = await WireClient.connect(*self._address)
        return self._client

    async def _append_once(self, operation: Operation, data: bytes) -> AppendResult | None:
        """Make one attempt; None if it was refused, and then the history knows why."""
        client = await self._connected()
        if self._durable_number is None:
            setup = SetupAppend(client.new_request_id(), self._writer_id, self.segment, "")
            reply = await client.call(setup)
            if not isinstance(reply, AppendSetup):
                self._refuse(operation, reply)
                return None
            self._durable_number = reply.last_event_number
        if self._durable_number >= self._event_number:
            return AppendResult()  # an earlier attempt had arrived
        number = self._event_number
        block = AppendBlockEnd(
            self._writer_id, len(data), memoryview(data), 1, number, client.new_request_id()
        )
        reply = await client.call(block)
        if isinstance(reply, InvalidEventNumber):
            # An earlier attempt, on a connection given up long ago, arrived in between. It may be durable.
            raise ConnectionLostError("the server does not want this connection any more")
        if not isinstance(reply, DataAppended):
            self._refuse(operation, reply)
            return None
        assert reply.event_number == number
        self._durable_number = number
        length = reply.current_segment_write_offset
        return AppendResult(length if length >= 0 else None)

    async def _ask(self, operation: Operation, request: Callable[[int], Command]) -> Command | None:
        """Send a request and return its reply, or note why there is none that counts."""
        try:
            client = await self._connected()
            reply = await client.call(request(client.new_request_id()))
        except ConnectionLostError as error:
            self._history.fail(operation, error)
            await self._retry_elsewhere()
            return None
        if type(reply) in _REFUSALS:
            self._refuse(operation, reply)
        if isinstance(reply, WrongHost):
            await self._retry_elsewhere()
        return reply

    def _refuse(self, operation: Operation, reply: Command) -> None:
        reason = _REFUSALS.get(type(reply))
        assert reason is not None, f"{operation} was answered by {reply}"
        self._history.refuse(operation, reason)

    async def _retry_elsewhere(self) -> None:
        """Try elsewhere, after a pause: the owner may have changed."""
        self.close()
        self._address = self._addresses[self._entropy.randbelow(len(self._addresses))]
        await asyncio.sleep(_PAUSE_S * (0.5 + self._entropy.random()))
