"""Counts the calls of a chunk provider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.runtime.open_file import OpenFile
from headrace.storage.providers.contract import Buffer, ChunkProvider
from headrace.storage.providers.local_chunks import LocalChunks
from headrace.storage.providers.wrapper import ChunkProviderWrapper


@dataclass(slots=True)
class ProviderStatistics:
    """Counts since creation, of what succeeded."""

    objects_created: int = 0
    objects_deleted: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    reads: int = 0
    reads_at_once: int = 0
    """Reads answered on the loop, without a thread."""


class MeasuredChunkProvider(ChunkProviderWrapper):
    def __init__(self, provider: ChunkProvider) -> None:
        super().__init__(provider)
        self._statistics = ProviderStatistics()
        local = provider.local
        self._local = None if local is None else _MeasuredLocalChunks(local, self._statistics)

    @property
    def local(self) -> LocalChunks | None:
        return self._local

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        await self.provider.create(name, buffers, beside)
        self._statistics.objects_created += 1
        self._statistics.bytes_written += sum(map(len, buffers))

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        await self.provider.append(name, offset, buffers, beside)
        self._statistics.bytes_written += sum(map(len, buffers))

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        data = await self.provider.read(name, offset, length)
        self._statistics.reads += 1
        self._statistics.bytes_read += len(data)
        return data

    async def delete(self, name: str) -> None:
        await self.provider.delete(name)
        self._statistics.objects_deleted += 1

    def statistics(self) -> ProviderStatistics:
        return replace(self._statistics)


class _MeasuredLocalChunks:
    def __init__(self, local: LocalChunks, statistics: ProviderStatistics) -> None:
        self._read_at_once = local.read_at_once
        self._statistics = statistics
        self.open_file: Callable[[str], OpenFile | None] = local.open_file
        self.reopen: Callable[[str], None] = local.reopen

    def read_at_once(self, name: str, offset: int, buffer: memoryview) -> int:
        done = self._read_at_once(name, offset, buffer)
        self._statistics.reads_at_once += done == len(buffer)
        self._statistics.bytes_read += done
        return done
