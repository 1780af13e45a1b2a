"""A door to the disk that opens inwards only: whatever would change a file is refused, whoever asks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NoReturn

from headrace.runtime.filesystem import Buffer, Filesystem, OsFilesystem

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ReadOnlyFiles:
    """A ``Filesystem`` for inspection. Reading passes through; all else raises PermissionError."""

    def __init__(self, files: Filesystem | None = None) -> None:
        self._files = OsFilesystem() if files is None else files

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if flags & _WRITING:
            _refuse(path)
        # Of a pipe without a writer the opening would never return; what is read from one is an OSError.
        return self._files.open(path, flags | os.O_NONBLOCK, mode)

    def close(self, fd: int) -> None:
        self._files.close(fd)

    def pread_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        return self._files.pread_into(fd, buffer, offset)

    def size(self, fd: int) -> int:
        return self._files.size(fd)

    def stat_size(self, path: str) -> int:
        return self._files.stat_size(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def is_link(self, path: str) -> bool:
        return self._files.is_link(path)

    def listdir(self, path: str) -> list[str]:
        return self._files.listdir(path)

    def free_bytes(self, path: str) -> int:
        return self._files.free_bytes(path)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:  # noqa: ARG002 - refused whatever it is
        _refuse(f"descriptor {fd}")

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:  # noqa: ARG002 - as above
        _refuse(f"descriptor {fd}")

    def start_writing_back(self, fd: int, offset: int, length: int) -> None:  # noqa: ARG002 - as above
        _refuse(f"descriptor {fd}")

    def drop_cached(self, fd: int, offset: int, length: int) -> None:  # noqa: ARG002 - as above
        _refuse(f"descriptor {fd}")

    def fdatasync(self, fd: int) -> None:
        _refuse(f"descriptor {fd}")

    def fsync(self, fd: int) -> None:
        _refuse(f"descriptor {fd}")

    def fsync_directory(self, path: str) -> None:
        _refuse(path)

    def ftruncate(self, fd: int, length: int) -> None:  # noqa: ARG002 - as above
        _refuse(f"descriptor {fd}")

    def allocate(self, fd: int, offset: int, length: int) -> None:  # noqa: ARG002 - as above
        _refuse(f"descriptor {fd}")

    def rename(self, old: str, new: str) -> None:  # noqa: ARG002 - as above
        _refuse(old)

    def unlink(self, path: str) -> None:
        _refuse(path)

    def mkdir(self, path: str) -> None:
        _refuse(path)

    def rmdir(self, path: str) -> None:
        _refuse(path)

    def lock(self, fd: int) -> bool:
        _refuse(f"the lock of descriptor {fd}")


def _refuse(what: str) -> NoReturn:
    raise PermissionError(f"inspection changes nothing, not even {what}")
