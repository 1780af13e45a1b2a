"""Bookies, connections and nodes of a simulated BookKeeper: only what a client can notice of them.

Requests are the real bytes. A connection takes a payload from its frame when it is delivered, not when it is
sent: a frame that is used again too early reaches a bookie changed, under its old digest.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from headrace.wal.bookkeeper.wire_format import (
    LAST_ENTRY,
    MASTER_KEY_BYTES,
    Answer,
    Code,
    Flag,
    Operation,
)

_WORD: Final = struct.Struct(">I")
_PLACE: Final = struct.Struct(">qq")
_HEAD_BYTES: Final = 8

Request = tuple[bytes, memoryview | bytes]
"""What stands in front of the payload, and the payload."""


class SimulatedBookie:
    """Has what it confirmed, unless it loses its disk. A fence that found nothing may not be durable yet."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.is_up = True
        self.is_paused = False
        self.starts = 1
        self.entries: dict[tuple[int, int], bytes] = {}
        self._random = random
        self._fenced: set[int] = set()
        self._fenced_durably: set[int] = set()

    @property
    def answers(self) -> bool:
        return self.is_up and not self.is_paused

    def restart(self, *, disk_lost: bool = False) -> None:
        """Come up again, with or without what was durable."""
        self.is_up, self.is_paused = True, False
        self.starts += 1
        if disk_lost:
            self.entries.clear()
            self._fenced_durably.clear()
        self._fenced = set(self._fenced_durably)

    def handle(self, request: bytes) -> Answer:
        (word,) = _WORD.unpack_from(request, 4)
        operation, flags = word >> 16 & 0xFF, word & 0xFFFF
        if operation == Operation.ADD:
            data = request[_HEAD_BYTES + MASTER_KEY_BYTES :]
            ledger, entry = _PLACE.unpack_from(data)
            if ledger in self._fenced and not flags & Flag.RECOVERY_ADD:
                return Answer(operation, Code.FENCED, ledger, entry, b"")
            self.entries[ledger, entry] = data
            return Answer(operation, Code.OK, ledger, entry, b"")
        ledger, entry = _PLACE.unpack_from(request, _HEAD_BYTES)
        found = self._find(ledger, entry)
        if flags & Flag.FENCE:
            self._fenced.add(ledger)
            if found is not None or self._random.random() < 0.5:
                self._fenced_durably.add(ledger)
        if found is None:
            return Answer(operation, Code.NO_ENTRY, ledger, entry, b"")
        return Answer(operation, Code.OK, ledger, entry, found)

    def _find(self, ledger: int, entry: int) -> bytes | None:
        if entry == LAST_ENTRY:
            entry = max((number for each, number in self.entries if each == ledger), default=LAST_ENTRY)
        return self.entries.get((ledger, entry))


class Connection:
    """One connection of a client to a bookie, in order in both directions."""

    def __init__(
        self, bookie: SimulatedBookie, on_answer: Callable[[Answer], None], on_lost: Callable[[], None]
    ) -> None:
        self.bookie = bookie
        self.is_open = True
        self.is_slow = False
        self.client_lives = True
        self.requests: deque[Request] = deque()
        self.answers: deque[Answer] = deque()
        self._on_answer = on_answer
        self._on_lost = on_lost

    def send(self, head: bytes, payload: memoryview | bytes = b"") -> None:
        if self.is_open:
            self.requests.append((head, payload))

    def deliver(self) -> None:
        head, payload = self.requests.popleft()
        self.answers.append(self.bookie.handle(head + bytes(payload)))

    def answer(self) -> None:
        answer = self.answers.popleft()
        if self.client_lives:
            self._on_answer(answer)

    def close(self) -> None:
        """Drop what is under way: both sides have seen the end."""
        self.is_open = False
        self.requests.clear()
        self.answers.clear()

    def cut(self) -> None:
        """Lose the connection, which the client notices."""
        if self.is_open:
            self.close()
            if self.client_lives:
                self._on_lost()


class SimulatedNodes:
    """Nodes with versions. A change may have no answer: it was made, or not."""

    def __init__(self, random: Random, lost_answers: float) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = {}
        self._random = random
        self._lost_answers = lost_answers

    def read(self, path: str) -> tuple[bytes, int]:
        return self.nodes[path]

    def write(self, path: str, data: bytes, version: int) -> bool | None:
        """Return whether it was changed; None: nobody knows."""
        is_lost = self._random.random() < self._lost_answers
        if is_lost and self._random.random() < 0.5:
            return None
        if self.nodes[path][1] != version:
            return None if is_lost else False
        self.nodes[path] = (data, version + 1)
        return None if is_lost else True
