"""What a log needs of the store it is kept in. Every provider of chunks has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class FoundObject(Protocol):
    """An object in a listing."""

    @property
    def name(self) -> str: ...

    @property
    def length(self) -> int: ...


class LogObjects(Protocol):
    """Objects by name, for one event loop. An object appears whole, or not at all, and for all at once."""

    async def create(self, name: str, buffers: Sequence[Buffer] = ()) -> None:
        """Create the object with this content, durably; the buffers do not change until this returns.

        Raises:
            ChunkExistsError: there is one of that name.
            StorageFullError: there is no space; it did not happen.
            StorageWriteError: whether it happened is unknown, or whether it will.
        """

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        """Return so many bytes from ``offset``.

        Raises:
            NoSuchChunkError: there is none.
            ChunkOffsetError: it is shorter.
            StorageReadError: the store did not answer.
        """

    async def delete(self, name: str) -> None:
        """Delete the object; fine if there is none.

        Raises:
            StorageWriteError: whether it happened is unknown.
        """

    async def info(self, name: str) -> FoundObject:
        """Return name and length.

        Raises:
            NoSuchChunkError: there is none.
            StorageReadError: the store did not answer.
        """

    def list(self, prefix: str = "") -> AsyncIterator[Sequence[FoundObject]]:
        """Iterate the objects whose names begin with ``prefix``: all that are there from before to the end.

        Raises:
            StorageReadError: the store did not answer.
        """

    async def close(self) -> None:
        """Release connections and threads."""
