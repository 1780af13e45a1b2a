"""Clients of a container that need more attributes than fit into its memory."""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.errors import NoSuchSegmentError, OverloadError, StorageReadError
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from tests.simulation.models.container_calls import (
    AppendDataCall,
    GetAttributeCall,
    LengthAnswer,
    UpdateAttributesCall,
    ValueAnswer,
)
from tests.simulation.workloads.block_writer import BlockWriter
from tests.simulation.workloads.container_clients import ContainerClient

_COUNTERS: Final = tuple(b"counter" + bytes(8) + bytes((number,)) for number in range(6))
_REGISTERS: Final = tuple(b"register" + bytes(7) + bytes((number,)) for number in range(8))
_SCRATCH: Final = tuple(b"\xff scratch" + bytes(6) + bytes((number,)) for number in range(12))


class AttributeClient(ContainerClient):
    """Adds to counters, compares and sets registers, sets and removes, and has a new writer again and again.

    Now and then it does what other clients do: segments are sealed, merged, deleted and created again.
    """

    _written = 0

    async def _step(self) -> None:
        draw = self._entropy.randbelow
        name = self._streams[draw(len(self._streams))]
        try:
            await self._container.resolve(name)
        except NoSuchSegmentError:
            await self.create(name)
            return
        except (StorageReadError, OverloadError):
            return
        match draw(12):
            case 0 | 1:
                await self._count(name)
            case 2:
                await self._count_at_once(name)
            case 3 | 4 | 5:
                await self._compare_and_set(name)
            case 6 | 7:
                await self._set_or_remove(name)
            case 8 | 9:
                await self._write_as_a_new_writer(name)
            case 10:
                await self._get(name, (*_COUNTERS, *_REGISTERS, *_SCRATCH)[draw(26)])
            case _:
                await super()._step()

    async def _count(self, name: str) -> None:
        draw = self._entropy.randbelow
        updates = tuple(
            AttributeUpdate(_COUNTERS[draw(len(_COUNTERS))], UpdateKind.ACCUMULATE, 1 + draw(9))
            for _ in range(1 + draw(3))
        )
        if draw(3):
            await self._change(name, updates)
            return
        data = self._entropy.token(1 + draw(100))

        async def ask() -> LengthAnswer:
            state = await self._container.resolve(name)
            return LengthAnswer(await self._container.append(state, data, updates) + len(data))

        await self._ask(AppendDataCall(name, data, updates), ask, lambda answer: answer)

    async def _count_at_once(self, name: str) -> None:
        """Make several such changes in flight together, for which the same values have to be loaded."""
        counts = [self._count(name) for _ in range(2 + self._entropy.randbelow(4))]
        for outcome in await asyncio.gather(*counts, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _compare_and_set(self, name: str) -> None:
        key = _REGISTERS[self._entropy.randbelow(len(_REGISTERS))]
        value = await self._get(name, key)
        if value is None:
            return
        if self._entropy.randbelow(3) == 0:
            await asyncio.sleep(self._entropy.random() * 0.1)
        new = self._entropy.randbelow(1 << 30)
        if self._entropy.randbelow(5) == 0:
            new = ATTRIBUTE_NULL
        await self._change(name, (AttributeUpdate(key, UpdateKind.REPLACE_IF_EQUALS, new, value),))

    async def _set_or_remove(self, name: str) -> None:
        draw = self._entropy.randbelow
        removes = draw(2) == 0
        updates = tuple(
            AttributeUpdate(
                _SCRATCH[draw(len(_SCRATCH))],
                UpdateKind.REPLACE,
                ATTRIBUTE_NULL if removes else draw(1 << 30),
            )
            for _ in range(1 + draw(6))
        )
        await self._change(name, updates)

    async def _write_as_a_new_writer(self, name: str) -> None:
        """Append once or twice, as a writer that comes back at most once."""
        self._written += 1
        writer = BlockWriter(
            f"{self._written}-{self.name[1:]}", name, self._container, self._history, self._entropy
        )
        for _ in range(1 + self._entropy.randbelow(2)):
            await writer.write(1)
            await writer.settle()
            writer.close()

    async def _change(self, name: str, updates: tuple[AttributeUpdate, ...]) -> None:
        async def ask() -> None:
            await self._container.update_attributes(await self._container.resolve(name), updates)

        await self._ask(UpdateAttributesCall(name, updates), ask)

    async def _get(self, name: str, key: bytes) -> int | None:
        """Return the value of an attribute, or None if it is not known now."""
        found: list[int] = []

        async def ask() -> ValueAnswer:
            found.append(await self._container.read_attribute(name, key))
            return ValueAnswer(found[0])

        await self._ask(GetAttributeCall(name, key), ask, lambda answer: answer)
        return found[0] if found else None
