"""The file that marks a data directory whose rebuild has not come to its end: no server uses it.

``REBUILDING`` is JSON with the command's ``from`` and ``at``. It is made first and removed last.
Format page: ``docs/formats/data-directory.md``.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Final

from headrace.data_directory.advised_commands import rebuild_command
from headrace.errors import DataCorruptionError
from headrace.runtime.filesystem import Filesystem

MARK: Final = "REBUILDING"
_BYTES_MAX: Final = 65536


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a rebuild was asked for; ``at_ms`` None: the newest there is."""

    source: str
    at_ms: int | None


def begin_rebuild(files: Filesystem, directory: str, wanted: Wanted) -> None:
    """Mark a directory, durably. Raises: OSError."""
    data = json.dumps(asdict(wanted)).encode() + b"\n"
    temporary = f"{directory}/.{MARK}"
    descriptor = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        files.pwrite(descriptor, data, 0)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(temporary, f"{directory}/{MARK}")
    files.fsync_directory(directory)


def end_rebuild(files: Filesystem, directory: str) -> None:
    """The directory is whole. Raises: OSError."""
    files.unlink(f"{directory}/{MARK}")
    files.fsync_directory(directory)


def is_marked(files: Filesystem, directory: str) -> bool:
    """Whether a rebuild of the directory has begun and not ended: what logs it has are of that rebuild."""
    return files.exists(f"{directory}/{MARK}")


def find_unfinished(files: Filesystem, directory: str) -> Wanted | None:
    """Return what the unfinished rebuild of a directory was asked for; None if there is none.

    Raises:
        DataCorruptionError: the mark cannot be read.
    """
    path = f"{directory}/{MARK}"
    if not files.exists(path):
        return None
    descriptor = files.open(path, os.O_RDONLY)
    try:
        buffer = bytearray(_BYTES_MAX)
        count = files.pread_into(descriptor, memoryview(buffer), 0)
    finally:
        files.close(descriptor)
    try:
        return Wanted(**json.loads(bytes(buffer[:count])))
    except (ValueError, TypeError) as error:
        raise DataCorruptionError(f"the mark of a rebuild cannot be read: {error}", path=path) from error


def refuse_unfinished(files: Filesystem, directory: str) -> None:
    """Raises: DataCorruptionError if a rebuild of the directory has not come to its end."""
    wanted = find_unfinished(files, directory)
    if wanted is not None:
        raise DataCorruptionError(
            "the rebuild of this directory did not come to its end: repeat "
            f"`{rebuild_command(wanted.source, directory, wanted.at_ms)}`",
            path=f"{directory}/{MARK}",
        )
