"""Clients of whole segment stores over the wire, with every verb the protocol has for segments.

A client has one connection, to the process that it believes to be the owner, drops it at the first doubt or
after its timeout, and asks elsewhere. Answers must be those of a correct store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from headrace.errors import ConnectionLostError
from headrace.model.attributes import AttributeUpdate
from headrace.model.names import transaction_segment_name
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.failures import SimulationError
from headrace.testing.history import Outcome
from headrace.wire import commands as c
from tests.simulation.models.container_calls import (
    ReadAnswer,
    ReadSegmentCall,
    SegmentAnswer,
)
from tests.simulation.models.store_history import StoreHistory
from tests.simulation.workloads import questions
from tests.simulation.workloads.block_writer import writer_id_of
from tests.simulation.workloads.crowd_client import CrowdClient
from tests.simulation.workloads.draws import draw_key, draw_size, draw_updates
from tests.simulation.workloads.questions import MergeBatch
from tests.simulation.workloads.store_connection import TIMEOUT_S, StoreConnection
from tests.simulation.workloads.table_client import TableClient
from tests.simulation.workloads.wire_writer import WireWriter

_TAIL_S: Final = 0.2


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
        crowds: bool = False,
        must_answer_s: float | None = None,
    ) -> None:
        self.name = name
        self._connection = StoreConnection(
            name, addresses, history, entropy, cancels_per_thousand, must_answer_s
        )
        self._history = history
        self._entropy = entropy
        self._streams = list(streams)
        self._cancels_per_thousand = cancels_per_thousand
        self._transactions = 0
        self._writers: dict[str, WireWriter] = {}
        self._tables = [TableClient(table, self._connection.put, entropy) for table in tables]
        for table in tables:
            history.family_of(table).known[table] = False
        crowd = CrowdClient(name, self._connection, history, entropy.fork("crowd"), self._streams, tables)
        self._crowd = crowd if crowds else None

    async def work(self, steps: int, pause_s_max: float) -> None:
        """Take so many steps."""
        for _ in range(steps):
            try:
                await self._step()
            except ConnectionLostError:
                await self._connection.retry_elsewhere()
            if self._entropy.randbelow(2):
                await asyncio.sleep(self._entropy.random() * pause_s_max)
        self._connection.leave()

    async def _step(self) -> None:
        if self._crowd is not None and await self._crowd.step():
            return
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
                await self._writer_of(name).repeat_last(await self._connection.connect())
            case 21:
                self._connection.leave()
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
        operation = await self._connection.put(questions.create(name))
        return operation.outcome is Outcome.OK

    async def info(self, name: str) -> SegmentAnswer | None:
        """Ask for the facts."""
        operation = await self._connection.put(questions.info(name))
        facts: Any = operation.result
        return facts if operation.outcome is Outcome.OK else None

    async def read(self, name: str, offset: int, *, limit_s: float = TIMEOUT_S) -> int:
        """Read somewhere; return how many bytes there were."""
        length_max = 1 + self._entropy.randbelow(3000)
        lengths: list[int] = []

        def answer(reply: c.SegmentRead) -> ReadAnswer:
            if (reply.offset, reply.segment) != (offset, name):
                raise SimulationError(f"a read of {name} at {offset} was answered by {reply}")
            lengths.append(len(reply.data))
            return ReadAnswer(bytes(reply.data), reply.at_tail, reply.end_of_segment)

        await self._connection.ask(
            ReadSegmentCall(name, offset, length_max, wait=True),
            lambda i: c.ReadSegment(name, offset, length_max, "", i),
            c.SegmentRead,
            answer,
            limit_s=limit_s,
        )
        return lengths[0] if lengths else 0

    async def seal(self, name: str) -> None:
        """Seal."""
        await self._connection.put(questions.seal(name))

    async def truncate(self, name: str, offset: int) -> None:
        """Drop the head, or try to."""
        await self._connection.put(questions.truncate(name, offset))

    async def delete(self, name: str) -> None:
        """Delete."""
        await self._connection.put(questions.delete(name))

    async def get_attribute(self, name: str) -> None:
        """Ask for the value of an attribute."""
        await self._connection.put(questions.get_attribute(name, draw_key(self._entropy)))

    async def update_attribute(self, name: str) -> None:
        """Change an attribute if it has an expected value."""
        await self._connection.put(questions.draw_attribute_update(self._entropy, name))

    async def merge(self, target: str, source: str, updates: tuple[AttributeUpdate, ...] = ()) -> None:
        """Merge a source into a target."""
        await self._connection.put(questions.merge(target, source, updates))

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
        sizes = [draw_size(self._entropy) for _ in range(1 + draw(4))]
        writer = self._writer_of(name)
        try:
            taken = await writer.write(await self._connection.connect(), sizes)
        except ConnectionLostError:  # as writers do: at once, while what was sent may be in flight
            self._connection.leave()
            taken = await writer.write(await self._connection.connect(), [])
        if not taken:
            await self.create(name)

    async def _write_if(self, name: str) -> None:
        facts = await self.info(name)
        if facts is not None:
            offset = max(0, facts.length - (self._entropy.randbelow(3) == 0))
            size = 1 + self._entropy.randbelow(300)
            await self._writer_of(name).write_if(await self._connection.connect(), size, offset)

    async def _run_transaction(self, target: str) -> None:
        draw = self._entropy.randbelow
        sources: list[str] = []
        full: set[str] = set()
        for _ in range(1 + draw(3)):
            transient = draw(4) == 0
            if transient:
                self._transactions += 1
                source = await self._connection.create_transient(target, str(self._transactions))
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
                await writer.write(
                    await self._connection.connect(), [1 + draw(900) for _ in range(1 + draw(3))]
                )
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
            batch = MergeBatch(target, tuple(sources), frozenset(full))
            await self._connection.put_all([batch], patient=True)
        for source in sources:
            updates = draw_updates(self._entropy) if draw(3) == 0 else ()
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
