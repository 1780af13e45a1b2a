"""Chunks as files below one directory: a local disk, NFS, any mounted file system.

Writes return when data and, for a new file, its name are durable. Blocking calls run in the pool and share no
state with the loop: a thread opens the file by its path, works and closes it, so a caller that was cancelled
leaves nothing behind. Only the loop keeps descriptors, for reads of what is in the page cache: those are
tried without blocking first, because a hop to a thread costs twice as much as a warm read.

Directories are never removed: one per stream that ever had a chunk here.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.runtime.blocking import BlockingWork
from headrace.runtime.filesystem import Filesystem, OsFilesystem
from headrace.runtime.settings import tunable
from headrace.storage.providers.chunk_paths import (
    FILE_SUFFIX,
    decode_chunk_path,
    encode_chunk_path,
    prefix_directory,
)
from headrace.storage.providers.contract import (
    Buffer,
    ChunkObject,
    ProviderStatistics,
    check_chunk_name,
)

_VECTORS_MAX: Final = 1024
_LIST_OBJECTS: Final = 250
"""Objects listed in one go of a thread: it shares the interpreter with the loop."""

_SYNCED_DIRECTORIES_MAX: Final = 10_000
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_RWF_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemProviderConfig:
    """How chunk files are read."""

    descriptors_max: int = tunable(
        256, low=1, high=100_000, simulate=(1, 3), help="Files kept open for reads."
    )
    read_at_once_bytes_max: int = tunable(
        1 << 20,
        low=0,
        high=64 << 20,
        simulate=(0, 100),
        help="Longer reads go to a thread even if they are warm: copying would hold up the loop.",
    )


class FilesystemChunkProvider:
    """Files below ``root``, which must exist. Belongs to one event loop."""

    def __init__(
        self,
        root: str,
        filesystem: Filesystem,
        pool: BlockingWork,
        config: FilesystemProviderConfig | None = None,
    ) -> None:
        self._root = root
        self._files = filesystem
        self._pool = pool
        self._config = config or FilesystemProviderConfig()
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._synced_directories: set[str] = set()
        # The simulated disk has no page cache to ask.
        self._reads_at_once = bool(_RWF_NOWAIT) and isinstance(filesystem, OsFilesystem)
        self._statistics = ProviderStatistics()

    @property
    def supports_append(self) -> bool:
        return True

    # ---------------------------------------------------------------------------------- writing

    async def create(self, name: str, buffers: Sequence[Buffer] = ()) -> None:
        check_chunk_name(name)
        path = self._path(name)
        directory = path.rpartition("/")[0]
        unsynced: Sequence[str] = () if directory in self._synced_directories else self._lineage(directory)
        await self._pool.run(_create_file, self._files, name, path, unsynced, buffers)
        if len(self._synced_directories) >= _SYNCED_DIRECTORIES_MAX:
            self._synced_directories.clear()
        self._synced_directories.add(directory)
        self._statistics.objects_created += 1
        self._statistics.bytes_written += sum(map(len, buffers))

    async def append(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        await self._pool.run(_append_file, self._files, name, self._path(name), offset, buffers)
        self._statistics.bytes_written += sum(map(len, buffers))

    async def delete(self, name: str) -> None:
        self._forget(name)
        removed = await self._pool.run(_delete_file, self._files, name, self._path(name))
        self._forget(name)  # a read may have opened it meanwhile
        self._statistics.objects_deleted += removed

    # ---------------------------------------------------------------------------------- reading

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        view = memoryview(bytearray(length))
        done = self.read_at_once(name, offset, view)
        if done < length:
            more = await self._pool.run(
                _read_file, self._files, name, self._path(name), view[done:], offset + done
            )
            done += more
            self._statistics.bytes_read += more
            self._keep_open(name)
        if done < length:
            raise ChunkOffsetError(name, offset + length, offset + done)
        self._statistics.reads += 1
        return view

    def read_at_once(self, name: str, offset: int, buffer: memoryview) -> int:
        """Copy what the page cache holds; only of files that an earlier read has left open."""
        descriptor = self._descriptors.get(name)
        if descriptor is None or offset < 0 or not 0 < len(buffer) <= self._config.read_at_once_bytes_max:
            return 0
        try:
            done = os.preadv(descriptor, (buffer,), offset, _RWF_NOWAIT)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # some mounted file systems cannot
                self._reads_at_once = False
                self._close_descriptors()
            return 0  # not cached, or a failure the thread will meet and translate
        self._descriptors.move_to_end(name)
        statistics = self._statistics
        statistics.reads_at_once += done == len(buffer)
        statistics.bytes_read += done
        return done

    async def info(self, name: str) -> ChunkObject:
        length = await self._pool.run(_stat_file, self._files, name, self._path(name))
        return ChunkObject(name, length)

    async def exists(self, name: str) -> bool:
        return await self._pool.run(self._files.exists, self._path(name))

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        pending = [prefix_directory(prefix)]
        while pending:
            page = await self._pool.run(_list_some, self._files, self._root, pending, prefix)
            if page:
                yield page

    # ---------------------------------------------------------------------------------- ending

    async def close(self) -> None:
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        while self._descriptors:
            self._files.close(self._descriptors.popitem()[1])

    def statistics(self) -> ProviderStatistics:
        return replace(self._statistics)

    # ---------------------------------------------------------------------------------- inside

    def _path(self, name: str) -> str:
        return f"{self._root}/{encode_chunk_path(name)}"

    def _lineage(self, directory: str) -> Sequence[str]:
        """Return ``directory`` and those above it up to the root: each must be synced for a file to last."""
        lineage = []
        while len(directory) > len(self._root):
            lineage.append(directory)
            directory = directory.rpartition("/")[0]
        lineage.append(self._root)
        return lineage

    def _keep_open(self, name: str) -> None:
        """Open for the next read. The thread has just opened the same path: its directories are in memory."""
        if not self._reads_at_once or name in self._descriptors:
            return
        try:
            descriptor = self._files.open(self._path(name), os.O_RDONLY)
        except OSError:
            return  # deleted meanwhile, or no descriptors left; reads go on in threads
        self._descriptors[name] = descriptor
        if len(self._descriptors) > self._config.descriptors_max:
            self._files.close(self._descriptors.popitem(last=False)[1])

    def _forget(self, name: str) -> None:
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            self._files.close(descriptor)


# -------------------------------------------------------------------------------------- in the pool's threads


def _create_file(
    files: Filesystem, name: str, path: str, unsynced: Sequence[str], buffers: Sequence[Buffer]
) -> None:
    try:
        descriptor = _open_new(files, path)
    except FileExistsError:
        raise ChunkExistsError(name) from None
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError(f"{name}: {error}") from error
        raise StorageWriteError(f"{name}: {error}") from error
    try:
        try:
            _write_all(files, descriptor, buffers, 0)
            files.fsync(descriptor)
        finally:
            files.close(descriptor)
        for directory in unsynced or [path.rpartition("/")[0]]:
            files.fsync_directory(directory)
    except OSError as error:
        if error.errno in _FULL and _succeeds(files.unlink, path):
            raise StorageFullError(f"{name}: {error}") from error
        raise StorageWriteError(f"{name}: {error}") from error


def _open_new(files: Filesystem, path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return files.open(path, flags)
    except FileNotFoundError:
        files.mkdir(path.rpartition("/")[0])
        return files.open(path, flags)


def _append_file(files: Filesystem, name: str, path: str, offset: int, buffers: Sequence[Buffer]) -> None:
    try:
        descriptor = files.open(path, os.O_WRONLY)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except OSError as error:
        raise StorageWriteError(f"{name}: {error}") from error
    try:
        length = files.size(descriptor)
        if length != offset:
            raise ChunkOffsetError(name, offset, length)
        _write_all(files, descriptor, buffers, offset)
        files.fdatasync(descriptor)
    except OSError as error:
        # What was there before is durable; cutting off what we added restores exactly that.
        if error.errno in _FULL and _succeeds(files.ftruncate, descriptor, offset):
            raise StorageFullError(f"{name}: {error}") from error
        raise StorageWriteError(f"{name}: {error}") from error
    finally:
        files.close(descriptor)


def _write_all(files: Filesystem, descriptor: int, buffers: Sequence[Buffer], offset: int) -> None:
    pending = [memoryview(buffer) for buffer in buffers if len(buffer)]
    first = 0
    while first < len(pending):
        count = files.pwritev(descriptor, pending[first : first + _VECTORS_MAX], offset)
        if count <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        offset += count
        while first < len(pending) and count >= len(pending[first]):
            count -= len(pending[first])
            first += 1
        if count:
            pending[first] = pending[first][count:]


def _read_file(files: Filesystem, name: str, path: str, view: memoryview, offset: int) -> int:
    try:
        descriptor = files.open(path, os.O_RDONLY)
        try:
            done = 0
            while done < len(view):
                count = files.pread_into(descriptor, view[done:], offset + done)
                if count == 0:
                    break
                done += count
            return done
        finally:
            files.close(descriptor)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except OSError as error:
        raise StorageReadError(f"{name}: {error}") from error


def _stat_file(files: Filesystem, name: str, path: str) -> int:
    try:
        return files.stat_size(path)
    except FileNotFoundError:
        raise NoSuchChunkError(name) from None
    except OSError as error:
        raise StorageReadError(f"{name}: {error}") from error


def _delete_file(files: Filesystem, name: str, path: str) -> bool:
    """Remove the file. Its name may reappear after a power failure, as an unreferenced object."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageWriteError(f"{name}: {error}") from error
    return True


def _list_some(files: Filesystem, root: str, pending: list[str], prefix: str) -> list[ChunkObject]:
    """Take paths from ``pending`` until a page is full; what is met in a directory is added to it.

    ``pending`` has at most the names of the directories on one path, so it is as long as the longest of
    these.
    """
    page: list[ChunkObject] = []
    while pending and len(page) < _LIST_OBJECTS:
        path = pending.pop()
        name = decode_chunk_path(path)
        if name is not None:
            if name.startswith(prefix):
                _add_object(files, page, name, f"{root}/{path}")
        elif not path.endswith(FILE_SUFFIX):
            inside = f"{path}/" if path else ""
            pending += [
                inside + entry for entry in _list_directory(files, f"{root}/{path}" if path else root)
            ]
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
