"""A client's connection to the process that it believes to be the owner, and the history of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.errors import ConnectionLostError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.failures import SimulationError
from headrace.testing.history import Operation
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Command
from tests.simulation.models.container_calls import ContainerCall, CreateSegmentCall, LengthAnswer
from tests.simulation.models.store_history import StoreHistory
from tests.simulation.models.table_model import TableCall
from tests.simulation.workloads.block_writer import writer_id_of
from tests.simulation.workloads.questions import Answer, MergeBatch, Question

_PAUSE_S: Final = 0.1
TIMEOUT_S: Final = 6.0

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


class StoreConnection:
    """One at a time, to one of ``addresses``, opened by a request."""

    def __init__(
        self,
        name: str,
        addresses: Sequence[tuple[str, int]],
        history: StoreHistory,
        entropy: SeededEntropy,
        cancels_per_thousand: int,
        must_answer_s: float | None = None,
    ) -> None:
        self._name = name
        self._addresses = list(addresses)
        self._address = self._addresses[0]
        self._history = history
        self._entropy = entropy
        self._cancels_per_thousand = cancels_per_thousand
        self._must_answer_s = must_answer_s
        self._wire: WireClient | None = None
        self._transients: list[str] = []
        """Segments that live as long as this connection."""

    async def ask(
        self,
        call: ContainerCall,
        request: Callable[[int], Command],
        good: type[Command],
        answer: Answer | None = None,
        *,
        limit_s: float = TIMEOUT_S,
    ) -> bool:
        """Ask, and write down what came of it; say whether it happened for sure."""
        operation = await self.start(call, request, good, answer, limit_s=limit_s)
        return operation.outcome.value == "ok"

    async def start(
        self,
        call: ContainerCall | TableCall,
        request: Callable[[int], Command],
        good: type[Command],
        answer: Answer | None = None,
        *,
        limit_s: float = TIMEOUT_S,
    ) -> Operation:
        """Ask, and write down what came of it.

        Raises:
            ConnectionLostError: the outcome is unknown, or this store is not the owner.
        """
        return await self.put(Question(call, request, good, answer), limit_s=limit_s)

    async def put(self, question: Question, *, limit_s: float = TIMEOUT_S) -> Operation:
        """Ask one question: see :meth:`start`."""
        return (await self.put_all([question], limit_s=limit_s))[0]

    async def put_all(
        self,
        questions: Sequence[Question | MergeBatch],
        *,
        limit_s: float = TIMEOUT_S,
        patient: bool = False,
    ) -> list[Operation]:
        """Ask all questions in one piece, and write down what came of each, in any order of the replies.

        A ``patient`` client never gives up before ``limit_s``. Returns the operations: one of each question,
        several of each batch.

        Raises:
            ConnectionLostError: the outcome of one of them is unknown, or this store is not the owner.
        """
        wire = await self.connect()
        if not patient and self._entropy.randbelow(1000) < self._cancels_per_thousand:
            limit_s = self._entropy.random() * 0.01
        asked = [(question, self._start(question)) for question in questions]
        requests: list[Any] = [question.request(wire.new_request_id()) for question in questions]
        open_ = {request.request_id: found for request, found in zip(requests, asked, strict=True)}
        wrong_host = False
        try:
            await wire.send(requests, limit_s)
            while open_:
                reply: Any = await wire.receive(limit_s)
                found = open_.pop(reply.request_id, None)
                if found is None:
                    raise SimulationError(f"{reply} answers nothing that was asked")
                question, operations = found
                if isinstance(question, MergeBatch):
                    self._take_batch(question, operations, reply)
                else:
                    self._take(question, operations[0], reply)
                wrong_host = wrong_host or isinstance(reply, c.WrongHost)
        except ConnectionLostError as error:
            for _, operations in open_.values():
                for operation in operations:
                    self._history.of(operation).fail(operation, error)
            raise
        if wrong_host:
            raise ConnectionLostError("another process may know")
        return [operation for _, operations in asked for operation in operations]

    async def create_transient(self, parent: str, label: str) -> str:
        """Create a segment that lives as long as this connection; return its name, or nothing.

        Raises:
            ConnectionLostError: as :meth:`put`.
        """
        call = CreateSegmentCall(f"{parent}#transient.{self._name}.{label}", transient=True)
        writer_id = writer_id_of(self._name)
        names: list[str] = []

        def take_name(reply: c.SegmentCreated) -> None:
            names.append(reply.segment)

        operation = await self.start(
            call, lambda i: c.CreateTransientSegment(i, writer_id, parent, ""), c.SegmentCreated, take_name
        )
        if not names:
            return ""
        created: Any = CreateSegmentCall(names[0], transient=True)
        operation.call = created
        self._history.family_of(parent).known[names[0]] = True
        self._transients.append(names[0])
        return names[0]

    def _start(self, question: Question | MergeBatch) -> list[Operation]:
        calls = question.calls if isinstance(question, MergeBatch) else [question.call]
        return [self._history.start(self._name, call) for call in calls]

    def _take(self, question: Question, operation: Operation, reply: Any) -> None:
        history = self._history.of(operation)
        refused = isinstance(reply, c.SegmentAttributeUpdated) and not reply.success
        if isinstance(reply, question.good) and not refused:
            history.succeed(operation, None if question.answer is None else question.answer(reply))
        else:
            history.refuse(operation, "AttributeMismatch" if refused else reason_of(reply, operation))

    def _take_batch(self, batch: MergeBatch, operations: list[Operation], reply: Any) -> None:
        history = self._history.of(operations[0])
        if isinstance(reply, c.SegmentsBatchMerged):
            for operation, length in zip(operations, batch.lengths(reply), strict=True):
                history.succeed(operation, LengthAnswer(length))
        else:  # some of them may have happened
            reason_of(reply, operations[0])
            for operation in operations:
                history.lose(operation, type(reply).__name__)

    async def connect(self) -> WireClient:
        """Return the connection, a new one if there is none.

        Raises:
            ConnectionLostError: no process answers there.
        """
        if self._wire is None:
            self._wire = await WireClient.connect(*self._address, must_answer_s=self._must_answer_s)
        return self._wire

    def leave(self) -> None:
        """Drop the connection, and with it what lives as long as it does."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        for name in self._transients:
            self._history.on_transient_left(name)
        self._transients.clear()

    async def retry_elsewhere(self) -> None:
        """Try elsewhere, perhaps at once: the owner may have changed."""
        self.leave()
        self._address = self._addresses[self._entropy.randbelow(len(self._addresses))]
        if self._entropy.randbelow(2):
            await asyncio.sleep(_PAUSE_S * (0.5 + self._entropy.random()))


def reason_of(reply: Command, operation: Operation) -> str:
    """Return why a store refused. Raises SimulationError if that is no answer to such a call."""
    reason = _REFUSALS.get(type(reply))
    if reason is None:
        raise SimulationError(f"{operation} was answered by {reply}")
    return reason
