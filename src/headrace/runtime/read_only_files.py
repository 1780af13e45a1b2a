"""A file system without changes: every call that would change a file is refused."""

from __future__ import annotations

import os
from typing import Final, NoReturn

from headrace.runtime.filesystem import Filesystem, OsFilesystem

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _refuse(*what: object, **_: object) -> NoReturn:
    raise PermissionError(f"inspection changes nothing, not even {what[0]}")


class ReadOnlyFiles:
    """A ``Filesystem`` for inspection. Reading passes through; all else raises PermissionError."""

    def __init__(self, files: Filesystem | None = None) -> None:
        self._files = files = OsFilesystem() if files is None else files
        self.close, self.pread_into, self.size = files.close, files.pread_into, files.size
        self.stat_size, self.exists, self.is_link = files.stat_size, files.exists, files.is_link
        self.listdir, self.free_bytes = files.listdir, files.free_bytes
        self.pwrite = self.pwritev = self.start_writing_back = self.drop_cached = _refuse
        self.fdatasync = self.fsync = self.fsync_directory = self.ftruncate = self.allocate = _refuse
        self.rename = self.unlink = self.mkdir = self.rmdir = self.lock = _refuse

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if flags & _WRITING:
            _refuse(path)
        # Without O_NONBLOCK, opening a pipe without a writer would never return. Reading one is an OSError.
        return self._files.open(path, flags | os.O_NONBLOCK, mode)
