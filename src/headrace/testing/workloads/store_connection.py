"""A client's connection to whoever it believes to be the owner, and the history of what it asks there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.errors import ConnectionLostError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.container_calls import ContainerAnswer, ContainerCall
from headrace.testing.failures import SimulationError
from headrace.testing.history import Operation
from headrace.testing.store_history import StoreHistory
from headrace.testing.table_model import TableAnswers, TableCall
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Command

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

Answer = Callable[[Any], ContainerAnswer | TableAnswers | None]


class StoreConnection:
    """One at a time, to one of ``addresses``, opened when somebody asks."""

    def __init__(
        self,
        name: str,
        addresses: Sequence[tuple[str, int]],
        history: StoreHistory,
        entropy: SeededEntropy,
        cancels_per_thousand: int,
    ) -> None:
        self._name = name
        self._addresses = list(addresses)
        self._address = self._addresses[0]
        self._history = history
        self._entropy = entropy
        self._cancels_per_thousand = cancels_per_thousand
        self._wire: WireClient | None = None
        self.transients: list[str] = []
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
            ConnectionLostError: nobody knows whether it happened, or this store is not the owner.
        """
        wire = await self.connect()
        if self._entropy.randbelow(1000) < self._cancels_per_thousand:
            limit_s = self._entropy.random() * 0.01
        operation = self._history.start(self._name, call)
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
        history.refuse(operation, "AttributeMismatch" if refused else reason_of(reply, operation))
        if isinstance(reply, c.WrongHost):
            raise ConnectionLostError("somebody else may know")
        return operation

    async def connect(self) -> WireClient:
        """Return the connection, a new one if there is none.

        Raises:
            ConnectionLostError: nobody answers there.
        """
        if self._wire is None:
            self._wire = await WireClient.connect(*self._address)
        return self._wire

    def leave(self) -> None:
        """Drop the connection, and with it what lives as long as it does."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        for name in self.transients:
            self._history.on_transient_left(name)
        self.transients.clear()

    async def come_back(self) -> None:
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
