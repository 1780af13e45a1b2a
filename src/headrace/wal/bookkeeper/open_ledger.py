"""A ledger that is written: its connections, and the plan that decides. One connection to a bookie, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import UnreachableError
from headrace.wal.bookkeeper.bookie_connection import Connect, Connection
from headrace.wal.bookkeeper.entry_format import encode_entry_head
from headrace.wal.bookkeeper.ledger_nodes import Bookie
from headrace.wal.bookkeeper.ledger_writer import Add, LedgerWriter, Progress
from headrace.wal.bookkeeper.wire_format import Answer, Operation, encode_add

_LOOKS_IN_TIMEOUT: Final = 4


async def connect_bookies(bookies: Sequence[Bookie], connect: Connect) -> dict[str, LedgerConnection]:
    """Connect to bookies at once; return the connections to those that take one, by id."""
    connections = [LedgerConnection() for _ in bookies]
    results = await asyncio.gather(
        *(each.connect(bookie, connect) for each, bookie in zip(connections, bookies, strict=True)),
        return_exceptions=True,
    )
    found: dict[str, LedgerConnection] = {}
    for bookie, connection, error in zip(bookies, connections, results, strict=True):
        if error is None:
            found[bookie.id] = connection
        elif not isinstance(error, UnreachableError):
            raise error
    return found


class LedgerConnection:
    """A connection that is made before its ledger, which it then belongs to for life."""

    def __init__(self) -> None:
        self.is_lost = False
        self._connection: Connection | None = None
        self._on_answer: Callable[[Answer], None] | None = None
        self._on_lost: Callable[[], None] | None = None

    async def connect(self, bookie: Bookie, connect: Connect) -> None:
        """Raises UnreachableError."""
        self._connection = await connect(bookie.endpoint, self._answered, self._lost)

    def serve(self, on_answer: Callable[[Answer], None], on_lost: Callable[[], None]) -> None:
        """Belong to a ledger from now on."""
        self._on_answer, self._on_lost = on_answer, on_lost

    def send(self, head: bytes, payload: bytes) -> None:
        if self._connection is not None:
            self._connection.send(head, payload)

    def abort(self) -> None:
        self.is_lost = True
        if self._connection is not None:
            self._connection.abort()

    def _answered(self, answer: Answer) -> None:
        if self._on_answer is not None:
            self._on_answer(answer)

    def _lost(self) -> None:
        self.is_lost = True
        if self._on_lost is not None:
            self._on_lost()


class OpenLedger:
    """Sends the entries of a ledger and tells what follows from the answers.

    Args:
        writer: the plan.
        connections: to all of its bookies, of no other ledger.
        key: its master key.
        on_progress: called on the loop with what an answer, or its absence, changed.
        timeout_s: a bookie that leaves an entry without an answer for so long is given up.
    """

    def __init__(
        self,
        writer: LedgerWriter,
        connections: dict[str, LedgerConnection],
        key: bytes,
        on_progress: Callable[[LedgerWriter, Progress], None],
        *,
        timeout_s: float,
    ) -> None:
        self.writer = writer
        self._connections = connections
        self._key = key
        self._on_progress = on_progress
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._sent_at: dict[str, dict[int, float]] = {name: {} for name in connections}
        for name, connection in connections.items():
            connection.serve(self._answers_of(name), self._loss_of(name))
            if connection.is_lost:
                self._loop.call_soon(self._lose, name)
        self._watch: asyncio.TimerHandle | None = self._loop.call_later(
            timeout_s / _LOOKS_IN_TIMEOUT, self._look
        )

    def send(self, add: Add, payload: bytes) -> None:
        """Send an entry that the plan has numbered. ``payload`` does not change any more."""
        head = encode_entry_head(self.writer.ledger, add.entry, add.last_confirmed, add.length, payload)
        packet = encode_add(self._key, head, len(payload))
        now = self._loop.time()
        for name in add.bookies:
            self._sent_at[name][add.entry] = now
            self._connections[name].send(packet, payload)

    @property
    def is_drained(self) -> bool:
        """Whether no bookie has yet to answer."""
        return not any(self._sent_at.values())

    def close(self) -> None:
        """Give up what is in flight. Idempotent."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for name in self._connections:
            self._lose(name)

    def _answers_of(self, name: str) -> Callable[[Answer], None]:
        def on_answer(answer: Answer) -> None:
            if answer.operation == Operation.ADD and answer.ledger == self.writer.ledger:
                self._sent_at[name].pop(answer.entry, None)
                self._tell(self.writer.on_answer(name, answer.entry, answer.verdict))

        return on_answer

    def _loss_of(self, name: str) -> Callable[[], None]:
        return lambda: self._lose(name)

    def _lose(self, name: str) -> None:
        self._sent_at[name].clear()
        self._connections[name].abort()
        self._tell(self.writer.on_lost(name))

    def _tell(self, progress: Progress) -> None:
        for name in progress.given_up:
            self._sent_at[name].clear()
            self._connections[name].abort()
        if progress.confirmed or progress.released or progress.given_up:
            self._on_progress(self.writer, progress)
        if progress.confirmed:
            for name in self.writer.find_slow():
                self._lose(name)

    def _look(self) -> None:
        """Give up the bookies whose oldest entry has waited for too long."""
        late = self._loop.time() - self._timeout_s
        for name, sent_at in self._sent_at.items():
            if sent_at and next(iter(sent_at.values())) < late:
                self._lose(name)
        self._watch = self._loop.call_later(self._timeout_s / _LOOKS_IN_TIMEOUT, self._look)
