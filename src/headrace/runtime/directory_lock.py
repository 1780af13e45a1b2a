"""One process per data directory, or the segment stores of one cluster, however the previous one ended.

The lock is the kernel's (``flock`` on the file ``LOCK``): it ends with its process, also after ``kill -9``
or a power failure, so it is never stale. The file's text only *names* the holder for operators; it decides
nothing. A process that forks without exec shares its locks with its children: children must be
started by exec.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from headrace.errors import DirectoryLockedError
from headrace.runtime.clock import Clock
from headrace.runtime.filesystem import Filesystem

LOCK_NAME: Final = "LOCK"

_HOLDER_BYTES_MAX: Final = 4096
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def describe_process(clock: Clock) -> dict[str, object]:
    """Return what the lock file says about this process."""
    started = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="seconds")
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": started,
        "command": " ".join(sys.argv)[:1024],
    }


class DirectoryLock:
    """Use of a directory from ``acquire`` to ``release`` or the end of the process.

    It is exclusive, or ``shared``: with others that share it, and nobody else.
    """

    def __init__(
        self, filesystem: Filesystem, directory: str, holder: Mapping[str, object], *, shared: bool = False
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._path = f"{directory}/{LOCK_NAME}"
        self._holder = dict(holder)
        self._shared = shared
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    def acquire(self) -> None:
        """Make the directory if need be and take its lock, without waiting.

        Raises:
            DirectoryLockedError: another process holds it; names that process.
            OSError: the directory cannot be used.
        """
        assert self._fd is None
        files = self._filesystem
        files.mkdir(self._directory)
        fd = files.open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if not files.lock(fd, shared=self._shared):
                raise DirectoryLockedError(self._directory, self._read_holder(fd))
            files.ftruncate(fd, 0)
            self._write_holder(fd)
        except BaseException:
            files.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Release the lock. Idempotent.

        The file stays: removing it would let two processes hold locks on two files of the same name.
        """
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            if not self._shared:  # else it may name another one by now
                self._filesystem.ftruncate(fd, 0)
        finally:
            self._filesystem.close(fd)

    def _write_holder(self, fd: int) -> None:
        text = json.dumps(self._holder).encode()[:_HOLDER_BYTES_MAX]
        try:
            self._filesystem.pwrite(fd, text, 0)
        except OSError as error:
            if error.errno not in _FULL:
                raise  # a full disk does not prevent the lock: its holder is only not named

    def _read_holder(self, fd: int) -> str:
        buffer = bytearray(_HOLDER_BYTES_MAX)
        count = self._filesystem.pread_into(fd, memoryview(buffer), 0)
        try:
            holder = json.loads(bytes(buffer[:count]))
            return "pid {pid} on {host} since {since} ({command})".format(**holder)
        except (ValueError, KeyError, TypeError):
            return "another process that has not written its name yet"
