"""Chunk objects of a store behind a provider, for looking only, from code that does not wait."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from headrace.errors import (
    ChecksumMismatchError,
    ChunkOffsetError,
    DataCorruptionError,
    NoSuchChunkError,
    StorageReadError,
)
from headrace.limits import MIB
from headrace.storage.chunks.checksums import verify_blocks
from headrace.storage.chunks.read_plan import find_checksums
from headrace.storage.chunks.segment_layout import Chunk
from headrace.storage.inspect import GetRow, Verified
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.store_identity import find_identity

T = TypeVar("T")

_STEP_BYTES: Final = 4 * MIB
_FIRST_BLOCKS: Final = 4
_STEPS_AT_ONCE: Final = 4
"""Requests for one chunk in flight together: they hide the latency of a far store, for 16 MiB of memory."""
_CHUNKS_AT_ONCE: Final = 8
"""Chunks that are verified side by side: they hide the latency of a far store, for 32 MiB of memory."""
_CHUNKS_PER_ROUND: Final = 256
"""Chunks given to one run of the loop: each is a task, and what was found is told after every round."""


class Run(Protocol):
    """Runs one coroutine to its end, always on the same loop: ``asyncio.Runner.run``."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T: ...


class StoreObjects:
    """The objects of ``provider``, which is called on the loop of ``run`` only.

    ``on_progress`` is called with the number of objects listed so far, and of bytes read.
    """

    def __init__(
        self,
        root: str,
        provider: ChunkProvider,
        run: Run,
        on_progress: Callable[[int, int], None] = lambda _objects, _bytes: None,
    ) -> None:
        self.root = root.rstrip("/")
        self._provider = provider
        self._run = run
        self._on_progress = on_progress
        self._listed: dict[str, int] = {}
        self._is_listed = False
        self._bytes_read = 0

    def path(self, chunk: str) -> str:
        return f"{self.root}/{chunk}"

    def find_identity(self) -> str | None:
        return self._run(find_identity(self._provider))

    def look_ahead(self) -> None:
        self._run(self._list())

    async def _list(self) -> None:
        listed: dict[str, int] = {}
        async for page in self._provider.list():
            listed.update((found.name, found.length) for found in page)
            self._on_progress(len(listed), self._bytes_read)
        self._listed, self._is_listed = listed, True

    def find_length(self, chunk: str, at_least: int = 0) -> int | None:
        """Ask for what was not listed, or was shorter: the listing may be older than a row."""
        found = self._listed.get(chunk)
        if found is not None and found >= at_least:
            return found
        try:
            return self._run(self._provider.info(chunk)).length
        except NoSuchChunkError:
            return None
        except StorageReadError as error:
            raise self._unanswered(error, chunk) from error

    def verify(self, chunk: Chunk, get: GetRow) -> None:
        for _ in self.pieces(chunk, get):
            pass

    def verify_all(self, chunks: Iterable[Chunk], get: GetRow) -> Iterator[Verified]:
        """Verify several at once."""
        rest = iter(chunks)
        while together := list(islice(rest, _CHUNKS_PER_ROUND)):
            yield from zip(together, self._run(self._verify_some(together, get)), strict=True)

    async def _verify_some(self, chunks: list[Chunk], get: GetRow) -> list[Exception | None]:
        gate = asyncio.Semaphore(_CHUNKS_AT_ONCE)

        async def verify(chunk: Chunk) -> Exception | None:
            async with gate:
                try:
                    for offset, length in _steps(chunk, 0):
                        await self._read(chunk, get, offset, length)
                except (DataCorruptionError, StorageReadError, OSError) as error:
                    return error
            return None

        return await asyncio.gather(*map(verify, chunks))

    def pieces(self, chunk: Chunk, get: GetRow, begin: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Begin with few bytes, for who needs no more; then read several steps at once."""
        steps = iter(_steps(chunk, begin))
        count = 1
        while together := list(islice(steps, count)):
            for (offset, _), data in zip(
                together, self._run(self._read_some(chunk, get, together)), strict=True
            ):
                yield offset, data
            count = _STEPS_AT_ONCE

    async def _read_some(self, chunk: Chunk, get: GetRow, steps: list[tuple[int, int]]) -> list[memoryview]:
        reading = [self._read(chunk, get, *step) for step in steps]
        found = await asyncio.gather(*reading, return_exceptions=True)
        data = [part for part in found if isinstance(part, memoryview)]
        for part in found:
            if isinstance(part, BaseException):
                raise part
        return data

    async def _read(self, chunk: Chunk, get: GetRow, offset: int, length: int) -> memoryview:
        """Return one verified step of a chunk. Raises as :meth:`pieces`."""
        path = self.path(chunk.name)
        first = offset // chunk.block_bytes
        checksums = find_checksums(chunk, first, first - (-length // chunk.block_bytes), get)
        data = await self._fetch(chunk.name, offset, length)
        try:
            verify_blocks(data, chunk.block_bytes, checksums, path, offset)
        except ChecksumMismatchError:
            # A bit that flipped in transfer is right the second time.
            data = await self._fetch(chunk.name, offset, length)
            verify_blocks(data, chunk.block_bytes, checksums, path, offset)
        return data

    async def _fetch(self, name: str, offset: int, length: int) -> memoryview:
        try:
            data = await self._provider.read(name, offset, length)
        except NoSuchChunkError as error:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", self.path(name)) from error
        except ChunkOffsetError as error:
            raise StorageReadError(f"{self.path(name)} ends at {error.actual}") from error
        except StorageReadError as error:
            raise self._unanswered(error, name) from error
        self._bytes_read += length
        self._on_progress(len(self._listed), self._bytes_read)
        return data

    def objects(
        self,
        on_skipped: Callable[[str, OSError | None], None],  # noqa: ARG002 - there are no directories
    ) -> Iterator[tuple[str, str]]:
        """Yield what was listed last; list now if nothing was."""
        if not self._is_listed:
            self.look_ahead()
        for name in self._listed:
            yield name, self.path(name)

    def _unanswered(self, error: StorageReadError, name: str) -> OSError:
        """The store did not answer: that says nothing of the object."""
        return OSError(errno.EIO, str(error), self.path(name))


def _steps(chunk: Chunk, begin: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of what is read together, from the block of ``begin`` on."""
    blocks = _FIRST_BLOCKS
    offset = begin // chunk.block_bytes * chunk.block_bytes
    while offset < chunk.length:
        length = min(blocks * chunk.block_bytes, chunk.length - offset)
        yield offset, length
        offset += length
        blocks = max(1, _STEP_BYTES // chunk.block_bytes)
