"""Clients of whole segment stores over the wire, with every verb the protocol has for segments.

A client has one connection, to whoever it believes to be the owner, drops it at the first doubt or when it
loses patience, and asks elsewhere. Whatever it was told must be what a correct store would have said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.errors import ConnectionLostError
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.model.names import transaction_segment_name
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.container_calls import (
    ContainerAnswer,
    ContainerCall,
    CreateSegmentCall,
    DeleteSegmentCall,
    GetAttributeCall,
    LengthAnswer,
    MergeIfThereCall,
    MergeSegmentsCall,
    ReadAnswer,
    ReadSegmentCall,
    SealSegmentCall,
    SegmentAnswer,
    SegmentInfoCall,
    TruncateSegmentCall,
    UpdateAttributesCall,
    ValueAnswer,
)
from headrace.testing.failures import SimulationError
from headrace.testing.history import Operation
from headrace.testing.store_history import StoreHistory
from headrace.testing.table_model import TableAnswers, TableCall
from headrace.testing.wire_client import WireClient
from headrace.testing.workloads.container_clients import writer_id_of
from headrace.testing.workloads.table_client import TableClient
from headrace.testing.workloads.wire_writer import WireWriter
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Command

_KEYS: Final = tuple(bytes(15) + bytes([number]) for number in range(1, 4))
_PAUSE_S: Final = 0.1
_TIMEOUT_S: Final = 6.0
_TAIL_S: Final = 0.2

_REFUSALS: Final[dict[type[Command], str]] = {
    c.SegmentAlreadyExists: "SegmentExists",
    c.NoSuchSegment: "NoSuchSegment",
    c.SegmentIsSealed: "SegmentSealed",
    c.SegmentIsTruncated: "SegmentTruncated",
    c.ErrorMessage: "InvalidArgument",
    c.WrongHost: "ContainerOffline",
    c.TableKeyDoesNotExist: "TableKeyMissing",
    c.TableKeyBadVersion: "TableKeyVersion",
    c.TableSegmentNotEmpty: "TableNotEmpty",
}

Answer = Callable[[Any], ContainerAnswer | TableAnswers | None]


class StoreClient:
    """One client of whichever store at ``addresses`` answers."""

    def __init__(
        self,
        name: str,
        addresses: Sequence[tuple[str, int]],
        history: StoreHistory,
        entropy: SeededEntropy,
        *,
        streams: Sequence[str],
        tables: Sequence[str] = (),
        cancels_per_thousand: int = 0,
    ) -> None:
        self.name = name
        self._addresses = list(addresses)
        self._address = self._addresses[0]
        self._history = history
        self._entropy = entropy
        self._streams = list(streams)
        self._cancels_per_thousand = cancels_per_thousand
        self._wire: WireClient | None = None
        self._transients: list[str] = []
        """Those of this connection."""
        self._transactions = 0
        self._writers: dict[str, WireWriter] = {}
        self._tables = [TableClient(table, self._start, entropy) for table in tables]
        for table in tables:
            history.family_of(table).known[table] = False

    async def work(self, steps: int, pause_s_max: float) -> None:
        """Take so many steps."""
        for _ in range(steps):
            try:
                await self._step()
            except ConnectionLostError:
                await self._come_back()
            if self._entropy.randbelow(2):
                await asyncio.sleep(self._entropy.random() * pause_s_max)
        self._leave()

    async def _step(self) -> None:
        draw = self._entropy.randbelow
        name = self._streams[draw(len(self._streams))]
        match draw(30):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7:
                await self._write(name)
            case 8 | 9 | 10:
                await self._look_around(name)
            case 11 | 12:
                await self.update_attribute(name)
            case 13:
                await self.get_attribute(name)
            case 14 | 15 | 16 | 17:
                await self._run_transaction(name)
            case 18:
                if draw(8) == 0:
                    await self.seal(name)
            case 19:
                if draw(6) == 0:
                    await self.delete(name)
            case 20:
                await self._writer_of(name).repeat_last(await self._connected())
            case 21:
                self._leave()
            case 22 | 23 | 24 | 25:
                table = self._tables[draw(len(self._tables))]
                for _ in range(1 + draw(4)):
                    await table.step()
            case _:
                await self._write_if(name)

    # ---- verbs

    async def create(self, name: str) -> bool:
        """Create a segment."""
        self._history.family_of(name).known[name] = False
        return await self._ask(
            CreateSegmentCall(name), lambda i: c.CreateSegment(i, name, 0, 0, ""), c.SegmentCreated
        )

    async def create_transient(self, parent: str) -> str:
        """Create a segment that lives as long as this connection; return its name, or nothing."""
        self._transactions += 1
        call = CreateSegmentCall(f"{parent}#transient.{self.name}.{self._transactions}", transient=True)
        writer_id = writer_id_of(self.name)
        names: list[str] = []

        def told(reply: c.SegmentCreated) -> None:
            names.append(reply.segment)

        operation = await self._start(
            call, lambda i: c.CreateTransientSegment(i, writer_id, parent, ""), c.SegmentCreated, told
        )
        if not names:
            return ""
        created: Any = CreateSegmentCall(names[0], transient=True)
        operation.call = created
        self._history.family_of(parent).known[names[0]] = True
        self._transients.append(names[0])
        return names[0]

    async def info(self, name: str) -> SegmentAnswer | None:
        """Ask for the facts."""
        told: list[SegmentAnswer] = []

        def answer(reply: c.StreamSegmentInfo) -> SegmentAnswer:
            told.append(SegmentAnswer(reply.start_offset, reply.write_offset, reply.is_sealed))
            return told[0]

        await self._ask(
            SegmentInfoCall(name), lambda i: c.GetStreamSegmentInfo(i, name, ""), c.StreamSegmentInfo, answer
        )
        return told[0] if told else None

    async def read(self, name: str, offset: int, *, limit_s: float = _TIMEOUT_S) -> int:
        """Read somewhere; return how many bytes there were."""
        length_max = 1 + self._entropy.randbelow(3000)
        told: list[int] = []

        def answer(reply: c.SegmentRead) -> ReadAnswer:
            if (reply.offset, reply.segment) != (offset, name):
                raise SimulationError(f"a read of {name} at {offset} was answered by {reply}")
            told.append(len(reply.data))
            return ReadAnswer(bytes(reply.data), reply.at_tail, reply.end_of_segment)

        await self._ask(
            ReadSegmentCall(name, offset, length_max, wait=True),
            lambda i: c.ReadSegment(name, offset, length_max, "", i),
            c.SegmentRead,
            answer,
            limit_s=limit_s,
        )
        return told[0] if told else 0

    async def seal(self, name: str) -> None:
        """Seal."""
        await self._ask(SealSegmentCall(name), lambda i: c.SealSegment(i, name, ""), c.SegmentSealed)

    async def truncate(self, name: str, offset: int) -> None:
        """Drop the head, or try to."""
        await self._ask(
            TruncateSegmentCall(name, offset),
            lambda i: c.TruncateSegment(i, name, offset, ""),
            c.SegmentTruncated,
        )

    async def delete(self, name: str) -> None:
        """Delete."""
        await self._ask(DeleteSegmentCall(name), lambda i: c.DeleteSegment(i, name, ""), c.SegmentDeleted)

    async def get_attribute(self, name: str) -> None:
        """Ask for the value of an attribute."""
        key = (*_KEYS, attr.EVENT_COUNT)[self._entropy.randbelow(4)]
        await self._ask(
            GetAttributeCall(name, key),
            lambda i: c.GetSegmentAttribute(i, name, key, ""),
            c.SegmentAttribute,
            lambda reply: ValueAnswer(reply.value),
        )

    async def update_attribute(self, name: str) -> None:
        """Change an attribute if it has an expected value."""
        draw = self._entropy.randbelow
        key, value = _KEYS[draw(len(_KEYS))], ATTRIBUTE_NULL if draw(6) == 0 else draw(4)
        expected = ATTRIBUTE_NULL if draw(2) else draw(4)
        update = AttributeUpdate(key, UpdateKind.REPLACE_IF_EQUALS, value, expected)
        await self._ask(
            UpdateAttributesCall(name, (update,)),
            lambda i: c.UpdateSegmentAttribute(i, name, key, value, expected, ""),
            c.SegmentAttributeUpdated,
        )

    async def merge(self, target: str, source: str, updates: tuple[AttributeUpdate, ...] = ()) -> None:
        """Merge a source into a target. The merge of an empty one is not atomic with its updates."""
        await self._ask(
            MergeSegmentsCall(target, source, updates),
            lambda i: c.MergeSegments(i, target, source, "", list(updates)),
            c.SegmentsMerged,
            lambda reply: LengthAnswer(reply.new_target_write_offset),
        )

    async def merge_batch(self, target: str, sources: list[str], full: set[str]) -> None:
        """Merge several sources in one request; each merge is an operation of its own.

        Those that are ``full`` exist and have bytes: their merges must be told in order.
        """
        wire = await self._connected()
        operations = [self._history.start(self.name, MergeIfThereCall(target, name)) for name in sources]
        history = self._history.of(operations[0])
        reply = await wire.call(c.MergeSegmentsBatch(wire.new_request_id(), target, sources, ""), _TIMEOUT_S)
        if isinstance(reply, c.SegmentsBatchMerged):
            for operation, source, merged in zip(operations, sources, reply.merged, strict=True):
                if merged.source != source:
                    raise SimulationError(f"{reply} tells of other sources than {sources}")
                history.succeed(operation, LengthAnswer(merged.new_target_write_offset))
            lengths = [merged.new_target_write_offset for merged in reply.merged if merged.source in full]
            if lengths != sorted(set(lengths)):
                raise SimulationError(f"a batch was merged in another order: {reply}")
        else:  # some of them may have happened
            self._reason_of(reply, operations[0])
            for operation in operations:
                history.lose(operation, type(reply).__name__)

    # ---- several verbs

    async def _look_around(self, name: str) -> None:
        draw = self._entropy.randbelow
        facts = await self.info(name)
        if facts is None:
            await self.create(name)
            return
        length = facts.length - facts.start_offset
        match draw(8):
            case 0:
                await self.truncate(name, facts.start_offset + draw(length + 2))
            case 1:
                await self.read(name, facts.length, limit_s=_TAIL_S)
            case 2 | 3:
                if length:
                    await self.read(name, facts.start_offset + draw(length))
            case _:
                offset = facts.start_offset
                for _ in range(5):
                    offset += await self.read(name, offset) if offset < facts.length else 0

    async def _write(self, name: str) -> None:
        draw = self._entropy.randbelow
        sizes = [(1 + draw(60), 1 + draw(900), 1 + draw(3000))[draw(3)] for _ in range(1 + draw(4))]
        writer = self._writer_of(name)
        try:
            taken = await writer.write(await self._connected(), sizes)
        except ConnectionLostError:  # as writers do: at once, while what was sent may be on its way
            self._leave()
            taken = await writer.write(await self._connected(), [])
        if not taken:
            await self.create(name)

    async def _write_if(self, name: str) -> None:
        facts = await self.info(name)
        if facts is not None:
            offset = max(0, facts.length - (self._entropy.randbelow(3) == 0))
            size = 1 + self._entropy.randbelow(300)
            await self._writer_of(name).write_if(await self._connected(), size, offset)

    async def _run_transaction(self, target: str) -> None:
        draw = self._entropy.randbelow
        sources: list[str] = []
        full: set[str] = set()
        filled: set[str] = set()
        for _ in range(1 + draw(3)):
            transient = draw(4) == 0
            if transient:
                source = await self.create_transient(target)
            else:
                self._transactions += 1
                number = int.from_bytes(self.name.encode()[-8:]) << 32 | self._transactions
                source = transaction_segment_name(target, number)
                if not await self.create(source):
                    source = ""
            if not source:
                continue
            sources.append(source)
            writer = self._new_writer(f"{self.name}t{self._transactions}", source)
            if draw(5):
                await writer.write(await self._connected(), [1 + draw(900) for _ in range(1 + draw(3))])
            if writer.appended:
                filled.add(source)
            if writer.appended and not transient:
                full.add(source)
            if draw(8) == 0:
                full.discard(source)
                await self.delete(source)
            elif draw(8) == 0:
                await self.seal(source)
            elif draw(12) == 0:
                await self.truncate(source, 1)
        if len(sources) > 1 and draw(2):
            await self.merge_batch(target, sources, full)
        for source in sources:
            updates = self._updates() if source in filled and draw(3) == 0 else ()
            await self.merge(target, source, updates)

    # ---- inside

    def _writer_of(self, name: str) -> WireWriter:
        writer = self._writers.get(name)
        if writer is None:
            label = f"{self.name}w{self._streams.index(name)}"  # an id is one segment's on a connection
            writer = self._writers[name] = self._new_writer(label, name)
        return writer

    def _new_writer(self, name: str, segment: str) -> WireWriter:
        return WireWriter(
            name,
            segment,
            writer_id_of(name),
            self._history,
            self._entropy,
            cancels_per_thousand=8 * self._cancels_per_thousand,
        )

    def _updates(self) -> tuple[AttributeUpdate, ...]:
        draw = self._entropy.randbelow
        updates = []
        for _ in range(1 + draw(2)):
            kind = list(UpdateKind)[draw(len(UpdateKind))]
            value = ATTRIBUTE_NULL if kind is UpdateKind.REPLACE and draw(6) == 0 else draw(5)
            expected = ATTRIBUTE_NULL if draw(2) else draw(5)
            updates.append(AttributeUpdate(_KEYS[draw(len(_KEYS))], kind, value, expected))
        return tuple(updates)

    async def _ask(
        self,
        call: ContainerCall,
        request: Callable[[int], Command],
        good: type[Command],
        answer: Answer | None = None,
        *,
        limit_s: float = _TIMEOUT_S,
    ) -> bool:
        """Ask, and write down what came of it; say whether it happened for sure."""
        operation = await self._start(call, request, good, answer, limit_s=limit_s)
        return operation.outcome.value == "ok"

    async def _start(
        self,
        call: ContainerCall | TableCall,
        request: Callable[[int], Command],
        good: type[Command],
        answer: Answer | None = None,
        *,
        limit_s: float = _TIMEOUT_S,
    ) -> Operation:
        wire = await self._connected()
        if self._entropy.randbelow(1000) < self._cancels_per_thousand:
            limit_s = self._entropy.random() * 0.01
        operation = self._history.start(self.name, call)
        history = self._history.of(operation)
        try:
            reply = await wire.call(request(wire.new_request_id()), limit_s)
        except ConnectionLostError as error:
            history.fail(operation, error)
            raise
        refused = isinstance(reply, c.SegmentAttributeUpdated) and not reply.success
        if isinstance(reply, good) and not refused:
            history.succeed(operation, None if answer is None else answer(reply))
            return operation
        history.refuse(operation, "AttributeMismatch" if refused else self._reason_of(reply, operation))
        if isinstance(reply, c.WrongHost):
            raise ConnectionLostError("somebody else may know")
        return operation

    def _reason_of(self, reply: Command, operation: Operation) -> str:
        reason = _REFUSALS.get(type(reply))
        if reason is None:
            raise SimulationError(f"{operation} was answered by {reply}")
        return reason

    async def _connected(self) -> WireClient:
        if self._wire is None:
            self._wire = await WireClient.connect(*self._address)
        return self._wire

    def _leave(self) -> None:
        """Drop the connection, and with it what lives as long as it does."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        for name in self._transients:
            self._history.on_transient_left(name)
        self._transients.clear()

    async def _come_back(self) -> None:
        """Try elsewhere, perhaps at once: the owner may have changed."""
        self._leave()
        self._address = self._addresses[self._entropy.randbelow(len(self._addresses))]
        if self._entropy.randbelow(2):
            await asyncio.sleep(_PAUSE_S * (0.5 + self._entropy.random()))
