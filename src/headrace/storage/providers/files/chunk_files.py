"""What the filesystem provider does in its threads: one function for each blocking call.

They share no state with the loop: each opens the file by its path, works and closes it, so nothing is left
open after a cancelled caller. Here ``OSError`` becomes a ``HeadraceError``.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.limits import MIB
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.contract import Buffer, ChunkObject
from headrace.storage.providers.files.chunk_paths import (
    FILE_SUFFIX,
    decode_chunk_path,
    encode_chunk_path,
    is_chunk_entry,
)
from headrace.storage.providers.files.written_window import StaleRange

_VECTORS_MAX: Final = 1024
_WRITE_BACK_BYTES: Final = 4 * MIB
"""After so many bytes the system is asked to write them back, while the next ones are copied."""

_LIST_OBJECTS: Final = 250
"""Objects listed and directories read by one call of a thread, which shares the interpreter with the
loop."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

_AT_ONCE: Final = os.O_NONBLOCK
"""Opening what should be a chunk file. It changes nothing for a file; a pipe in its place whose other end is
not open would block the thread for ever. Reading from a pipe, or writing at an offset, raises an OSError.
"""


class Wanted:
    """Whether the caller of a create still waits; set by the loop, read by the thread.

    If it looks before that, the file is there when its caller deletes it.
    """

    __slots__ = ("still",)

    def __init__(self) -> None:
        self.still = True


def create_file(
    files: Filesystem,
    name: str,
    path: str,
    unsynced: Sequence[str],
    proof: str,
    buffers: Sequence[Buffer],
    beside: Callable[[], None] | None,
    wanted: Wanted,
) -> None:
    """Make a file. ``unsynced`` are the directories that may be new, or none: then its own is known to exist.

    ``proof``, if not empty, is a file without which no directory is made. A file that is not ``wanted`` any
    more is removed again: its caller may have deleted it already, before it was there.

    Raises:
        ChunkExistsError: there is one.
        StorageFullError: there is no space; nothing is left of it.
        StorageWriteError: it is there or not, whole or in part. Or its directory is gone although it was
            there: if a file system was unmounted, what is written now would be hidden later.
    """
    try:
        descriptor = _open_new(files, path, proof, may_make=bool(unsynced))
    except FileExistsError:
        raise ChunkExistsError(name) from None
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError(f"{name}: {error}") from error
        raise StorageWriteError(f"{name}: {error}") from error
    try:
        with _closing(files, descriptor):
            _write_all(files, descriptor, buffers, 0)
            if beside is not None:
                beside()
            files.fsync(descriptor)
        for directory in unsynced or [path.rpartition("/")[0]]:
            files.fsync_directory(directory)
    except OSError as error:
        if error.errno in _FULL and _succeeds(files.unlink, path):
            raise StorageFullError(f"{name}: {error}") from error
        raise StorageWriteError(f"{name}: {error}") from error
    finally:
        if not wanted.still:
            _succeeds(files.unlink, path)


