"""Provider calls with a deadline, reads that verify what they return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from headrace.errors import ChecksumMismatchError, StorageReadError, StorageWriteError
from headrace.runtime.open_file import OpenFile
from headrace.storage.chunks.append_plan import AppendPiece
from headrace.storage.chunks.checksums import count_good, verify_blocks
from headrace.storage.chunks.read_plan import ReadPiece
from headrace.storage.providers.contract import ChunkObject, ChunkProvider


class ChunkIO:
    """The only caller of a provider's reads and writes."""

    def __init__(self, provider: ChunkProvider, *, timeout_s: float, parallel_max: int) -> None:
        self._provider = provider
        self._timeout_s = timeout_s
        self._parallel_max = parallel_max
        self.checksum_failures = 0

    @property
    def supports_append(self) -> bool:
        return self._provider.supports_append

    def list(self) -> AsyncIterator[list[ChunkObject]]:
        """Iterate all objects, in pages. Raises: StorageReadError."""
        return self._provider.list()

    async def write(
        self, piece: AppendPiece, buffers: Sequence[memoryview], beside: Callable[[], None] | None = None
    ) -> None:
        """Write one piece, durably; ``beside`` is called where that is done, once.

        Raises:
            ChunkExistsError, NoSuchChunkError, ChunkOffsetError, StorageFullError: it did not happen.
            StorageWriteError: the outcome is unknown.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                if piece.is_new:
                    await self._provider.create(piece.chunk, buffers, beside)
                else:
                    await self._provider.append(piece.chunk, piece.chunk_offset, buffers, beside)
        except TimeoutError:
            raise StorageWriteError(self._late("writing", piece.chunk)) from None

    async def read(self, pieces: Sequence[ReadPiece]) -> memoryview:
        """Read the pieces, several at a time, and return the bytes asked for as one view.

        Raises:
            NoSuchChunkError, ChunkOffsetError: an object is gone or too short.
            StorageReadError: the store did not answer.
            ChecksumMismatchError: a block is not what was written, twice.
        """
        if not pieces:
            return memoryview(b"")
        if len(pieces) == 1:
            return await self._read_piece(pieces[0])
        parts: list[memoryview] = []
        for start in range(0, len(pieces), self._parallel_max):
            batch = pieces[start : start + self._parallel_max]
            answers = await asyncio.gather(*map(self._read_piece, batch), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                parts.append(answer)
        return memoryview(b"".join(parts))

    def read_at_once(self, piece: ReadPiece, buffer: memoryview) -> int:
        """Read what the provider has at hand of ``piece``; return the size of the blocks that are right.

        Fewer than all says nothing but that :meth:`read` has to be asked.
        """
        length, block = piece.length, piece.block_bytes
        done = self._provider.read_at_once(piece.chunk, piece.offset, buffer[:length])
        checksums = piece.checksums
        if done < length:
            done -= done % block
            checksums = checksums[: done // block]
        good = count_good(buffer[:done], block, checksums)
        if good < done:
            self.checksum_failures += 1
            self._provider.reopen(piece.chunk)
        return good

    def open_file(self, chunk: str) -> OpenFile | None:
        """Return the file that :meth:`read_at_once` has read from, if there is one."""
        return self._provider.open_file(chunk)

    async def delete(self, chunks: Sequence[str]) -> dict[str, StorageWriteError]:
        """Delete objects, several at a time; return those that may be left, and why."""
        left: dict[str, StorageWriteError] = {}
        for start in range(0, len(chunks), self._parallel_max):
            batch = chunks[start : start + self._parallel_max]
            answers = await asyncio.gather(*map(self._delete, batch), return_exceptions=True)
            for name, answer in zip(batch, answers, strict=True):
                if isinstance(answer, StorageWriteError):
                    left[name] = answer
                elif answer is not None:
                    raise answer
        return left

    async def _delete(self, chunk: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._provider.delete(chunk)
        except TimeoutError:
            raise StorageWriteError(self._late("deleting", chunk)) from None

    async def _read_piece(self, piece: ReadPiece) -> memoryview:
        try:
            data = await self._fetch(piece)
        except ChecksumMismatchError:
            # A bit that flipped on the way is right the second time; one that flipped on the medium is not,
            # unless the file was replaced.
            self.checksum_failures += 1
            self._provider.reopen(piece.chunk)
            data = await self._fetch(piece)
        return data[piece.skip : piece.skip + piece.take]

    async def _fetch(self, piece: ReadPiece) -> memoryview:
        try:
            async with asyncio.timeout(self._timeout_s):
                data = await self._provider.read(piece.chunk, piece.offset, piece.length)
        except TimeoutError:
            raise StorageReadError(self._late("reading", piece.chunk)) from None
        if len(data) != piece.length:
            raise StorageReadError(f"{piece.chunk}: {len(data)} bytes instead of {piece.length}")
        verify_blocks(data, piece.block_bytes, piece.checksums, piece.chunk, piece.offset)
        return data

    def _late(self, what: str, chunk: str) -> str:
        return f"{what} {chunk} took more than {self._timeout_s} s"
