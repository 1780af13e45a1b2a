"""Chunks as objects of S3, Google Cloud Storage or Azure Blob Storage, by the library opendal.

An object is created by one conditional PUT, never in parts (:mod:`.object_creation`), and carries the name of
its chunk in its key (:mod:`.object_keys`). The library retries nothing: reads and deletions are repeated by
their callers, where :class:`.RetryingChunkProvider` and the garbage collector are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import (
    ChunkOffsetError,
    NoSuchChunkError,
    StorageReadError,
    StorageReadRefusedError,
    StorageWriteError,
    StorageWriteRefusedError,
    UnsupportedError,
)
from headrace.limits import MIB
from headrace.runtime.entropy import Entropy
from headrace.runtime.settings import internal
from headrace.storage.providers.contract import (
    LIST_PAGE_OBJECTS_MAX,
    Buffer,
    ChunkObject,
    check_chunk_name,
)
from headrace.storage.providers.files.local_chunks import LocalChunks
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.objects.creation import ObjectCreation
from headrace.storage.providers.objects.errors import (
    OF_CREDENTIALS,
    REFUSALS,
    Failure,
    FailureKind,
    ObjectRequestError,
)
from headrace.storage.providers.objects.keys import ObjectKeys
from headrace.storage.providers.objects.operator import ObjectOperator

Page = list[ChunkObject]
Entries = list[tuple[str, int]]
"""Keys and lengths."""

_REFUSED_READS: Final = REFUSALS | {FailureKind.ABSENT}
"""A list finds nothing absent but its bucket."""

_PERMISSIONS: Final = {
    "s3": "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket",
    "gs": "storage.objects.get, create, delete and list",
    "az": "the role Storage Blob Data Contributor",
}

RENEW_EVERY_S: Final = 5.0
"""After a refusal credentials are read again, so often at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreConfig:
    """How many requests are made at the same time, and how long they are."""

    writes: int = internal(8, simulate=(1, 2))
    """Objects created at the same time; each may have its content in memory once more."""

    reads: int = internal(16, simulate=(1, 2))
    chores: int = internal(16, simulate=(1, 2))
    """Objects deleted or looked at, at the same time."""

    piece_bytes: int = internal(8 * MIB, simulate=(MIB,))
    """A longer read is made of requests for so many bytes."""

    pieces: int = internal(4)
    """Requests of one read at the same time."""


