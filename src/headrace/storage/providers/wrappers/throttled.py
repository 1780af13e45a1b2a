"""Bounds what is asked of a store per second, for work that is not urgent and must not disturb what is.

Wrap the outermost provider: time in the queue is then not part of a call's timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from headrace.storage.providers.contract import Buffer, ChunkObject, ChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper


class ThrottledChunkProvider(ChunkProviderWrapper):
    """Every call waits until ``budget`` allows it; a page of a list is a call.

    It has no ``local``: what is read without waiting could not be throttled.
    """

    def __init__(self, provider: ChunkProvider, budget: RequestBudget) -> None:
        super().__init__(provider)
        self._budget = budget

    @property
    def local(self) -> None:
        return None

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        await self._wait(sum(map(len, buffers)))
        await self.provider.create(name, buffers, beside)

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        await self._wait(sum(map(len, buffers)))
        await self.provider.append(name, offset, buffers, beside)

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        await self._wait(length)
        return await self.provider.read(name, offset, length)

    async def delete(self, name: str) -> None:
        await self._wait(0)
        await self.provider.delete(name)

    async def info(self, name: str) -> ChunkObject:
        await self._wait(0)
        return await self.provider.info(name)

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        await self._wait(0)
        async for page in self.provider.list(prefix):
            yield page
            await self._wait(0)

    async def _wait(self, size: int) -> None:
        wait_s = self._budget.consume(size, asyncio.get_running_loop().time())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
