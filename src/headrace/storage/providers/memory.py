"""Chunks in memory: long-term storage of tests, of the simulator and of ``standalone --in-memory``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    NoSuchChunkError,
    StorageFullError,
    UnsupportedError,
)
from headrace.limits import INT64_MAX
from headrace.storage.providers.contract import (
    LIST_PAGE_OBJECTS_MAX,
    Buffer,
    ChunkObject,
    check_chunk_name,
)
from headrace.storage.providers.files.local_chunks import LocalChunks


class MemoryChunkProvider:
    """A dict of bytearrays, bounded in bytes. ``objects`` is open to tests that damage them."""

    def __init__(self, *, supports_append: bool = True, bytes_max: int = INT64_MAX) -> None:
        self.objects: dict[str, bytearray] = {}
        self._supports_append = supports_append
        self._bytes_max = bytes_max
        self._bytes = 0

    @property
    def supports_append(self) -> bool:
        return self._supports_append

    @property
    def local(self) -> LocalChunks | None:
        return None

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        check_chunk_name(name)
        if name in self.objects:
            raise ChunkExistsError(name)
        self._reserve(buffers)
        if beside is not None:
            beside()
        self.objects[name] = bytearray().join(buffers)

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        if not self._supports_append:
            raise UnsupportedError("this provider cannot append")
        content = self._get(name)
        if offset != len(content):
            raise ChunkOffsetError(name, offset, len(content))
        self._reserve(buffers)
        if beside is not None:
            beside()
        for buffer in buffers:
            content += buffer

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        content = self._get(name)
        if offset < 0 or length < 0 or offset + length > len(content):
            raise ChunkOffsetError(name, offset + length, len(content))
        return memoryview(bytes(content[offset : offset + length]))

    async def delete(self, name: str) -> None:
        content = self.objects.pop(name, None)
        if content is not None:
            self._bytes -= len(content)

    async def info(self, name: str) -> ChunkObject:
        return ChunkObject(name, len(self._get(name)))

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        found = [
            ChunkObject(name, len(data)) for name, data in self.objects.items() if name.startswith(prefix)
        ]
        for start in range(0, len(found), LIST_PAGE_OBJECTS_MAX):
            yield found[start : start + LIST_PAGE_OBJECTS_MAX]

    async def close(self) -> None:
        """Nothing to release."""

    def _get(self, name: str) -> bytearray:
        try:
            return self.objects[name]
        except KeyError:
            raise NoSuchChunkError(name) from None

    def _reserve(self, buffers: Sequence[Buffer]) -> None:
        size = sum(map(len, buffers))
        if self._bytes + size > self._bytes_max:
            raise StorageFullError(f"{self._bytes} of {self._bytes_max} bytes are in use")
        self._bytes += size