class ObjectStoreChunkProvider:
    """Objects below one prefix of one bucket. Belongs to one event loop; the library has its own threads."""

    def __init__(
        self, location: StorageLocation, entropy: Entropy, config: ObjectStoreConfig | None = None
    ) -> None:
        """Nothing is sent yet.

        Raises:
            UnsupportedError: the library is not installed.
            InvalidArgumentError: the location does not say enough: no region, or no account.
        """
        self._location = location
        self._entropy = entropy
        self._config = config or ObjectStoreConfig()
        self._keys = ObjectKeys.below(location.prefix)
        self._operator = ObjectOperator(location)
        self._renewed_at = -RENEW_EVERY_S
        self._writes = asyncio.Semaphore(self._config.writes)
        self._reads = asyncio.Semaphore(self._config.reads)
        self._chores = asyncio.Semaphore(self._config.chores)

    @property
    def supports_append(self) -> bool:
        return False

    @property
    def local(self) -> LocalChunks | None:
        return None

    # ---------------------------------------------------------------------------------- writing

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        check_chunk_name(name)
        key = self._keys.key_of(name)
        write_id = self._entropy.token(16).hex()
        async with self._writes:
            # The library takes a memoryview byte by byte: 25 ms of the loop for each MB.
            is_plain = len(buffers) == 1 and isinstance(buffers[0], bytes | bytearray)
            content = buffers[0] if is_plain else b"".join(buffers)
            metadata = self._keys.metadata_of(name, key, write_id)
            creation = ObjectCreation(self._operator, name, key, content, metadata, self._entropy)
            creation.begin()
            if beside is not None:
                beside()  # while the library's threads send the content
            failure = await creation.finish()
        if failure is not None:
            raise self._not_written(f"creating {name}", failure)

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        del offset, buffers, beside
        raise UnsupportedError(f"{name} is in an object store, whose objects do not grow")

    async def delete(self, name: str) -> None:
        async with self._chores:
            try:
                await self._operator.delete(self._keys.key_of(name))
            except ObjectRequestError as error:
                if error.failure.kind is not FailureKind.ABSENT:
                    raise self._not_written(f"deleting {name}", error.failure) from None

    # ---------------------------------------------------------------------------------- reading

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        if length == 0:
            return memoryview(b"")
        key = self._keys.key_of(name)
        async with self._reads:
            try:
                data = await self._read(key, offset, length)
            except ObjectRequestError as error:
                failure = error.failure
            else:
                if len(data) == length:
                    return memoryview(data)
                failure = Failure(FailureKind.RANGE, False, f"{len(data)} bytes instead of {length}")
        if failure.kind is FailureKind.ABSENT:
            raise await self._absence(name, key)
        is_unclear = failure.kind is FailureKind.UNKNOWN and not failure.is_temporary
        if failure.kind is FailureKind.RANGE or is_unclear:  # not every store has a word for it
            actual = (await self.info(name)).length
            if offset + length > actual:
                raise ChunkOffsetError(name, offset + length, actual)
        raise self._not_read(f"reading {name}", failure)

    async def info(self, name: str) -> ChunkObject:
        key = self._keys.key_of(name)
        async with self._chores:
            try:
                return ChunkObject(name, (await self._operator.look(key)).length)
            except ObjectRequestError as error:
                failure = error.failure
            if failure.kind is FailureKind.ABSENT:
                raise await self._absence(name, key)
        raise self._not_read(f"looking at {name}", failure)

    async def _absence(self, name: str, key: str) -> Exception:
        """Return what to raise for an object that was not found: perhaps its bucket is missing, which not
        every answer tells apart.
        """
        try:
            async with aclosing(self._operator.list(key, page=1)) as found:
                async for each, _ in found:
                    if each == key:
                        return StorageReadError(f"{name} was created while it was looked for")
                    break
        except ObjectRequestError as error:
            return self._not_read(f"looking for {name}", error.failure)
        return NoSuchChunkError(name)

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        for listed in self._keys.listed_prefixes(prefix):
            async for entries in self._list_entries(listed):
                page = await self._name_entries(entries, prefix)
                if page:
                    yield page

    async def _list_entries(self, listed: str) -> AsyncIterator[Entries]:
        """Iterate keys and lengths, in pages."""
        page: Entries = []
        try:
            async for entry in self._operator.list(listed):
                page.append(entry)
                if len(page) == LIST_PAGE_OBJECTS_MAX:
                    yield page
                    page = []
        except ObjectRequestError as error:
            raise self._not_read("listing", error.failure) from None
        yield page

    async def _name_entries(self, entries: Entries, prefix: str) -> Page:
        found: Page = []
        hashed: Entries = []
        for key, length in entries:
            if self._keys.is_hashed(key):
                hashed.append((key, length))
            elif (name := self._keys.name_of(key)) is not None and name.startswith(prefix):
                found.append(ChunkObject(name, length))
        names = await asyncio.gather(*(self._read_name(key) for key, _ in hashed))
        found += [
            ChunkObject(name, length)
            for name, (_, length) in zip(names, hashed, strict=True)
            if name is not None and name.startswith(prefix)
        ]
        return found

    async def _read_name(self, key: str) -> str | None:
        """Read the name of a hashed key; None if it is no chunk's, or was deleted since it was listed."""
        async with self._chores:
            try:
                head = await self._operator.look(key)
            except ObjectRequestError as error:
                if error.failure.kind is FailureKind.ABSENT:
                    return None
                raise self._not_read("listing", error.failure) from None
        return self._keys.name_in(head.metadata, key)

    async def close(self) -> None:
        """Nothing to release: the library ends connections that are idle."""

    # ---------------------------------------------------------------------------------- inside

    def _read(self, key: str, offset: int, length: int) -> Coroutine[Any, Any, bytes]:
        return self._operator.read(key, offset, length, self._config.piece_bytes, self._config.pieces)

    def _not_read(self, what: str, failure: Failure) -> StorageReadError:
        if failure.kind not in _REFUSED_READS:
            return StorageReadError(f"{what}: {failure.text}")
        self._renew(failure)
        reason = self._advise(failure.kind)
        return StorageReadRefusedError(f"{what}: {reason} ({failure.text})", reason=reason)

    def _not_written(self, what: str, failure: Failure) -> StorageWriteError:
        # Whatever is written need not be there before, but for its bucket.
        kind = FailureKind.NO_BUCKET if failure.kind is FailureKind.ABSENT else failure.kind
        if kind not in REFUSALS:
            return StorageWriteError(f"{what}: {failure.text}")
        self._renew(failure)
        reason = self._advise(kind)
        return StorageWriteRefusedError(f"{what}: {reason} ({failure.text})", reason=reason)

    def _renew(self, failure: Failure) -> None:
        """Let the next call look for credentials again if others may mend a failure: they may have been
        replaced, and the library retains what it has found.
        """
        now = asyncio.get_running_loop().time()
        if failure.kind in OF_CREDENTIALS and now - self._renewed_at >= RENEW_EVERY_S:
            self._renewed_at = now
            self._operator.renew()

    def _advise(self, kind: FailureKind) -> str:
        """Say who refuses what, and what a person can do about it."""
        place, bucket = self._location, self._location.bucket
        permissions = _PERMISSIONS[place.scheme]
        match kind:
            case FailureKind.SKEWED:
                return f"{place} refused the time of this machine: set its clock, and let NTP keep it right"
            case FailureKind.EXPIRED:
                return (
                    f"{place} refused these credentials, which have expired: put new ones into their file, "
                    "which is read again within seconds, or start again with new ones"
                )
            case FailureKind.DENIED:
                return f"{place} denied permission: let these credentials do {permissions} in {bucket!r}"
            case FailureKind.FORBIDDEN:
                return (
                    f"{place} refused these credentials, or there are none; they have to allow "
                    f"{permissions} in {bucket!r}"
                )
            case _:
                return f"there is no bucket {bucket!r} at {place}: make it, or correct the URI"
