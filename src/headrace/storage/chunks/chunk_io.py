"""Calls of a provider for the chunks of a plan; reads verify what they return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from headrace.errors import (
    ChecksumMismatchError,
    HeadraceError,
    NoSuchChunkError,
    StorageReadError,
    StorageWriteError,
)
from headrace.storage.chunks.append_plan import AppendPiece
from headrace.storage.chunks.checksums import count_good, verify_blocks
from headrace.storage.chunks.read_plan import ReadPiece
from headrace.storage.providers.contract import ChunkObject, ChunkProvider
from headrace.storage.providers.files.local_chunks import LocalChunks


class ChunkIO:
    """The only caller of a provider's reads and writes."""

    def __init__(self, provider: ChunkProvider, *, parallel_max: int) -> None:
        self._provider = provider
        self.local = provider.local
        """The capability of providers with local files; it is used here only."""
        self._parallel_max = parallel_max
        self.checksum_failures = 0

    @property
    def supports_append(self) -> bool:
        return self._provider.supports_append

    def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        """Iterate the objects whose names begin so, in pages. Raises: StorageReadError."""
        return self._provider.list(prefix)

    async def write(
        self, piece: AppendPiece, buffers: Sequence[memoryview], beside: Callable[[], None] | None = None
    ) -> None:
        """Write one piece, durably; ``beside`` is called in the same thread, once.

        Raises:
            ChunkExistsError, NoSuchChunkError, ChunkOffsetError, StorageFullError: it did not happen.
            StorageWriteError: the outcome is unknown.
        """
        if piece.is_new:
            await self._provider.create(piece.chunk, buffers, beside)
        else:
            await self._provider.append(piece.chunk, piece.chunk_offset, buffers, beside)

    async def read(self, pieces: Sequence[ReadPiece]) -> memoryview:
        """Return the bytes asked for as one view, or as many of them as lie in front of what cannot be read.

        At most ``parallel_max`` pieces are read, at the same time: however many objects a range consists of,
        a call takes as long as one of them. If the first fails, its first block alone is read: damage makes
        no byte of a block in front of it unreadable.

        Raises:
            NoSuchChunkError, ChunkOffsetError: an object is gone or too short.
            StorageReadError: the store did not answer.
            ChecksumMismatchError: a block is not what was written, twice.
        """
        if len(pieces) == 1:  # nearly always, and without the cost of a task
            try:
                return await self._read_piece(pieces[0])
            except HeadraceError as error:
                return await self._read_first_block(pieces[0], error)
        batch = pieces[: self._parallel_max]
        answers = await asyncio.gather(*map(self._read_piece, batch), return_exceptions=True)
        parts: list[memoryview] = []
        for piece, answer in zip(batch, answers, strict=True):
            if isinstance(answer, HeadraceError):
                parts = parts or [await self._read_first_block(piece, answer)]
                break
            if isinstance(answer, BaseException):
                raise answer
            parts.append(answer)
        return memoryview(b"".join(parts))

    async def _read_first_block(self, piece: ReadPiece, error: HeadraceError) -> memoryview:
        """Read as little as can be verified of a piece that cannot be read whole; ``error`` says why."""
        first = piece.first_block()
        if first.length == piece.length or isinstance(error, NoSuchChunkError):
            raise error
        return await self._read_piece(first)

    def read_at_once(self, local: LocalChunks, piece: ReadPiece, buffer: memoryview) -> int:
        """Read what the page cache has of ``piece``; return the size of the blocks that are right.

        If these are not all, the rest has to be read by :meth:`read`.
        """
        length, block = piece.length, piece.block_bytes
        done = local.read_at_once(piece.chunk, piece.offset, buffer[:length])
        checksums = piece.checksums
        if done < length:
            done -= done % block
            checksums = checksums[: done // block]
        good = count_good(buffer[:done], block, checksums)
        if good < done:
            self.checksum_failures += 1
            local.reopen(piece.chunk)
        return good

    async def delete(self, chunks: Sequence[str]) -> dict[str, StorageWriteError]:
        """Delete objects, several at a time; return those that may be left, and why."""
        left: dict[str, StorageWriteError] = {}
        for start in range(0, len(chunks), self._parallel_max):
            batch = chunks[start : start + self._parallel_max]
            answers = await asyncio.gather(*map(self._provider.delete, batch), return_exceptions=True)
            for name, answer in zip(batch, answers, strict=True):
                if isinstance(answer, StorageWriteError):
                    left[name] = answer
                elif answer is not None:
                    raise answer
        return left

    async def _read_piece(self, piece: ReadPiece) -> memoryview:
        try:
            data = await self._fetch(piece)
        except ChecksumMismatchError:
            # A bit that flipped in transfer is right the second time; one that flipped on the medium is not,
            # unless the file was replaced.
            self.checksum_failures += 1
            if self.local is not None:
                self.local.reopen(piece.chunk)
            data = await self._fetch(piece)
        return data[piece.skip : piece.skip + piece.take]

    async def _fetch(self, piece: ReadPiece) -> memoryview:
        data = await self._provider.read(piece.chunk, piece.offset, piece.length)
        if len(data) != piece.length:
            raise StorageReadError(f"{piece.chunk}: {len(data)} bytes instead of {piece.length}")
        verify_blocks(data, piece.block_bytes, piece.checksums, piece.chunk, piece.offset)
        return data
