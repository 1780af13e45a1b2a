"""Many requests in one piece: a change asked for again before the first answer, and all segments at once.

A client retries after its timeout, or because the log is stalled; and a whole application that wakes up asks
for everything it has. Then the effect of the first request differs from what is durable, queues of requests
are full, and evicted segments are activated together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.model.names import transaction_segment_name
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.history import Outcome
from tests.simulation.models.store_history import StoreHistory
from tests.simulation.workloads import questions
from tests.simulation.workloads.block_writer import writer_id_of
from tests.simulation.workloads.draws import KEYS, draw_updates
from tests.simulation.workloads.questions import MergeBatch, Question
from tests.simulation.workloads.store_connection import StoreConnection
from tests.simulation.workloads.table_client import TableClient
from tests.simulation.workloads.wire_writer import WireWriter

_ODDS = 2
"""One step of so many is a crowd."""


class CrowdClient:
    """What one client asks for in crowds, on its connection; it has draws of its own."""

    def __init__(
        self,
        name: str,
        connection: StoreConnection,
        history: StoreHistory,
        entropy: SeededEntropy,
        streams: Sequence[str],
        tables: Sequence[str],
    ) -> None:
        self._name = name
        self._connection = connection
        self._history = history
        self._draw = entropy.randbelow
        self._entropy = entropy
        self._streams = streams
        self._transactions = 0
        fuller = entropy.fork("fuller")
        self._fuller = fuller.randbelow if fuller.randbelow(2) else None
        """In every other run sources have bytes, targets change in the same crowd, and tables are asked."""
        self._fuller_entropy = fuller
        together = entropy.fork("together")
        self._together = together.randbelow if together.randbelow(2) else None
        """In every other run several sources are merged in one request, scratch segments among them."""
        self._tables = [TableClient(table, connection.put, fuller) for table in tables]

    async def step(self) -> bool:
        """Ask for many things at once, perhaps; say whether.

        Raises:
            ConnectionLostError: the outcome of those that were not answered is unknown.
        """
        draw = self._draw
        if draw(_ODDS):
            return False
        if self._fuller is not None and self._fuller(4) == 0:
            await self._ask_table(self._tables[self._fuller(len(self._tables))], self._fuller)
            return True
        if self._together is not None and self._together(5) == 0:
            await self._merge_together(self._streams[self._together(len(self._streams))], self._together)
            return True
        name = self._streams[draw(len(self._streams))]
        match draw(8):
            case 0 | 1:
                await self._wake_all()
            case 2 | 3 | 4:
                await self._run_transaction(name)
            case 5 | 6:
                await self._repeat(self._change_of(name))
            case _:
                self._history.family_of(name).known[name] = False
                await self._repeat(questions.create(name))
        return True

    async def _ask_table(self, table: TableClient, draw: Callable[[int], int]) -> None:
        """Ask two or three times for a change that only one of them can have, beside others."""
        match draw(6):
            case 0:
                question = table.creation()
            case 1:
                question = table.deletion()
            case 2:
                question = table.draw_removal()
            case _:
                question = table.draw_put()
        between = [(table.draw_put, table.draw_removal, table.draw_look)[draw(3)]() for _ in range(draw(3))]
        await self._repeat(question, *between)

    def _change_of(self, name: str) -> Question:
        draw = self._draw
        match draw(6):
            case 0:
                return questions.delete(name)
            case 1:
                return questions.seal(name)
            case 2:
                return questions.truncate(name, draw(4000))
            case _:
                return questions.draw_attribute_update(self._entropy, name)

    async def _repeat(self, question: Question | MergeBatch, *between: Question | MergeBatch) -> None:
        """Ask the same thing two or three times, and other things between."""
        crowd = [question] * (2 + self._draw(2))
        for other in between:
            crowd.insert(self._draw(len(crowd) + 1), other)
        await self._connection.put_all(crowd)

    async def _wake_all(self) -> None:
        """Ask for something of every segment."""
        crowd = []
        for name in self._streams:
            match self._draw(5):
                case 0:
                    crowd.append(questions.get_attribute(name, KEYS[self._draw(len(KEYS))]))
                case 1:
                    writer_id = writer_id_of(
                        f"{self._name}o{self._streams.index(name)}"
                    )  # one that only opens
                    crowd.append(questions.set_up(name, writer_id))
                case 2 | 3:
                    crowd.append(questions.draw_attribute_update(self._entropy, name))
                case _:
                    crowd.append(questions.info(name))
        await self._connection.put_all(crowd)

    async def _run_transaction(self, target: str) -> None:
        """Merge or delete a source several times at once."""
        draw = self._draw
        source = self._new_source(target)
        created = await self._connection.put_all([questions.create(source)] * (1 + draw(2)))
        if all(operation.outcome is not Outcome.OK for operation in created):
            return
        is_full = self._fuller is not None and self._fuller(3) > 0 and await self._fill(source)
        crowd = [questions.merge(target, source)]
        if draw(3) == 0:
            crowd.append(questions.delete(source))
        if draw(4) == 0:
            crowd.append(questions.seal(source))
        if draw(3) == 0:
            crowd.append(questions.info(target))
        if self._fuller is not None:
            crowd += self._changes_around(target, source, is_full=is_full)
        await self._repeat(crowd.pop(draw(len(crowd))), *crowd)

    def _new_source(self, target: str) -> str:
        self._transactions += 1
        number = int.from_bytes(b"c" + self._name.encode()[-7:]) << 32 | self._transactions
        source = transaction_segment_name(target, number)
        self._history.family_of(source).known[source] = False
        return source

    async def _merge_together(self, target: str, draw: Callable[[int], int]) -> None:
        """Merge some sources in one request, several times at once, and each of them by itself besides."""
        sources: list[str] = []
        for _ in range(1 + draw(4)):
            if draw(3) == 0:
                self._transactions += 1
                source = await self._connection.create_transient(target, f"m{self._transactions}")
            else:
                source = self._new_source(target)
                if (await self._connection.put(questions.create(source))).outcome is not Outcome.OK:
                    continue
            if source:
                sources.append(source)
                if draw(3):
                    await self._fill(source)
        if not sources:
            return
        crowd: list[Question | MergeBatch] = []
        for source in sources:
            match draw(12):
                case 0:
                    crowd.append(questions.delete(source))
                case 1:
                    crowd.append(questions.seal(source))
                case 2:
                    crowd.append(questions.truncate(source, 1))
                case 3 | 4:
                    crowd.append(questions.merge(target, source))
                case _:
                    pass
        match draw(12):
            case 0:
                crowd.append(questions.seal(target))
            case 1:
                crowd.append(questions.delete(target))
            case 2 | 3:
                crowd.append(MergeBatch(target, tuple(reversed(sources))))
            case 4:
                crowd.append(MergeBatch(target, (sources[-1], sources[-1])))
            case 5:
                crowd.append(questions.info(target))
            case _:
                pass
        await self._repeat(MergeBatch(target, tuple(sources)), *crowd)

    async def _fill(self, source: str) -> bool:
        """Append a little to a source; say whether it has bytes for sure."""
        entropy = self._fuller_entropy
        name = f"{self._name}f{self._transactions}"
        writer = WireWriter(name, source, writer_id_of(name), self._history, entropy)
        sizes = [1 + entropy.randbelow(900) for _ in range(1 + entropy.randbelow(2))]
        await writer.write(await self._connection.connect(), sizes)
        return writer.appended > 0

    def _changes_around(self, target: str, source: str, *, is_full: bool) -> list[Question]:
        entropy = self._fuller_entropy
        draw = entropy.randbelow
        changes = []
        if draw(4) == 0:
            changes.append(questions.seal(target))
        if draw(8) == 0:
            changes.append(questions.delete(target))
        if draw(8) == 0:
            changes.append(questions.truncate(source, 1))
        if draw(4) == 0:
            changes.append(questions.draw_attribute_update(entropy, target))
        if is_full and draw(3) == 0:
            changes.append(questions.merge(target, source, draw_updates(entropy)))
        return changes
