"""What a data directory was made for: the facts that may never change under the data, checked at every start.

``headrace.json`` holds the format version and the number of containers. Segments are spread over containers
by a hash of their names, so another number would look for every segment in the wrong place. Format page:
``docs/formats/data-directory.md``.
"""

from __future__ import annotations

import json
import os
from typing import Final

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.runtime.filesystem import Filesystem

FILE_NAME: Final = "headrace.json"
FORMAT: Final = 1
_BYTES_MAX: Final = 65536


def check_data_directory(files: Filesystem, directory: str, containers: int) -> None:
    """Record what a new directory is made for, or compare with what it was made for.

    Raises:
        InvalidArgumentError: the directory was made with another number of containers, or by a newer version.
        DataCorruptionError: its record cannot be read.
    """
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        if files.exists(f"{directory}/wal"):
            raise DataCorruptionError(
                "the data directory holds a log but not the record of its make-up", path=path
            )
        _write(files, directory, json.dumps({"format": FORMAT, "containers": containers}).encode() + b"\n")
        return
    record = _read(files, path)
    if record.get("format") != FORMAT:
        raise InvalidArgumentError(
            f"{path}: data of format {record.get('format')}, this version of Headrace reads format {FORMAT}"
        )
    if record.get("containers") != containers:
        raise InvalidArgumentError(
            f"{directory} was made with {record.get('containers')} containers, {containers} were asked "
            f"for: the number is fixed once data exist; leave it out or give {record.get('containers')}"
        )


def containers_of(files: Filesystem, directory: str) -> int | None:
    """Return the number of containers an existing directory was made with, None for a new one."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    containers = _read(files, path).get("containers")
    if not isinstance(containers, int) or containers < 1:
        raise DataCorruptionError("the record names no number of containers", path=path)
    return containers


def _read(files: Filesystem, path: str) -> dict[str, object]:
    fd = files.open(path, os.O_RDONLY)
    try:
        buffer = bytearray(_BYTES_MAX)
        count = files.pread_into(fd, memoryview(buffer), 0)
    finally:
        files.close(fd)
    try:
        record = json.loads(bytes(buffer[:count]))
    except ValueError as error:
        raise DataCorruptionError(f"not JSON: {error}", path=path) from error
    if not isinstance(record, dict):
        raise DataCorruptionError("not a JSON object", path=path)
    return record


def _write(files: Filesystem, directory: str, content: bytes) -> None:
    temporary = f"{directory}/.{FILE_NAME}"
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        files.pwrite(fd, content, 0)
        files.fsync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, f"{directory}/{FILE_NAME}")
    files.fsync_directory(directory)
