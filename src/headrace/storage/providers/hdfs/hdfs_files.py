"""What the HDFS provider does in its threads: one function for each blocking call.

Here every error of the library becomes a ``HeadraceError``. Its panics do too: they are no ``Exception``, and
would end the thread's caller.

A file has one writer, who holds its lease. While it is written, its last block can be read by nobody: the
name node knows how long it is, the library does not ask the data nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    HeadraceError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.limits import MIB
from headrace.storage.providers.contract import LIST_PAGE_OBJECTS_MAX, Buffer, ChunkObject
from headrace.storage.providers.files.chunk_files import Wanted
from headrace.storage.providers.files.chunk_paths import decode_chunk_path

_PIECE_BYTES: Final = MIB
"""Smaller buffers are joined to pieces of this size: each write is a call into the library."""

_BLOCK_BYTES_MIN: Final = MIB
"""Name nodes refuse smaller blocks, unless they are configured to take them."""

_OWN_LEASE: Final = "already the current lease holder"
_RECOVERING: Final = "RecoveryInProgressException"
_FULL: Final = ("QuotaExceededException", "could only be written to 0 of")


class HdfsStatus(Protocol):
    """What the name node knows of a file or directory."""

    @property
    def path(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def isdir(self) -> bool: ...
    @property
    def blocksize(self) -> int | None: ...


class HdfsReader(Protocol):
    """A file as it was when it was opened, without a block that is being written."""

    def __len__(self) -> int: ...
    def read_range(self, offset: int, len: int) -> bytes: ...  # noqa: A002 - the library's name


class HdfsWriter(Protocol):
    """The lease of a file."""

    def write(self, buf: Buffer) -> int: ...
    def hsync(self) -> None: ...
    def close(self) -> None: ...


class HdfsClient(Protocol):
    """The part of ``hdfs_native.Client`` that is used."""

    def get_file_info(self, path: str) -> HdfsStatus: ...
    def list_status(self, path: str, recursive: bool = False) -> Iterator[HdfsStatus]: ...
    def read(self, path: str) -> HdfsReader: ...
    def create(self, path: str) -> HdfsWriter: ...
    def append(self, path: str) -> HdfsWriter: ...
    def delete(self, path: str, recursive: bool = False) -> bool: ...
    def recover_lease(self, path: str) -> bool: ...


class LeaseHeldError(Exception):
    """Another process writes the file, or died while it did; nothing was done."""


def create_file(
    client: HdfsClient,
    name: str,
    path: str,
    buffers: Sequence[Buffer],
    beside: Callable[[], None] | None,
    wanted: Wanted,
) -> None:
    """Make a file, and the directories above it. One that is not ``wanted`` any more is removed again.

    Raises:
        ChunkExistsError: there is one.
        StorageFullError: there is no space; nothing is left of it.
        StorageWriteError: it is there or not, whole or in part.
    """
    try:
        with _failing_as(StorageWriteError, name, FileExistsError):
            writer = client.create(path)
    except FileExistsError as error:
        if _OWN_LEASE in str(error):
            # A first request was lost with its connection, and the library sent it again: we made the file.
            raise StorageWriteError(f"{name}: it exists now, by a request whose answer was lost") from error
        raise ChunkExistsError(name) from None
    try:
        with _failing_as(StorageWriteError, name), _closing(writer):
            size = sum(map(len, buffers))
            block_bytes = client.get_file_info(path).blocksize if size > _BLOCK_BYTES_MIN else None
            _write_all(writer, buffers, 0, block_bytes or size)
            if beside is not None:
                beside()
            if size:
                writer.hsync()
    except StorageWriteError as error:
        if _is_full(error) and _succeeds(client.delete, path):
            raise StorageFullError(str(error)) from error
        raise
    finally:
        if not wanted.still:
            _succeeds(client.delete, path)


def append_file(
    client: HdfsClient,
    name: str,
    path: str,
    offset: int,
    buffers: Sequence[Buffer],
    beside: Callable[[], None] | None,
) -> None:
    """Add bytes at the end. What the length is compared with cannot change: we have the lease by then.

    Raises:
        NoSuchChunkError, ChunkOffsetError, StorageFullError, StorageWriteError: as the contract has it.
        LeaseHeldError: somebody else has the lease.
    """
    try:
        with _failing_as(StorageWriteError, name, FileExistsError, FileNotFoundError):
            writer = client.append(path)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except FileExistsError as error:
        raise LeaseHeldError(_first_line(error)) from None
    except StorageWriteError as error:
        if _RECOVERING in str(error.__cause__):
            raise LeaseHeldError(str(error)) from None
        if _is_full(error):
            raise StorageFullError(str(error)) from error
        raise
    try:
        with _failing_as(StorageWriteError, name), _closing(writer):
            status = client.get_file_info(path)
            if status.length != offset:
                raise ChunkOffsetError(name, offset, status.length)
            size = sum(map(len, buffers))
            _write_all(writer, buffers, offset, status.blocksize or offset + size)
            if beside is not None:
                beside()
            if size:
                writer.hsync()
    except StorageWriteError as error:
        if _is_full(error) and _has_length(client, path, offset):
            raise StorageFullError(str(error)) from error
        raise


def read_file(client: HdfsClient, name: str, path: str, offset: int, length: int) -> memoryview:
    """Return the bytes.

    Raises:
        NoSuchChunkError, ChunkOffsetError, StorageReadError: as the contract has it.
        LeaseHeldError: they are in a block that is being written.
    """
    end = offset + length
    try:
        with _failing_as(StorageReadError, name, FileNotFoundError):
            reader = client.read(path)
            known = len(reader)
            if 0 <= offset <= end <= known:  # the library panics if it is not so
                return memoryview(reader.read_range(offset, length))
            known = client.get_file_info(path).length
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    if 0 <= offset <= end <= known:
        raise LeaseHeldError(f"{name} is being written")
    raise ChunkOffsetError(name, end, known)


def stat_file(client: HdfsClient, name: str, path: str) -> int:
    """Return the length, including what a writer that still has the file has synced."""
    try:
        with _failing_as(StorageReadError, name, FileNotFoundError):
            return client.get_file_info(path).length
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None


def delete_file(client: HdfsClient, name: str, path: str) -> None:
    try:
        with _failing_as(StorageWriteError, name, FileNotFoundError):
            client.delete(path)
    except FileNotFoundError:
        return


def recover_file(client: HdfsClient, name: str, path: str) -> bool:
    """Take the lease from its holder, whose next write fails; return whether the file is closed by now."""
    try:
        with _failing_as(StorageReadError, name, FileNotFoundError):
            return client.recover_lease(path)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None


def close_abandoned_file(client: HdfsClient, name: str, path: str) -> bool:
    """Have a file closed whose holder has not been heard of for a minute; return whether it is by now.

    The name node does this for who wants to append.

    Raises:
        LeaseHeldError: the holder lives, or has died just now.
        NoSuchChunkError, StorageReadError: as the contract has it.
    """
    try:
        with _failing_as(StorageReadError, name, FileExistsError, FileNotFoundError):
            client.append(path).close()
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except FileExistsError as error:
        raise LeaseHeldError(_first_line(error)) from None
    except StorageReadError as error:
        if _RECOVERING in str(error.__cause__):
            return False
        raise
    return True


def list_some(
    entries: Iterator[HdfsStatus], directory: str, root: str, prefix: str, is_first: bool
) -> list[ChunkObject] | None:
    """Return the chunks among the next entries below ``directory``, perhaps none; None: there are no more."""
    page: list[ChunkObject] = []
    try:
        with _failing_as(StorageReadError, directory, FileNotFoundError):
            for _ in range(LIST_PAGE_OBJECTS_MAX):
                entry = next(entries, None)
                if entry is None:
                    return page or None
                is_first = False
                name = None if entry.isdir else decode_chunk_path(entry.path[len(root) + 1 :])
                if name is not None and name.startswith(prefix):
                    page.append(ChunkObject(name, entry.length))
    except FileNotFoundError as error:
        if is_first:
            return None  # no chunk was ever made there
        raise StorageReadError(f"{directory}: something in it went while it was listed") from error
    return page


# ---------------------------------------------------------------------------------- inside


@contextlib.contextmanager
def _failing_as(
    kind: type[StorageReadError | StorageWriteError], name: str, *passing: type[OSError]
) -> Iterator[None]:
    """Raise errors of the library as ``kind``, except those that are ``passing``."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (HeadraceError, *passing)):
            raise
        raise kind(f"{name}: {_first_line(error)}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise kind(f"{name}: hdfs-native panicked: {_first_line(error)}") from error


@contextlib.contextmanager
def _closing(writer: HdfsWriter) -> Iterator[None]:
    """Close the file, which gives its lease back. A failure counts, but never instead of an earlier one."""
    try:
        yield
    except BaseException:
        _succeeds(writer.close)
        raise
    writer.close()


def _write_all(writer: HdfsWriter, buffers: Sequence[Buffer], at: int, block_bytes: int) -> None:
    """Write everything, from offset ``at`` of the file on.

    A block that is full is synced here: the next write closes it, and closing syncs nothing. The library
    takes what is not ``bytes`` byte by byte, so it gets nothing else.
    """
    for piece in _pieces(buffers):
        rest = memoryview(piece)
        while rest:
            part = rest[: min(_PIECE_BYTES, block_bytes - at % block_bytes)]
            writer.write(piece if len(part) == len(piece) and isinstance(piece, bytes) else bytes(part))
            at += len(part)
            rest = rest[len(part) :]
            if at % block_bytes == 0:
                writer.hsync()


def _pieces(buffers: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield large buffers as they are, and neighbouring small ones joined."""
    small: list[Buffer] = []
    size = 0
    for buffer in buffers:
        small.append(buffer)
        size += len(buffer)
        if size >= _PIECE_BYTES:
            yield small[0] if len(small) == 1 else b"".join(small)
            small, size = [], 0
    if size:
        yield b"".join(small)


def _is_full(error: StorageWriteError) -> bool:
    return any(sign in str(error) or sign in str(error.__cause__) for sign in _FULL)


def _has_length(client: HdfsClient, path: str, length: int) -> bool:
    try:
        return client.get_file_info(path).length == length and len(client.read(path)) == length
    except BaseException:  # noqa: BLE001 - then it is not known
        return False


def _first_line(error: BaseException) -> str:
    """Return what the name node said, without the frames of its stack."""
    return str(error).partition("\n")[0].partition("\\n\\tat ")[0][:500]


def _succeeds(call: Callable[..., object], *args: object) -> bool:
    try:
        call(*args)
    except BaseException:  # noqa: BLE001 - tidying up; what matters was raised before
        return False
    return True
