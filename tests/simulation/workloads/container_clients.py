"""Clients of a container in its own process, which use every verb it has and write down its answers.

They live and die with the owner they were made for. Whatever an owner does, the history of a period must be
that of a correct container (``ContainerHistory.end_period``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headrace.errors import (
    ContainerOfflineError,
    HeadraceError,
    NoSuchSegmentError,
    RequestError,
    StorageReadError,
    ThrottledError,
)
from headrace.model import attributes as attr
from headrace.model.attributes import AttributeUpdate
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.container import SegmentContainer
from tests.simulation.models.container_calls import (
    AppendDataCall,
    ContainerAnswer,
    ContainerCall,
    CreateSegmentCall,
    DeleteSegmentCall,
    GetAttributeCall,
    LengthAnswer,
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
from tests.simulation.models.container_history import ContainerHistory
from tests.simulation.models.observation import facts_of
from tests.simulation.workloads.block_writer import BlockWriter
from tests.simulation.workloads.draws import draw_key, draw_size, draw_updates

T = TypeVar("T")

_BLOCKS_MAX: Final = 4
_WAIT_S: Final = 0.3


class ContainerClient:
    """One client of one owner; ``known`` collects the names of all segments that were asked for."""

    def __init__(
        self,
        name: str,
        container: SegmentContainer,
        history: ContainerHistory,
        entropy: SeededEntropy,
        known: dict[str, bool],
        *,
        streams: int,
        cancels_per_thousand: int,
        chains: bool = False,
    ) -> None:
        """``chains``: whether sources have sources of their own."""
        self.name = name
        self._chains = chains
        self._container = container
        self._history = history
        self._entropy = entropy
        self._known = known
        self._streams = [f"s{number}" for number in range(streams)]
        self._cancels_per_thousand = cancels_per_thousand
        self._transactions = 0
        self._writers: dict[str, BlockWriter] = {}

    async def work(self, steps: int, pause_s_max: float) -> None:
        """Make so many calls, or until the owner has ended."""
        for _ in range(steps):
            try:
                await self._step()
            except ContainerOfflineError:
                return
            if self._entropy.randbelow(2):
                await asyncio.sleep(self._entropy.random() * pause_s_max)
        for writer in self._writers.values():
            await writer.settle()

    async def _step(self) -> None:
        draw = self._entropy.randbelow
        name = self._streams[draw(len(self._streams))]
        try:
            found = await self._container.resolve(name)
        except NoSuchSegmentError:
            await self.create(name)
            return
        except (StorageReadError, ThrottledError):
            return  # an evicted segment cannot be looked up just now; nothing was asked for yet
        if draw(60) == 0:
            await self.create(name)
            return
        match draw(24):
            case 0 | 1 | 2:
                await self.append(name)
            case 3 | 4 | 5 | 6 | 7:
                await self._write_blocks(name)
            case 8:
                await self.append(name, expected_offset=max(0, found.durable_length - draw(2)))
            case 9 | 10:
                await self.update(name)
            case 11:
                await self.get_attribute(name)
            case 12:
                await self.info(name)
            case 13:
                length = found.accepted_length
                await self.truncate(name, found.start_offset + draw(length - found.start_offset + 2))
            case 14 | 15 | 16:
                await self._run_transaction(name)
            case 17:
                if draw(6) == 0:
                    await self.seal(name)
            case 18:
                if found.sealed or draw(8) == 0:
                    await self.delete(name)
            case 19:
                await self.read(name, found.durable_length, wait=True)
            case 20 | 21:
                await self._read_through(name)
            case _:
                reach = found.durable_length - found.start_offset + 2
                await self.read(name, found.start_offset + draw(reach), wait=draw(4) == 0)

    # ---- verbs

    async def create(self, name: str, *, transient: bool = False) -> None:
        """Create a segment."""
        self._known[name] = transient
        attributes = {attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT} if transient else {}
        call = CreateSegmentCall(name, transient)
        await self._ask(call, lambda: self._container.create(name, attributes))

    async def append(self, name: str, *, expected_offset: int = -1) -> None:
        """Append with attribute updates, perhaps conditionally."""
        data = self._entropy.token(draw_size(self._entropy))
        updates = draw_updates(self._entropy) if self._entropy.randbelow(3) == 0 else ()
        call = AppendDataCall(name, data, updates, expected_offset)

        async def ask() -> LengthAnswer:
            state = await self._container.resolve(name)
            offset = await self._container.append(state, data, updates, expected_offset)
            return LengthAnswer(offset + len(data))

        await self._ask(call, ask, lambda answer: answer)

    async def update(self, name: str) -> None:
        """Update a few attributes by any verb."""
        updates = draw_updates(self._entropy)

        async def ask() -> None:
            await self._container.update_attributes(await self._container.resolve(name), updates)

        await self._ask(UpdateAttributesCall(name, updates), ask)

    async def get_attribute(self, name: str) -> None:
        """Ask for the value of an attribute."""
        key = draw_key(self._entropy)

        async def ask() -> ValueAnswer:
            return ValueAnswer(await self._container.read_attribute(name, key))

        await self._ask(GetAttributeCall(name, key), ask, lambda answer: answer)

    async def info(self, name: str) -> None:
        """Ask for the facts."""

        async def ask() -> SegmentAnswer:
            return await facts_of(self._container, name)

        await self._ask(SegmentInfoCall(name), ask, lambda answer: answer)

    async def seal(self, name: str) -> None:
        """Seal."""

        async def ask() -> int:
            return await self._container.seal(await self._container.resolve(name))

        await self._ask(SealSegmentCall(name), ask, LengthAnswer)

    async def truncate(self, name: str, offset: int) -> None:
        """Drop the head, or try to."""

        async def ask() -> None:
            await self._container.truncate(await self._container.resolve(name), offset)

        await self._ask(TruncateSegmentCall(name, offset), ask)

    async def delete(self, name: str) -> None:
        """Delete."""

        async def ask() -> None:
            await self._container.delete(await self._container.resolve(name))

        await self._ask(DeleteSegmentCall(name), ask)

    async def merge(self, target: str, source: str, updates: tuple[AttributeUpdate, ...] = ()) -> None:
        """Merge a source into a target."""

        async def ask() -> int:
            return await self._container.merge(await self._container.resolve(target), source, updates)

        await self._ask(MergeSegmentsCall(target, source, updates), ask, LengthAnswer)

    async def read(self, name: str, offset: int, *, wait: bool) -> bytes:
        """Read somewhere; a waiting read gives up after a while."""
        length_max = 1 + self._entropy.randbelow(3000)
        read: list[bytes] = []

        async def ask() -> ReadAnswer:
            state = await self._container.resolve(name)
            result = await self._container.read(state, offset, length_max, wait=wait)
            at_tail, end = result.at_tail, result.end_of_segment
            answer = ReadAnswer(result.to_bytes(), at_tail, end)
            read.append(answer.data)
            return answer

        limit_s = _WAIT_S if wait else None
        call = ReadSegmentCall(name, offset, length_max, wait)
        await self._ask(call, ask, lambda answer: answer, limit_s=limit_s)
        return read[0] if read else b""

    # ---- several verbs

    async def _read_through(self, name: str) -> None:
        try:
            found = await self._container.resolve(name)
        except (NoSuchSegmentError, ThrottledError):
            return
        offset = found.start_offset
        for _ in range(6):
            data = await self.read(name, offset, wait=False)
            if not data:
                return
            offset += len(data)

    async def _run_transaction(self, target: str) -> None:
        draw = self._entropy.randbelow
        sources: list[str] = []
        for _ in range(1 + (draw(3) == 0)):
            self._transactions += 1
            source = f"{target}#transaction.{self.name}.{self._transactions}"
            await self.create(source, transient=draw(4) == 0)
            for _ in range(draw(4)):
                await self.append(source)
            if self._chains:
                await self._merge_chain(source, 3)
            if draw(6) == 0:
                await self.delete(source)
                return
            if draw(4) == 0:
                await self.seal(source)
            if draw(12) == 0:
                await self.truncate(source, 1)
            updates = draw_updates(self._entropy) if draw(4) == 0 else ()
            if draw(3) == 0:
                await asyncio.sleep(self._entropy.random() * 0.2)
            await self.merge(target, source, updates)
            sources.append(source)
        if draw(4) == 0:
            await self.merge(target, sources[0])

    async def _merge_chain(self, target: str, depth_max: int) -> None:
        """Merge into a source what has sources itself, down to ``depth_max`` of them."""
        draw = self._entropy.randbelow
        for number in range(draw(3)):
            source = f"{target}.{number}"
            await self.create(source)
            for _ in range(draw(3)):
                await self.append(source)
            if depth_max > 1:
                await self._merge_chain(source, depth_max - 1)
            if draw(8) == 0:
                await self.delete(source)
            await self.merge(target, source)
        if draw(3) == 0:
            await self._read_through(target)

    async def _write_blocks(self, name: str) -> None:
        writer = self._writers.get(name)
        if writer is None:
            writer = BlockWriter(f"{self.name}-{name}", name, self._container, self._history, self._entropy)
            self._writers[name] = writer
        await writer.write(1 + self._entropy.randbelow(_BLOCKS_MAX))

    # ---- inside

    async def _ask(
        self,
        call: ContainerCall,
        ask: Callable[[], Awaitable[T]],
        answer: Callable[[T], ContainerAnswer] | None = None,
        *,
        limit_s: float | None = None,
    ) -> bool:
        """Call, and write down what came of it; say whether it happened for sure."""
        if limit_s is None and self._entropy.randbelow(1000) < self._cancels_per_thousand:
            limit_s = self._entropy.random() * 0.01
        operation = self._history.start(self.name, call)
        try:
            async with asyncio.timeout(limit_s):
                found = await ask()
        except TimeoutError:
            self._history.lose(operation, "gave up")
            return False
        except HeadraceError as error:
            self._history.fail(operation, error)
            if isinstance(error, RequestError):
                return False
            if not self._container.online:
                raise ContainerOfflineError("ended") from None
            return False
        self._history.succeed(operation, None if answer is None else answer(found))
        return True
