"""Asks bookies, and waits for what they answer: for reads and recoveries, over one connection to each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Self

from headrace.errors import DataCorruptionError, UnreachableError
from headrace.model.endpoint import Endpoint
from headrace.wal.bookkeeper.bookie_connection import Connect, Connection
from headrace.wal.bookkeeper.entry_format import decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_recovery import UNKNOWN, Ask, Asked, Reply
from headrace.wal.bookkeeper.wire_format import (
    LAST_ENTRY,
    Answer,
    Operation,
    Verdict,
    encode_add,
    encode_read,
)

ANSWER_TIMEOUT_S: Final = 2.0

_Call = tuple[int, int, int]
"""Operation, ledger, entry."""


class BookieCalls:
    """Calls to bookies by their ids. One that was lost once, or was silent, is not asked again.

    Used as a context; its end closes all connections.
    """

    def __init__(
        self, endpoints: Mapping[str, Endpoint], connect: Connect, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._endpoints = endpoints
        self._connect_to = connect
        self._timeout_s = timeout_s
        self._connections: dict[str, asyncio.Task[Connection]] = {}
        self._waiting: dict[str, dict[_Call, asyncio.Future[Answer]]] = {}
        self._silent: set[str] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connecting in self._connections.values():
            connecting.cancel()
            if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
                connecting.result().abort()
        for waiting in self._waiting.values():
            for answered in waiting.values():
                answered.cancel()

    async def ask_all(self, ledger: int, key: bytes, ask: Ask) -> dict[str, Reply]:
        """Ask what a recovery wants to know; who does not answer in time is unknown."""
        replies = await asyncio.gather(*(self._ask(bookie, ledger, key, ask) for bookie in ask.bookies))
        return dict(zip(ask.bookies, replies, strict=True))

    async def read(self, bookie: str, ledger: int, entry: int) -> Reply:
        """Read one entry, without a fence."""
        answer = await self._call(bookie, (Operation.READ, ledger, entry), encode_read(ledger, entry))
        return _reply(answer, ledger, entry)

    async def _ask(self, bookie: str, ledger: int, key: bytes, ask: Ask) -> Reply:
        if ask.what is Asked.READ:
            call = (int(Operation.READ), ledger, ask.entry)
            return _reply(
                await self._call(bookie, call, encode_read(ledger, ask.entry, key)), ledger, ask.entry
            )
        head = encode_entry_head(ledger, ask.entry, ask.last_confirmed, ask.length, ask.payload)
        packet = encode_add(key, head, len(ask.payload), recovery=True)
        call = (int(Operation.ADD), ledger, ask.entry)
        return _reply(await self._call(bookie, call, packet, ask.payload), ledger, ask.entry)

    async def _call(self, bookie: str, call: _Call, packet: bytes, payload: bytes = b"") -> Answer | None:
        """Return the answer; None: there is none."""
        if bookie in self._silent:
            return None
        waiting = self._waiting.setdefault(bookie, {})
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting[call] = answered
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await asyncio.shield(self._connect(bookie))
                connection.send(packet, payload)
                return await answered
        except UnreachableError:
            return None
        except TimeoutError:
            self._silent.add(bookie)
            return None
        finally:
            waiting.pop(call, None)

    def _connect(self, bookie: str) -> asyncio.Task[Connection]:
        found = self._connections.get(bookie)
        if found is None:
            found = self._connections[bookie] = asyncio.ensure_future(self._open(bookie))
        return found

    async def _open(self, bookie: str) -> Connection:
        endpoint = self._endpoints.get(bookie)
        if endpoint is None:
            raise UnreachableError(f"nobody says where bookie {bookie} is")

        def on_answer(answer: Answer) -> None:
            call = (answer.operation, answer.ledger, answer.entry)
            answered = self._waiting.get(bookie, {}).get(call)
            if answered is not None and not answered.done():
                answered.set_result(answer)

        def on_lost() -> None:
            self._silent.add(bookie)
            lost = UnreachableError(f"the connection to bookie {bookie} was lost")
            for answered in self._waiting.get(bookie, {}).values():
                if not answered.done():
                    answered.set_exception(lost)

        return await self._connect_to(endpoint, on_answer, on_lost)


def _reply(answer: Answer | None, ledger: int, entry: int) -> Reply:
    if answer is None:
        return UNKNOWN
    if answer.verdict is not Verdict.OK or answer.operation == Operation.ADD:
        return Reply(answer.verdict)
    try:
        return Reply(Verdict.OK, decode_entry(answer.body, ledger, None if entry == LAST_ENTRY else entry))
    except DataCorruptionError:
        return UNKNOWN  # another bookie may have it whole
