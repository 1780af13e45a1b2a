"""Chunk objects as people look at them: which are there, how long, and whether their blocks are what was
written. Files are read without a provider; :mod:`.inspect_store` has those of any other store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from headrace.errors import ChecksumMismatchError, DataCorruptionError, StorageReadError
from headrace.runtime.filesystem import Filesystem
from headrace.storage.chunks.checksums import verify_blocks
from headrace.storage.chunks.read_plan import find_checksums
from headrace.storage.chunks.segment_layout import Chunk
from headrace.storage.identity_format import IDENTITY_BYTES, IDENTITY_NAME, decode_identity
from headrace.storage.providers.files.chunk_paths import (
    FILE_SUFFIX,
    decode_chunk_path,
    encode_chunk_path,
    is_chunk_entry,
)

_STEP_BLOCKS: Final = 64


GetRow = Callable[[str], bytes | None]
Verified = tuple[Chunk, Exception | None]
"""A chunk, and what is wrong with its bytes, if anything is."""


class StoredChunks(Protocol):
    """Chunk objects of one store, for looking only."""

    root: str
    """Where they are, as people write it."""

    def path(self, chunk: str) -> str:
        """Return where the object of a chunk is, as people write it."""

    def find_identity(self) -> str | None:
        """Return the system whose store this is; None if it has no whole identity.

        Raises:
            DataCorruptionError: it is damaged.
            InvalidArgumentError: it is of a newer version.
            StorageReadError, OSError: it could not be read.
        """

    def look_ahead(self) -> None:
        """Many lengths will be asked for: list what is there, if that is cheaper.

        Raises: StorageReadError.
        """

    def find_length(self, chunk: str, at_least: int = 0) -> int | None:
        """Return the bytes the object holds, None if there is none.

        What was listed is the answer, unless it is less than ``at_least``. Raises: OSError.
        """

    def verify(self, chunk: Chunk, get: GetRow) -> None:
        """Compare every committed byte of a chunk with its checksums. Raises as :meth:`pieces`."""

    def verify_all(self, chunks: Iterable[Chunk], get: GetRow) -> Iterator[Verified]:
        """Verify many chunks; yield each, in order, with what :meth:`verify` would have raised."""

    def pieces(self, chunk: Chunk, get: GetRow, begin: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Yield the committed bytes of a chunk, verified, with their offsets, from the block of ``begin``.

        A piece is valid until the next one.

        Raises:
            ChecksumMismatchError: with path and offset of the first bad block.
            DataCorruptionError: its checksums are missing or damaged.
            StorageReadError: the object ends before the committed length.
            OSError: it cannot be read.
        """

    def objects(self, on_skipped: Callable[[str, OSError | None], None]) -> Iterator[tuple[str, str]]:
        """Yield name and path of every object.

        ``on_skipped`` is called with the path of each directory that was not read, and with the error; None
        for a symbolic link below the root. Links are not followed: they may form a cycle.

        Raises:
            StorageReadError: the store did not answer.
        """


class ChunkFiles:
    """The files below ``root``; a root that does not exist holds none.

    ``on_read`` is called with the bytes of each read; it may wait.
    """

    def __init__(
        self, root: str, files: Filesystem, on_read: Callable[[int], None] = lambda _size: None
    ) -> None:
        self.root = root
        self._files = files
        self._on_read = on_read

    def path(self, chunk: str) -> str:
        return f"{self.root}/{encode_chunk_path(chunk)}"

    def find_identity(self) -> str | None:
        path = self.path(IDENTITY_NAME)
        try:
            fd = self._files.open(path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            buffer = bytearray(IDENTITY_BYTES + 1)
            count = self._files.pread_into(fd, memoryview(buffer), 0)
        finally:
            self._files.close(fd)
        return None if count < IDENTITY_BYTES else decode_identity(bytes(buffer[:count]))

    def look_ahead(self) -> None:
        """Nothing: a length costs no more than a listing of it would."""

    def find_length(self, chunk: str, at_least: int = 0) -> int | None:  # noqa: ARG002 - it is never old
        try:
            return self._files.stat_size(self.path(chunk))
        except FileNotFoundError:
            return None

    def verify(self, chunk: Chunk, get: GetRow) -> None:
        for _ in self.pieces(chunk, get):
            pass

    def verify_all(self, chunks: Iterable[Chunk], get: GetRow) -> Iterator[Verified]:
        for chunk in chunks:
            try:
                self.verify(chunk, get)
            except (DataCorruptionError, StorageReadError, OSError) as error:
                yield chunk, error
            else:
                yield chunk, None

    def pieces(self, chunk: Chunk, get: GetRow, begin: int = 0) -> Iterator[tuple[int, memoryview]]:
        path = self.path(chunk.name)
        fd = self._files.open(path, os.O_RDONLY)
        try:
            step = _STEP_BLOCKS * chunk.block_bytes
            buffer = memoryview(bytearray(min(step, max(chunk.length, 1))))
            for offset in range(begin // chunk.block_bytes * chunk.block_bytes, chunk.length, step):
                data = buffer[: min(step, chunk.length - offset)]
                self._read(fd, path, data, offset)
                self._on_read(len(data))
                first = offset // chunk.block_bytes
                end = first - (-len(data) // chunk.block_bytes)
                checksums = find_checksums(chunk, first, end, get)
                try:
                    verify_blocks(data, chunk.block_bytes, checksums, path, offset)
                except ChecksumMismatchError:
                    # A bit that flipped in transfer is right the second time.
                    self._read(fd, path, data, offset)
                    verify_blocks(data, chunk.block_bytes, checksums, path, offset)
                yield offset, data
        finally:
            self._files.close(fd)

    def _read(self, fd: int, path: str, data: memoryview, offset: int) -> None:
        done = 0
        while done < len(data):
            try:
                count = self._files.pread_into(fd, data[done:], offset + done)
            except OSError as error:
                error.filename = path  # the system knows only the descriptor
                raise
            if count == 0:
                raise StorageReadError(f"{path} ends at {offset + done}")
            done += count

    def objects(self, on_skipped: Callable[[str, OSError | None], None]) -> Iterator[tuple[str, str]]:
        pending = [""]
        while pending:
            path = pending.pop()
            name = decode_chunk_path(path)
            if name is not None:
                yield name, f"{self.root}/{path}"
            elif not path.endswith(FILE_SUFFIX):
                inside = f"{path}/" if path else ""
                directory = f"{self.root}/{path}" if path else self.root
                if path and self._files.is_link(directory):
                    on_skipped(directory, None)
                    continue
                try:
                    entries = self._files.listdir(directory)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError as error:
                    on_skipped(directory, error)
                    continue
                pending += [inside + entry for entry in reversed(entries) if is_chunk_entry(entry)]
