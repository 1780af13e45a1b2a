"""The base of wrappers of a chunk provider: all calls are passed on as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from headrace.storage.providers.contract import Buffer, ChunkObject, ChunkProvider
from headrace.storage.providers.files.local_chunks import LocalChunks


class ChunkProviderWrapper:
    """A provider that behaves as another one, as far as a subclass changes nothing."""

    def __init__(self, provider: ChunkProvider) -> None:
        self.provider = provider

    @property
    def supports_append(self) -> bool:
        return self.provider.supports_append

    @property
    def local(self) -> LocalChunks | None:
        return self.provider.local

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        await self.provider.create(name, buffers, beside)

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        await self.provider.append(name, offset, buffers, beside)

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        return await self.provider.read(name, offset, length)

    async def delete(self, name: str) -> None:
        await self.provider.delete(name)

    async def info(self, name: str) -> ChunkObject:
        return await self.provider.info(name)

    def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        return self.provider.list(prefix)

    async def close(self) -> None:
        await self.provider.close()
