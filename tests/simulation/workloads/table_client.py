"""A client of one table segment over the wire: puts, removals and looks, with and without conditions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.history import Operation, Outcome
from headrace.wire import commands as c
from tests.simulation.models.table_model import (
    CreateTableCall,
    DeleteTableCall,
    EntriesAnswer,
    GetEntriesCall,
    RemoveKeysCall,
    UpdateEntriesCall,
    VersionsAnswer,
)
from tests.simulation.workloads.questions import Question

_KEYS: Final = tuple(b"key%d" % number for number in range(5))


class TableClient:
    """What one client does with one table."""

    def __init__(
        self, name: str, put: Callable[[Question], Awaitable[Operation]], entropy: SeededEntropy
    ) -> None:
        """``put`` asks a question, and writes down what comes of it."""
        self._name = name
        self._put = put
        self._entropy = entropy
        self._versions: dict[bytes, int] = {}
        """What this client has last heard of."""

    async def step(self) -> None:
        """Do one thing."""
        match self._entropy.randbelow(16):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                await self.put()
            case 7 | 8 | 9:
                await self.remove()
            case 10:
                await self._put(self.deletion())
            case _:
                await self.get()

    async def create(self) -> None:
        """Make the table."""
        await self._put(self.creation())

    async def put(self) -> None:
        """Put some values."""
        done = await self._put(self.draw_put())
        if done.outcome is Outcome.REFUSED and done.reason == "NoSuchSegment":
            await self.create()

    async def remove(self) -> None:
        """Remove some keys."""
        await self._put(self.draw_removal())

    async def get(self) -> None:
        """Look some keys up."""
        await self._put(self.draw_look())

    # ---- questions

    def draw_put(self) -> Question:
        """Return one that puts some values."""
        draw = self._entropy.randbelow
        entries = tuple(
            (key, self._entropy.token(1 + draw((20, 400)[draw(2)])), self._condition(key, NOT_EXISTS))
            for key in self._keys()
        )

        def answer(reply: c.TableEntriesUpdated) -> VersionsAnswer:
            for (key, _, _), version in zip(entries, reply.updated_versions, strict=True):
                self._versions[key] = version
            return VersionsAnswer(tuple(reply.updated_versions))

        asked = [TableEntry(key, value, version) for key, value, version in entries]
        return Question(
            UpdateEntriesCall(self._name, entries),
            lambda i: c.UpdateTableEntries(i, self._name, "", asked),
            c.TableEntriesUpdated,
            answer,
        )

    def draw_removal(self) -> Question:
        """Return one that removes some keys."""
        keys = tuple((key, self._condition(key, NO_VERSION)) for key in self._keys())
        asked = [TableKey(key, version) for key, version in keys]
        return Question(
            RemoveKeysCall(self._name, keys),
            lambda i: c.RemoveTableKeys(i, self._name, "", asked),
            c.TableKeysRemoved,
        )

    def draw_look(self) -> Question:
        """Return one that looks some keys up."""
        keys = tuple(self._keys())

        def answer(reply: c.TableRead) -> EntriesAnswer:
            found = [
                None if entry.version == NOT_EXISTS else (bytes(entry.value), entry.version)
                for entry in reply.entries
            ]
            for key, seen in zip(keys, found, strict=True):
                if seen is not None:
                    self._versions[key] = seen[1]
            return EntriesAnswer(tuple(found))

        asked = [TableKey(key) for key in keys]
        return Question(
            GetEntriesCall(self._name, keys),
            lambda i: c.ReadTable(i, self._name, "", asked),
            c.TableRead,
            answer,
        )

    def deletion(self) -> Question:
        """Return one that deletes the table if it is empty."""
        return Question(
            DeleteTableCall(self._name),
            lambda i: c.DeleteTableSegment(i, self._name, True, ""),
            c.SegmentDeleted,
        )

    def creation(self) -> Question:
        """Return one that makes the table."""
        return Question(
            CreateTableCall(self._name), lambda i: c.CreateTableSegment(i, self._name, ""), c.SegmentCreated
        )

    def _keys(self) -> list[bytes]:
        draw = self._entropy.randbelow
        chosen = {_KEYS[draw(len(_KEYS))]: None for _ in range(1 + draw(3))}
        return list(chosen)

    def _condition(self, key: bytes, default: int) -> int:
        match self._entropy.randbelow(4):
            case 0:
                return NO_VERSION
            case 1:
                return default
            case _:
                return self._versions.get(key, default)