def _open_new(files: Filesystem, path: str, proof: str, *, may_make: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    directory = path.rpartition("/")[0]
    try:
        return files.open(path, flags)
    except FileNotFoundError as error:
        if not may_make:
            raise StorageWriteError(
                f"{directory} is gone, which held chunks: mount its file system, or make it again"
            ) from error
        if proof and not files.exists(proof):
            raise StorageWriteError(
                f"{proof} is gone: mount the file system that holds the chunks, or make it again"
            ) from error
        files.mkdir(directory)
        return files.open(path, flags)


def append_file(
    files: Filesystem,
    name: str,
    path: str,
    offset: int,
    buffers: Sequence[Buffer],
    beside: Callable[[], None] | None,
) -> None:
    try:
        descriptor = files.open(path, os.O_WRONLY | _AT_ONCE)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except OSError as error:
        raise StorageWriteError(f"{name}: {error}") from error
    try:
        with _closing(files, descriptor):
            try:
                length = files.size(descriptor)
                if length != offset:
                    raise ChunkOffsetError(name, offset, length)
                _write_all(files, descriptor, buffers, offset)
                if beside is not None:
                    beside()
                files.fdatasync(descriptor)
            except OSError as error:
                # What was there before is durable; removing what was added restores exactly that.
                if error.errno in _FULL and _succeeds(files.ftruncate, descriptor, offset):
                    raise StorageFullError(f"{name}: {error}") from error
                raise
    except OSError as error:
        raise StorageWriteError(f"{name}: {error}") from error


@contextlib.contextmanager
def _closing(files: Filesystem, descriptor: int) -> Iterator[None]:
    """Close a file that is written inside. If that fails it counts, but never instead of what failed before.

    Raises:
        OSError: closing failed. Some mounted file systems report a failed write only then.
    """
    try:
        yield
    except BaseException:
        close_quietly(files, descriptor)
        raise
    files.close(descriptor)


def close_quietly(files: Filesystem, descriptor: int) -> None:
    """Close a file that is not needed any more; a failure changes nothing then."""
    _succeeds(files.close, descriptor)


def _write_all(files: Filesystem, descriptor: int, buffers: Sequence[Buffer], offset: int) -> None:
    """Write everything; large amounts are being written back when this returns."""
    pending = [memoryview(buffer) for buffer in buffers if len(buffer)]
    is_large = sum(map(len, pending)) >= _WRITE_BACK_BYTES
    first = 0
    while first < len(pending):
        after, size = first, 0
        while after < len(pending) and after - first < _VECTORS_MAX and size < _WRITE_BACK_BYTES:
            size += len(pending[after])
            after += 1
        count = files.pwritev(descriptor, pending[first:after], offset)
        if count <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if is_large:
            files.start_writing_back(descriptor, offset, count)
        offset += count
        while first < len(pending) and count >= len(pending[first]):
            count -= len(pending[first])
            first += 1
        if count:
            pending[first] = pending[first][count:]


def drop_from_cache(files: Filesystem, root: str, stale: Sequence[StaleRange]) -> int:
    """Drop pages of chunks below ``root`` from the page cache; return how many bytes that were at most.

    Files that are gone, and failures, are passed over: this changes where bytes are read from, not what they
    are.
    """
    dropped = 0
    for name, offset, length in stale:
        try:
            descriptor = files.open(f"{root}/{encode_chunk_path(name)}", os.O_RDONLY | _AT_ONCE)
            try:
                files.drop_cached(descriptor, offset, length)
                dropped += length
            finally:
                files.close(descriptor)
        except OSError:
            continue
    return dropped


class DescriptorHandover:
    """A descriptor that the thread that opened it gives to the loop, whose caller may have been cancelled.

    Opening may stall like any other call, so the loop does not open files itself.
    """

    __slots__ = ("_abandoned", "_descriptors", "_files")

    def __init__(self, files: Filesystem) -> None:
        self._files = files
        self._descriptors: list[int] = []
        self._abandoned = False

    def put(self, descriptor: int) -> None:
        """In the thread: hand it over, or close it if it was abandoned."""
        self._descriptors.append(descriptor)
        if self._abandoned:
            self.abandon()

    def take(self) -> int:
        return self._descriptors.pop()

    def abandon(self) -> None:
        """On the loop: it is not needed. The second of the two sides closes it."""
        self._abandoned = True
        try:
            descriptor = self._descriptors.pop()
        except IndexError:
            return
        close_quietly(self._files, descriptor)


def read_file(
    files: Filesystem,
    name: str,
    path: str,
    view: memoryview,
    done: int,
    offset: int,
    length: int,
    handover: DescriptorHandover | None,
) -> tuple[memoryview, int]:
    """Read what is missing behind the first ``done`` bytes of ``view``; an empty one is made here.

    So a read that waits for a thread takes no memory. The file's descriptor goes to ``handover``, if given.

    Returns:
        The memory, and how many bytes were read now: fewer than missing only at the end of the file.
    """
    begun = done
    try:
        descriptor = files.open(path, os.O_RDONLY | _AT_ONCE)
        try:
            if len(view) < length:
                view = memoryview(bytearray(length))
            while done < length:
                count = files.pread_into(descriptor, view[done:], offset + done)
                if count == 0:
                    break
                done += count
        except BaseException:
            close_quietly(files, descriptor)
            raise
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except OSError as error:
        raise StorageReadError(f"{name}: {error}") from error
    if handover is None:
        close_quietly(files, descriptor)
    else:
        handover.put(descriptor)
    return view, done - begun


def stat_file(files: Filesystem, name: str, path: str) -> int:
    try:
        return files.stat_size(path)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except OSError as error:
        raise StorageReadError(f"{name}: {error}") from error


def delete_file(files: Filesystem, name: str, path: str) -> None:
    """Remove the file. Its name may reappear after a power failure, as an unreferenced object."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageWriteError(f"{name}: {error}") from error


def list_some(files: Filesystem, root: str, pending: list[str], prefix: str) -> list[ChunkObject]:
    """Take paths from ``pending`` until a page is full, or many directories were read; the entries of one are
    added to ``pending``. The page may be empty then.

    ``pending`` has at most the names of the directories on one path, so it is as long as the longest of
    these. Links to directories are not followed: what lies there may have another name, under which it would
    be taken for an orphan and deleted.
    """
    page: list[ChunkObject] = []
    looks = 0
    while pending and len(page) + looks < _LIST_OBJECTS:
        path = pending.pop()
        name = decode_chunk_path(path)
        if name is not None:
            if name.startswith(prefix):
                _add_object(files, page, name, f"{root}/{path}")
        elif not path.endswith(FILE_SUFFIX) and not (path and files.is_link(f"{root}/{path}")):
            looks += 1
            inside = f"{path}/" if path else ""
            entries = _list_directory(files, f"{root}/{path}" if path else root)
            pending += [inside + entry for entry in entries if is_chunk_entry(entry)]
    return page


def _add_object(files: Filesystem, page: list[ChunkObject], name: str, path: str) -> None:
    try:
        page.append(ChunkObject(name, files.stat_size(path)))
    except FileNotFoundError:
        return  # deleted meanwhile
    except OSError as error:
        raise StorageReadError(f"{path}: {error}") from error


def _list_directory(files: Filesystem, directory: str) -> list[str]:
    try:
        return files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageReadError(f"{directory}: {error}") from error


def _succeeds(call: object, *args: object) -> bool:
    assert callable(call)
    try:
        call(*args)
    except OSError:
        return False
    return True
