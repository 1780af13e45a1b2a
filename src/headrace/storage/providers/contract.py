"""The contract of a chunk provider: named objects in long-term storage. All access goes through it.

An object is created once, grows at its end if the provider can append, and is deleted; nothing else.
Providers do not fence, lock or remember: names are unique per container epoch, so two owners never write one
object. Every implementation passes ``headrace.testing.conformance.chunk_provider``, and so does every wrapper
(:mod:`.wrapper`). What only files can do is a capability of its own, :mod:`.local_chunks`.

Outcomes:

==========================  ============================================================================
returned                    it happened and is durable
any RequestError            it did not happen; what the object holds did not change
StorageFullError            it did not happen; the object holds what it held (a failed create: no object)
StorageWriteError           unknown: the object may exist, may hold none, some or all of the bytes
StorageReadError            the read did not happen; retry
cancelled                   as StorageWriteError: the work may go on after the caller was cancelled
                            (an object that a cancelled create makes may be removed again)
==========================  ============================================================================

An unknown outcome is no failure, and such a call is never retried on the same object: its first attempt may
still be in flight, and may undo what it did. A provider that retries requests by itself, or whose library
does, has to distinguish its own object from another's before it raises ChunkExistsError.

A store that cannot append says so (``supports_append``); append is emulated only where what an object held
stays durable whatever becomes of the call. A store that takes fewer names than these encodes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.errors import InvalidArgumentError
from headrace.storage.providers.files.local_chunks import LocalChunks

Buffer = bytes | bytearray | memoryview

LIST_PAGE_OBJECTS_MAX: Final = 1000
CHUNK_NAME_BYTES_MAX: Final = 1024
"""Two names of 255 characters and all marks fit; encoded, it fits into a path of 4096 bytes."""


@dataclass(slots=True)
class ChunkObject:
    """One object as the provider sees it: ``length`` in bytes, including bytes that were never committed."""

    name: str
    length: int


class ChunkProvider(Protocol):
    """Objects in one store. Calls run on the event loop; several may be in progress, also on one object."""

    @property
    def supports_append(self) -> bool:
        """Whether ``append`` works; if not, every write is a new object."""

    @property
    def local(self) -> LocalChunks | None:
        """What can be done with objects that are files here; None for all other stores."""

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        """Create the object with this content, durably.

        The buffers must not change until the call returns. ``beside`` is called once before that, in the
        thread that does the work, which may be another one; if the call fails, perhaps never. It must not
        raise.

        Raises:
            ChunkExistsError: an object of that name exists; it was not touched.
            InvalidArgumentError: the name is empty or too long.
            StorageFullError, StorageWriteError: see the table above.
        """

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        """Add bytes at ``offset``, which must be the object's length, durably; ``beside`` as for ``create``.

        Raises:
            NoSuchChunkError: the object does not exist.
            ChunkOffsetError: the object has another length (a field of the error).
            UnsupportedError: the provider cannot append.
            StorageFullError, StorageWriteError: see the table above.
        """

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``offset``, in memory of the caller's own.

        Raises:
            NoSuchChunkError: the object does not exist.
            ChunkOffsetError: the range ends beyond the object.
            StorageReadError: the store did not answer.
        """

    async def delete(self, name: str) -> None:
        """Delete the object; fine if it does not exist. Reads in progress may still succeed."""

    async def info(self, name: str) -> ChunkObject:
        """Return name and length of the object.

        Raises:
            NoSuchChunkError: the object does not exist.
            StorageReadError: the store did not answer.
        """

    def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        """Iterate the objects whose names begin with ``prefix``, in pages and in no order.

        Objects created or deleted meanwhile may or may not appear. A prefix may end anywhere in a name.

        Raises:
            StorageReadError: the store did not answer; what was listed so far is right.
        """

    async def close(self) -> None:
        """Release descriptors and connections. Idempotent."""


def check_chunk_name(name: str) -> None:
    """Refuse a name no provider takes.

    Raises:
        InvalidArgumentError: it is empty or longer than CHUNK_NAME_BYTES_MAX in UTF-8.
    """
    if not name or len(name.encode("utf-8", "surrogatepass")) > CHUNK_NAME_BYTES_MAX:
        raise InvalidArgumentError(
            f"a chunk name has 1 to {CHUNK_NAME_BYTES_MAX} bytes, not {len(name)} characters"
        )
