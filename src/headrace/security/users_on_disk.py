"""Users files on disk: read whole, replaced whole, changed by one process at a time."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from headrace.errors import InvalidArgumentError
from headrace.runtime.filesystem import OsFilesystem
from headrace.security.users_file import FILE_BYTES_MAX, Users

OTHERS: Final = 0o077
"""Bits of a mode that let others than the owner read or change a file."""


class Version(NamedTuple):
    """Differs for a file that was changed or replaced."""

    device: int
    inode: int
    size: int
    changed_ns: int


def version_of(path: str) -> Version:
    """Raises OSError if there is no such file."""
    return _version(os.stat(path))  # noqa: PTH116 - one call on a str, no Path object


def read_users(path: str) -> tuple[Users, Version, int]:
    """Return the users of a file, which version of it that was, and its mode.

    Raises:
        InvalidArgumentError: the file is no users file; names the path and the line.
        OSError: it cannot be read.
    """
    # Without O_NONBLOCK, opening a pipe without a writer would never return.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise InvalidArgumentError(f"{path}: it is no file, so no users file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    try:
        return Users.parse(data), _version(status), status.st_mode & 0o7777
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


def change_users(path: str, change: Callable[[Users], Users]) -> None:
    """Replace the users of a file by what ``change`` makes of them; without a file it begins with none.

    One process at a time, the others wait. Readers find the former or the new content, never a part, also
    after a failure of power. A new file is its owner's alone; one that is replaced keeps mode and owner.

    Raises:
        InvalidArgumentError: the file is no users file.
        OSError: it cannot be read or replaced; nothing was changed.
        Exception: whatever ``change`` raises.
    """
    target = os.path.realpath(path)  # a link stays one
    with _alone(os.path.dirname(target)):  # noqa: PTH120 - a str
        try:
            former: os.stat_result | None = os.stat(target)  # noqa: PTH116 - as above
            users, _, _ = read_users(target)
        except FileNotFoundError:
            former, users = None, Users()
        _replace(target, change(users).render(), former)


@contextmanager
def _alone(directory: str) -> Iterator[None]:
    """Hold the lock of a directory: that of the file would be of a file that is gone once it is replaced."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: str, data: bytes, former: os.stat_result | None) -> None:
    path = Path(target)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            if former is not None:
                made = os.fstat(descriptor)
                if (former.st_uid, former.st_gid) != (made.st_uid, made.st_gid):
                    os.fchown(descriptor, former.st_uid, former.st_gid)
                os.fchmod(descriptor, former.st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)  # noqa: PTH105 - as above
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - as above
        raise
    OsFilesystem().fsync_directory(str(path.parent))


def _version(status: os.stat_result) -> Version:
    return Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
