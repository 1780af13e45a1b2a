"""The file system as a parameter: the calls that the log and the chunk store use, and no others.

Callers translate ``OSError``; nothing here retries, buffers or interprets. Calls block; they run in a thread
of ``runtime.blocking`` unless the caller knows them to be short. The simulated disk
(``headrace.testing.disk``) implements the same protocol and forgets whatever was not synced.

What makes something durable, in the terms of POSIX and of the simulated disk:

================================  ==================================================================
bytes written, file grown         ``fdatasync`` or ``fsync`` of the file, or a handle opened ``O_DSYNC``
a name created, renamed, removed  ``fsync_directory`` of the directory that holds the name
a directory made by ``mkdir``     ``fsync_directory`` of its parent (of each parent, if several were made)
================================  ==================================================================
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

Buffer = bytes | bytearray | memoryview

_SYNC_FILE_RANGE_WRITE: Final = 2
_FADV_DONTNEED: Final = getattr(os, "POSIX_FADV_DONTNEED", None)


def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's call of that name, which Python does not have; None where there is none."""
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


_sync_file_range: Final = _find_sync_file_range()


class Filesystem(Protocol):
    """Files by descriptor, names by path. Every method may raise OSError."""

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """Open a file with ``os.O_*`` flags and return its descriptor, not inherited by child processes."""

    def close(self, fd: int) -> None: ...

    def pread_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        """Read into ``buffer`` and return the count; less than asked only at the end of the file."""

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        """Write and return the count, which may be short (a full disk): the caller checks."""

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Write the buffers one behind the other; at most 1024 of them. May be short like ``pwrite``."""

    def start_writing_back(self, fd: int, offset: int, length: int) -> None:
        """Have the system begin to write back bytes just written, while the caller goes on.

        Guarantees nothing and reports no error: a later ``fdatasync`` waits for less, and reports it.
        """

    def drop_cached(self, fd: int, offset: int, length: int) -> None:
        """Have the system drop clean pages of the range from its cache.

        Guarantees nothing; later reads go to the disk.
        """

    def fdatasync(self, fd: int) -> None: ...

    def fsync(self, fd: int) -> None: ...

    def fsync_directory(self, path: str) -> None:
        """Make the names in directory ``path`` durable."""

    def ftruncate(self, fd: int, length: int) -> None: ...

    def allocate(self, fd: int, offset: int, length: int) -> None:
        """Reserve space; the range reads as zeros where nothing was written, and the file covers it."""

    def size(self, fd: int) -> int: ...

    def stat_size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool:
        """Whether the path exists; OSError if that cannot be found out."""

    def is_link(self, path: str) -> bool:
        """Whether ``path`` is a symbolic link, whatever its target; False if it does not exist."""

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing ``new`` if it exists."""

    def unlink(self, path: str) -> None: ...

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents; fine if it exists."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        """Take the advisory lock of the file; return False if another descriptor holds it. Several may hold
        it ``shared``, and then nobody else.

        The lock ends with the descriptor, hence with the process, however it dies.
        """

    def free_bytes(self, path: str) -> int:
        """Return the bytes an unprivileged writer may still allocate where ``path`` lies."""


class OsFilesystem:
    """The operating system's files; each method is one call."""

    __slots__ = ()

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        return os.open(path, flags, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        return os.preadv(fd, (buffer,), offset)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        return os.pwritev(fd, buffers, offset)

    def start_writing_back(self, fd: int, offset: int, length: int) -> None:
        if _sync_file_range is not None:
            _sync_file_range(fd, offset, length, _SYNC_FILE_RANGE_WRITE)

    def drop_cached(self, fd: int, offset: int, length: int) -> None:
        if _FADV_DONTNEED is not None:
            os.posix_fadvise(fd, offset, length, _FADV_DONTNEED)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def fsync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def ftruncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        os.posix_fallocate(fd, offset, length)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def stat_size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116 - one call on a str, no Path object

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)  # noqa: PTH116 - as above
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)  # noqa: PTH114 - as above

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)  # noqa: PTH105 - as above

    def unlink(self, path: str) -> None:
        os.unlink(path)  # noqa: PTH108 - as above

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - as above

    def rmdir(self, path: str) -> None:
        os.rmdir(path)  # noqa: PTH106 - as above

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 - as above

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def free_bytes(self, path: str) -> int:
        numbers = os.statvfs(path)
        return numbers.f_bavail * numbers.f_frsize
