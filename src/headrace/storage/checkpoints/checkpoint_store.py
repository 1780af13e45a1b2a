"""The storage checkpoints of one container as objects: written, listed, read, removed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from headrace.errors import ChecksumMismatchError, DataCorruptionError, NoSuchChunkError, StorageFullError
from headrace.limits import MIB
from headrace.storage.checkpoints.listed import Listed, ListedCheckpoint, object_names, sort_objects
from headrace.storage.checkpoints.manifest import (
    MANIFEST_BYTES_MAX,
    Manifest,
    PartFact,
    decode_manifest,
    encode_manifest,
)
from headrace.storage.checkpoints.object_names import (
    PARTS_MAX,
    CheckpointId,
    container_prefix,
    manifest_name,
    part_name,
)
from headrace.storage.checkpoints.parts import PartBuilder, decode_part
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider

PART_BYTES: Final = 16 * MIB


@dataclass(slots=True)
class CopiedLog:
    """Parts that are durable: what the manifest says of them."""

    parts: list[PartFact]
    records: int


class CheckpointStore:
    """Objects of the checkpoints of ``container`` in ``provider``; a call may take up to ``timeout_s``."""

    def __init__(
        self, provider: ChunkProvider, container: int, timeout_s: float, part_bytes: int = PART_BYTES
    ) -> None:
        self._provider = RetryingChunkProvider(provider, timeout_s)
        self._container = container
        self._part_bytes = part_bytes

    async def look(self) -> Listed:
        """Return the checkpoints that are there, the oldest first. Raises: StorageReadError."""
        found: list[tuple[str, int]] = []
        async for page in self._provider.list(container_prefix(self._container)):
            found += ((each.name, each.length) for each in page)
        return sort_objects(found).get(self._container, {})

    async def write_parts(self, checkpoint: CheckpointId, records: AsyncIterator[list[bytes]]) -> CopiedLog:
        """Write the parts of a checkpoint, which mean nothing before its manifest.

        Raises:
            StorageWriteError, StorageFullError, ChunkExistsError: its number must not be used again.
        """
        copied = CopiedLog([], 0)
        builder = PartBuilder(self._part_bytes)
        async for some in records:
            for record in some:
                full = builder.add(record)
                if full is not None:
                    await self._write_part(checkpoint, copied, full)
        last = builder.take()
        if last is not None:
            await self._write_part(checkpoint, copied, last)
        copied.records = builder.records
        return copied

    async def _write_part(self, checkpoint: CheckpointId, copied: CopiedLog, buffers: list[bytes]) -> None:
        if len(copied.parts) >= PARTS_MAX:
            raise StorageFullError(f"a storage checkpoint has at most {PARTS_MAX} parts")
        checksum = 0
        for buffer in buffers:
            checksum = crc32c(buffer, checksum)
        name = part_name(self._container, checkpoint, len(copied.parts))
        await self._provider.create(name, buffers)
        copied.parts.append(PartFact(sum(map(len, buffers)), checksum))

    async def finish(self, manifest: Manifest) -> None:
        """Write the manifest of a checkpoint whose parts are durable: from now on it is one.

        Raises as :meth:`write_parts`.
        """
        name = manifest_name(self._container, manifest.checkpoint)
        await self._provider.create(name, [encode_manifest(manifest)])

    async def read_manifest(self, checkpoint: CheckpointId, listed: ListedCheckpoint) -> Manifest:
        """Return the manifest of a checkpoint whose parts were all listed.

        Raises:
            DataCorruptionError: it is damaged, or a part is missing or of another length.
            StorageReadError: the store did not answer; retry.
        """
        name = manifest_name(self._container, checkpoint)
        length = listed.manifest_bytes or 0
        if length > MANIFEST_BYTES_MAX:
            raise DataCorruptionError(f"a manifest of {length} bytes", path=name)
        try:
            manifest = decode_manifest(await self._provider.read(name, 0, length), name)
        except NoSuchChunkError as error:
            raise DataCorruptionError("there is no manifest", path=name) from error
        if manifest.checkpoint != checkpoint or manifest.container != self._container:
            raise DataCorruptionError("the manifest of another storage checkpoint", path=name)
        for part, fact in enumerate(manifest.parts):
            found = listed.parts.get(part)
            if found != fact.length:
                what = "is missing" if found is None else f"has {found} bytes instead of {fact.length}"
                raise DataCorruptionError(f"a part {what}", path=part_name(self._container, checkpoint, part))
        return manifest

    async def read_records(self, manifest: Manifest) -> AsyncGenerator[list[memoryview], None]:
        """Yield the records of a checkpoint, part by part, each part verified.

        Raises:
            DataCorruptionError: a part is missing or damaged.
            StorageReadError: the store did not answer; retry.
        """
        records = 0
        for number, part in enumerate(manifest.parts):
            name = part_name(self._container, manifest.checkpoint, number)
            try:
                data = await self._provider.read(name, 0, part.length)
            except NoSuchChunkError as error:
                raise DataCorruptionError("a part is missing", path=name) from error
            if crc32c(data) != part.checksum:
                raise ChecksumMismatchError("a part fails its checksum", path=name)
            found = list(decode_part(data, name))
            records += len(found)
            yield found
        if records != manifest.records:
            name = manifest_name(self._container, manifest.checkpoint)
            raise DataCorruptionError(f"{records} records instead of {manifest.records}", path=name)

    async def remove(
        self,
        checkpoint: CheckpointId,
        listed: ListedCheckpoint,
        on_meaningless: Callable[[], None] = lambda: None,
    ) -> None:
        """Delete the objects of a checkpoint, the manifest first; ``on_meaningless`` is called after that.

        Raises: StorageWriteError: some may be left.
        """
        names = object_names(self._container, checkpoint, listed)
        if listed.manifest_bytes is not None:
            await self._provider.delete(names.pop(0))
        on_meaningless()
        for name in names:
            await self._provider.delete(name)
