"""Gives every call of a chunk provider a timeout, and retries reads that fail.

So a reader of history does not notice that a store refused one request in a thousand.

Writes are not retried here. When the outcome of one is unknown, what the object holds is no proof: bytes
that a failed sync left in memory have the right length too, and a stalled write may end later and remove its
bytes. The chunk is not appended to again, and the caller, which names chunks, writes to a new one
(:mod:`headrace.storage.chunks.chunk_writer`). Deletions are retried by the garbage collector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from headrace.errors import StorageReadError, StorageWriteError
from headrace.storage.providers.contract import Buffer, ChunkObject, ChunkProvider
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper

T = TypeVar("T")

READ_SHARE: Final = 5
"""A reader waits for a read: its timeout is this part of that of other calls."""

PAUSES_S: Final = (0.02, 0.1)
"""Before the second attempt at a read and the third, which is the last."""


class RetryingChunkProvider(ChunkProviderWrapper):
    """``timeout_s``: a call that takes longer, its retries included, has failed; a write's outcome is
    unknown then.
    """

    def __init__(self, provider: ChunkProvider, timeout_s: float) -> None:
        super().__init__(provider)
        self._timeout_s = timeout_s

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        await self._in_time(self.provider.create(name, buffers, beside), StorageWriteError, "creating", name)

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        appending = self.provider.append(name, offset, buffers, beside)
        await self._in_time(appending, StorageWriteError, "appending to", name)

    async def delete(self, name: str) -> None:
        await self._in_time(self.provider.delete(name), StorageWriteError, "deleting", name)

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        reading = _repeat(partial(self.provider.read, name, offset, length))
        return await self._in_time(reading, StorageReadError, "reading", name)

    async def info(self, name: str) -> ChunkObject:
        looking = _repeat(partial(self.provider.info, name))
        return await self._in_time(looking, StorageReadError, "looking at", name)

    async def _in_time(
        self,
        call: Awaitable[T],
        late: type[StorageReadError | StorageWriteError],
        what: str,
        name: str,
    ) -> T:
        limit_s = self._timeout_s / READ_SHARE if late is StorageReadError else self._timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await call
        except TimeoutError:
            raise late(f"{what} {name} took more than {limit_s} s") from None


async def _repeat(call: Callable[[], Awaitable[T]]) -> T:
    for pause_s in PAUSES_S:
        try:
            return await call()
        except StorageReadError:
            await asyncio.sleep(pause_s)
    return await call()
