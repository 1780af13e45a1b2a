"""A writer with event numbers over the wire: several blocks in flight, connections lost under them.

What was not acknowledged is sent again, under the same numbers, on the next connection, while the former one
may still deliver it. Now and then it sends again what was acknowledged long ago.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from headrace.errors import ConnectionLostError
from headrace.model import attributes as attr
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.failures import SimulationError
from headrace.testing.history import Operation
from headrace.testing.wire_client import WireClient
from headrace.wire.commands import (
    AppendBlockEnd,
    AppendSetup,
    ConditionalBlockEnd,
    ConditionalCheckFailed,
    DataAppended,
    GetSegmentAttribute,
    InvalidEventNumber,
    NoSuchSegment,
    SealSegment,
    SegmentAttribute,
    SegmentIsSealed,
    SegmentSealed,
    SetupAppend,
    WrongHost,
)
from headrace.wire.commands.kinds import Command
from tests.simulation.models.container_calls import (
    AppendDataCall,
    GetAttributeCall,
    LengthAnswer,
    SealSegmentCall,
    ValueAnswer,
)
from tests.simulation.models.container_history import CONFLICT, STALE_TARGET
from tests.simulation.models.store_history import StoreHistory
from tests.simulation.workloads.draws import Emptiness
from tests.simulation.workloads.store_connection import reason_of

_TIMEOUT_S: Final = 6.0


@dataclass(slots=True)
class _Block:
    number: int
    data: bytes
    events: int
    expected_offset: int = -1
    previous: int = 0
    """What the store knew of the writer when it was sent last."""


class WireWriter:
    """One writer of one segment; its connection is whichever it is given."""

    def __init__(
        self,
        name: str,
        segment: str,
        writer_id: bytes,
        history: StoreHistory,
        entropy: SeededEntropy,
        *,
        cancels_per_thousand: int = 0,
    ) -> None:
        self.name = name
        self.segment = segment
        self.appended = 0
        """Blocks that were acknowledged, and are not empty."""
        self._writer_id = writer_id
        self._history = history
        self._entropy = entropy
        self._emptiness = Emptiness(entropy)
        self._cancels_per_thousand = cancels_per_thousand
        self._wire: WireClient | None = None
        self._known = attr.ATTRIBUTE_NULL
        """Last number that the store has accepted on this connection, as far as the writer knows."""
        self._next = 1
        self._waiting: deque[_Block] = deque()
        """Sent or to be sent, and not acknowledged."""
        self._last: _Block | None = None
        self._sealed_behind: int | None = None
        """Number of the last block in the segment, as far as a refusal of the next one says."""
        self._in_flight: deque[tuple[int, int, Operation]] = deque()
        """Number, request id, operation."""

    async def write(self, wire: WireClient, sizes: list[int]) -> bool:
        """Send what waits and one block of each size; wait for the answers. False if the segment takes none.

        Raises:
            ConnectionLostError: the outcome of those that were sent last is unknown.
        """
        if self._wire is not wire and not await self._set_up(wire):
            return False
        for size in sizes:
            data = self._emptiness.apply(self._entropy.token(size))
            self._waiting.append(_Block(self._next, data, 1 + self._entropy.randbelow(5)))
            self._next += 1 + self._entropy.randbelow(3)
        return await self._send(wire, list(self._waiting))

    async def write_if(self, wire: WireClient, size: int, expected_offset: int) -> bool:
        """Send one conditional block, which is not sent again if its outcome stays unknown."""
        if self._waiting and not await self.write(wire, []):
            return False
        if self._wire is not wire and not await self._set_up(wire):
            return False
        data = self._emptiness.apply(self._entropy.token(size))
        block = _Block(self._next, data, 1, expected_offset)
        self._next += 1
        return await self._send(wire, [block])

    async def repeat_last(self, wire: WireClient) -> None:
        """Send again what was acknowledged before. The store has to notice."""
        if self._last is None or (self._wire is not wire and not await self._set_up(wire)):
            return
        self._wire = None
        setup = SetupAppend(wire.new_request_id(), self._writer_id, self.segment, "")
        reply = await wire.call(setup, _TIMEOUT_S)  # event numbers start over
        if isinstance(reply, AppendSetup) and reply.last_event_number >= self._last.number:
            self._known = self._last.previous
            await self._send(wire, [self._last])

    # ---- inside

    async def _set_up(self, wire: WireClient) -> bool:
        operation = self._history.start(self.name, GetAttributeCall(self.segment, self._writer_id))
        history = self._history.of(operation)
        setup = SetupAppend(wire.new_request_id(), self._writer_id, self.segment, "")
        reply = await wire.call(setup, _TIMEOUT_S)
        if isinstance(reply, WrongHost):
            history.refuse(operation, "ContainerOffline")
            raise ConnectionLostError("another process may know")
        if isinstance(reply, NoSuchSegment):
            history.refuse(operation, "NoSuchSegment")
            self._waiting.clear()
            self._last = None
            return False
        if not isinstance(reply, AppendSetup):
            raise SimulationError(f"{setup} was answered by {reply}")
        history.succeed(operation, ValueAnswer(reply.last_event_number))
        self._wire, self._known = wire, reply.last_event_number
        while self._waiting and self._waiting[0].number <= self._known:
            self._waiting.popleft()
        self._next = max(self._next, self._known + 1)
        return True

    async def _send(self, wire: WireClient, blocks: list[_Block]) -> bool:
        commands: list[Command] = []
        for block in blocks:
            request_id = wire.new_request_id()
            commands.append(self._command(block, request_id))
            self._in_flight.append((block.number, request_id, self._start(block)))
            self._known = block.number
        taken, limit_s = True, _TIMEOUT_S
        if self._entropy.randbelow(1000) < self._cancels_per_thousand:
            limit_s = self._entropy.random() * (0.001, 0.01, 0.1)[self._entropy.randbelow(3)]
        try:
            await wire.send(commands, _TIMEOUT_S)
            while self._in_flight:
                taken = self._take(await wire.receive(limit_s), {b.number: b for b in blocks}) and taken
            if self._sealed_behind is not None:
                await self._check_sealed(wire)
        except ConnectionLostError:
            for _, _, operation in self._in_flight:
                self._history.of(operation).lose(operation, "ConnectionLost")
            self._in_flight.clear()
            self._wire = None
            raise
        return taken

    async def _check_sealed(self, wire: WireClient) -> None:
        """A writer that is notified of a seal continues with the next event, where the segment must end."""
        known, self._sealed_behind = self._sealed_behind, None
        if not await self._is_sealed(wire):
            return  # deleted meanwhile, or another process owns it
        question = GetSegmentAttribute(wire.new_request_id(), self.segment, self._writer_id, "")
        reply = await wire.call(question, _TIMEOUT_S)
        if isinstance(reply, SegmentAttribute) and reply.value != known:
            raise SimulationError(
                f"{self.name} was notified that {self.segment} is sealed when it knew of {known}; "
                f"{reply.value} is in there"
            )

    async def _is_sealed(self, wire: WireClient) -> bool:
        """Say whether the segment was sealed: asked by a seal, which one made anew takes."""
        operation = self._history.start(self.name, SealSegmentCall(self.segment))
        history = self._history.of(operation)
        seal = SealSegment(wire.new_request_id(), self.segment, "")
        try:
            reply = await wire.call(seal, _TIMEOUT_S)
        except ConnectionLostError as error:
            history.fail(operation, error)
            raise
        if isinstance(reply, SegmentSealed):
            history.succeed(operation)
        else:
            history.refuse(operation, reason_of(reply, operation))
        return isinstance(reply, SegmentIsSealed)

    def _start(self, block: _Block) -> Operation:
        block.previous = self._known
        updates = (
            AttributeUpdate(self._writer_id, UpdateKind.REPLACE_IF_EQUALS, block.number, self._known),
            AttributeUpdate(attr.EVENT_COUNT, UpdateKind.ACCUMULATE, block.events),
        )
        call = AppendDataCall(self.segment, block.data, updates, block.expected_offset, self.name)
        return self._history.start(self.name, call)

    def _command(self, block: _Block, request_id: int) -> Command:
        data, number = memoryview(block.data), block.number
        if block.expected_offset >= 0:
            return ConditionalBlockEnd(self._writer_id, number, block.expected_offset, data, request_id)
        return AppendBlockEnd(self._writer_id, len(data), data, block.events, number, request_id)

    def _take(self, reply: Command, blocks: dict[int, _Block]) -> bool:
        """Note an answer; say whether it is a good one."""
        match reply:
            case DataAppended():
                self._on_appended(reply, blocks)
                return True
            case ConditionalCheckFailed():
                self._refuse(reply.request_id, "OffsetMismatch")
                self._wire = None  # the numbers behind it are not what this writer thinks
                return False
            case SegmentIsSealed() | NoSuchSegment():
                sealed = isinstance(reply, SegmentIsSealed)
                if sealed and self._sealed_behind is None:
                    self._sealed_behind = blocks[self._in_flight[0][0]].previous
                self._refuse(reply.request_id, "SegmentSealed" if sealed else STALE_TARGET)
                self._waiting.clear()
                self._wire = None
                return False
            case WrongHost():
                self._refuse(reply.request_id, "ContainerOffline")
                raise ConnectionLostError("another process may take it")
            case InvalidEventNumber():
                self._refuse(reply.request_id, CONFLICT)
                raise ConnectionLostError("the store does not want this connection any more")
            case _:
                raise SimulationError(f"a block was answered by {reply}")

    def _on_appended(self, reply: DataAppended, blocks: dict[int, _Block]) -> None:
        while self._in_flight:
            number, _, operation = self._in_flight.popleft()
            last = number == reply.event_number
            length = reply.current_segment_write_offset
            answer = LengthAnswer(length if last and length >= 0 else None)
            self._history.of(operation).succeed(operation, answer)
            self._last = blocks[number]
            self.appended += bool(blocks[number].data)
            while self._waiting and self._waiting[0].number <= number:
                self._waiting.popleft()
            if last:
                return
        raise SimulationError(f"number {reply.event_number} was not sent")

    def _refuse(self, request_id: int, reason: str) -> None:
        _, found, operation = self._in_flight.popleft()
        if found != request_id:
            raise SimulationError(f"request {request_id} was refused before {found} had an answer")
        self._history.of(operation).refuse(operation, reason)
