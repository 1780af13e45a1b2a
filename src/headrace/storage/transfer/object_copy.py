"""Copies all objects of a store to another one, and proves that they are there.

It may break off anywhere: the next run goes on with what is missing. Objects in the target that the source
does not have stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    DataCorruptionError,
    InvalidArgumentError,
    NoSuchChunkError,
    StorageWriteError,
)
from headrace.limits import MIB
from headrace.storage.providers.contract import ChunkObject, ChunkProvider
from headrace.storage.transfer.copy_plan import IDENTITY, Rank, Step, decide, rank_of

READ_BYTES: Final = 8 * MIB
_MEMORY_BYTES: Final = 256 * MIB
_AT_ONCE: Final = 8
"""Objects in flight together: they hide the latency of two stores; ``_MEMORY_BYTES`` bounds their bytes."""
_ATTEMPTS: Final = 3
_FINDINGS_MAX: Final = 1000
_IDENTITY_BYTES_MAX: Final = 65536


@dataclass(slots=True)
class CopyReport:
    """What a copy has done, and what is different in the end."""

    objects: int = 0
    bytes: int = 0
    copied: int = 0
    copied_bytes: int = 0
    skipped: int = 0
    replaced: int = 0
    verified_bytes: int = 0
    """Read from both stores and found alike."""

    only_in_target: int = 0
    changed: list[str] = field(default_factory=list)
    """Objects that came, grew or went meanwhile: a server writes to the source."""

    different: list[str] = field(default_factory=list)
    """One sentence each: the target has something else, and it was left there."""

    left_out: int = 0
    """Findings beyond a thousand."""

    def add_changed(self, what: str) -> None:
        self._add(self.changed, what)

    def add_different(self, what: str) -> None:
        self._add(self.different, what)

    def _add(self, found: list[str], what: str) -> None:
        if len(found) < _FINDINGS_MAX:
            found.append(what)
        else:
            self.left_out += 1


class ObjectCopy:
    """One copy of ``source`` to ``target``.

    ``verify``: read every object from both, also those that were there. ``on_progress`` is called as the
    report changes.
    """

    def __init__(
        self,
        source: ChunkProvider,
        target: ChunkProvider,
        *,
        verify: bool,
        on_progress: Callable[[CopyReport], None] = lambda _: None,
        memory_bytes: int = _MEMORY_BYTES,
    ) -> None:
        self._source = source
        self._target = target
        self._verify = verify
        self._on_progress = on_progress
        self._memory = _Memory(memory_bytes)
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._report = CopyReport()

    async def run(self) -> CopyReport:
        """Copy, then compare the lists of both stores.

        Raises:
            InvalidArgumentError: the target belongs to another system; nothing was changed.
            StorageReadError, StorageWriteError, StorageFullError: a store failed; run it again.
        """
        await self._compare_identities()
        there = {found.name: found.length async for page in self._target.list() for found in page}
        later: list[ChunkObject] = []
        async for page in self._source.list():
            later += [found for found in page if rank_of(found.name) is not Rank.CHUNK]
            await self._copy_all([found for found in page if rank_of(found.name) is Rank.CHUNK], there)
        for rank in (Rank.CHECKPOINT, Rank.MANIFEST, Rank.IDENTITY):
            await self._copy_all([found for found in later if rank_of(found.name) is rank], there)
        await self._compare_lists()
        return self._report

    async def _compare_identities(self) -> None:
        theirs = await _read_small(self._target, IDENTITY)
        if theirs is None:
            return
        ours = await _read_small(self._source, IDENTITY)
        if ours is None or not ours.startswith(theirs):  # a part of it is what a copy that broke off has left
            raise InvalidArgumentError("the target belongs to another system: choose another prefix")

    async def _copy_all(self, objects: Sequence[ChunkObject], there: dict[str, int]) -> None:
        async def one(found: ChunkObject) -> None:
            async with self._gate:
                await self._take(found, there.get(found.name))
                self._on_progress(self._report)

        await _all(one(found) for found in objects)

    async def _take(self, found: ChunkObject, in_target: int | None) -> None:
        step = decide(found.length, in_target)
        try:
            if step is Step.SKIP:
                self._report.skipped += 1
                if self._verify:
                    await self._compare(found, await self._sum(self._source, found))
            elif step in {Step.COPY, Step.REPLACE}:
                checksum = await self._copy(found, replace=step is Step.REPLACE)
                self._report.copied += 1
                self._report.copied_bytes += found.length
                self._report.replaced += step is Step.REPLACE
                if self._verify:
                    await self._compare(found, checksum)
        except (NoSuchChunkError, ChunkOffsetError) as error:
            self._report.add_changed(str(error))

    async def _copy(self, found: ChunkObject, *, replace: bool) -> int:
        """Copy the bytes that were listed; return their crc32c."""
        if replace:
            await self._target.delete(found.name)
        if not self._target.supports_append or found.length <= READ_BYTES:
            return await self._copy_whole(found)
        checksum = 0
        for offset in range(0, found.length, READ_BYTES):
            async with self._memory.lent(READ_BYTES):
                data = await self._source.read(found.name, offset, min(READ_BYTES, found.length - offset))
                checksum = crc32c(data, checksum)
                if offset:
                    await self._target.append(found.name, offset, [data])
                else:
                    await self._target.create(found.name, [data])
        return checksum

    async def _copy_whole(self, found: ChunkObject) -> int:
        """A store without append gets an object in one call."""
        async with self._memory.lent(found.length):
            parts: list[memoryview] = []
            checksum = 0
            for offset in range(0, found.length, READ_BYTES):
                length = min(READ_BYTES, found.length - offset)
                parts.append(await self._source.read(found.name, offset, length))
                checksum = crc32c(parts[-1], checksum)
            await self._create(found, parts, checksum)
            return checksum

    async def _create(self, found: ChunkObject, parts: Sequence[memoryview], checksum: int) -> None:
        """Create an object, again if the outcome is unknown: whichever attempt succeeds, its bytes are these.

        Raises:
            StorageWriteError: the outcome of the last attempt is unknown.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._target.create(found.name, parts)
            except StorageWriteError:
                if attempt == _ATTEMPTS:
                    raise
            except ChunkExistsError:
                there = await self._target.info(found.name)
                if there.length == found.length and await _sum(self._target, found) == checksum:
                    return
                raise StorageWriteError(
                    f"{found.name} came into being in the target while it was copied, with other bytes"
                ) from None
            else:
                return

    async def _compare(self, found: ChunkObject, checksum: int) -> None:
        if await self._sum(self._target, found) == checksum:
            self._report.verified_bytes += found.length
        else:
            self._report.add_different(f"{found.name} has other bytes in the target")

    async def _sum(self, provider: ChunkProvider, found: ChunkObject) -> int:
        async with self._memory.lent(min(READ_BYTES, found.length)):
            return await _sum(provider, found)

    async def _compare_lists(self) -> None:
        there = {found.name: found.length async for page in self._target.list() for found in page}
        async for page in self._source.list():
            for found in page:
                self._report.objects += 1
                self._report.bytes += found.length
                length = there.pop(found.name, None)
                if length is None or length < found.length:
                    has = "nothing" if length is None else f"{length} bytes"
                    self._report.add_changed(f"{found.name} has {found.length} bytes, the target {has} of it")
                elif length > found.length:
                    what = f"{found.name} has {found.length} bytes, but {length} in the target"
                    self._report.add_different(what)
        self._report.only_in_target = len(there)


async def _sum(provider: ChunkProvider, found: ChunkObject) -> int:
    """Return the crc32c of the bytes that were listed."""
    checksum = 0
    for offset in range(0, found.length, READ_BYTES):
        length = min(READ_BYTES, found.length - offset)
        checksum = crc32c(await provider.read(found.name, offset, length), checksum)
    return checksum


async def _read_small(provider: ChunkProvider, name: str) -> bytes | None:
    """Return an object that is not large, None if there is none. Raises: DataCorruptionError: it is large."""
    try:
        length = (await provider.info(name)).length
    except NoSuchChunkError:
        return None
    if length > _IDENTITY_BYTES_MAX:
        raise DataCorruptionError(f"an object of {length} bytes is no identity", path=name)
    return bytes(await provider.read(name, 0, length))


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do it at the same time; if something fails, end what is left and raise that."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Memory:
    """Bounds the bytes in memory; one that needs more than all of it has it for itself."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def lent(self, size: int) -> AsyncIterator[None]:
        size = min(size, self._size)
        async with self._changed:
            await self._changed.wait_for(lambda: self._used + size <= self._size)
            self._used += size
        try:
            yield
        finally:
            async with self._changed:
                self._used -= size
                self._changed.notify_all()
