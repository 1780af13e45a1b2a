"""What a data directory was made for: the facts that may never change under the data, checked at every start.

``headrace.json`` holds the format version, the number of containers, the id of the system, the URI of its
store, if its chunks are not in the directory, and that of its cluster, if it has one. Segments are spread
over containers by a hash of their names, so another number would look for every segment in the wrong place.
Format page: ``docs/formats/data-directory.md``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.limits import CONTAINERS_MAX
from headrace.model.data_format import DATA_FORMAT
from headrace.runtime.filesystem import Filesystem
from headrace.storage.identity_format import is_system

CONTAINERS_DEFAULT: Final = 4

FILE_NAME: Final = "headrace.json"
FORMAT: Final = DATA_FORMAT
_FORMAT_OLDEST: Final = 1
NO_FACTS: Final[Mapping[str, str]] = MappingProxyType({})
_BYTES_MAX: Final = 65536


def check_data_directory(
    files: Filesystem, directory: str, containers: int, facts: Mapping[str, str] = NO_FACTS
) -> None:
    """Record what a new directory is made for, and more ``facts``; or compare with what it was made for.

    Raises:
        InvalidArgumentError: the directory was made with another number of containers, or by a newer version.
        DataCorruptionError: its record cannot be read, or names a number that no server can have.
    """
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        if files.exists(f"{directory}/wal"):
            raise DataCorruptionError(
                "the data directory holds a log but no record of its format and containers", path=path
            )
        make_record(files, directory, containers, facts)
        return
    made_with = _count_of(_read(files, path), path)
    if made_with != containers:
        raise InvalidArgumentError(
            f"{directory} was made with {made_with} containers, {containers} were "
            f"requested: the number is fixed once data exist; leave it out or give {made_with}"
        )


def make_record(
    files: Filesystem,
    directory: str,
    containers: int,
    facts: Mapping[str, str] = NO_FACTS,
    version: int = FORMAT,
) -> None:
    """Record what a directory without data is made for, in place of any other record. Raises: OSError."""
    _write(files, directory, {"format": version, "containers": containers, **facts})


def raise_format(
    files: Filesystem, directory: str, facts: Mapping[str, str] = NO_FACTS, version: int = FORMAT
) -> None:
    """Record the format of a directory that was checked, unless it has a later one, before all other writes;
    and ``facts``.

    Raises:
        OSError: the record could not be written; it is as it was.
    """
    record = _read(files, f"{directory}/{FILE_NAME}")
    present = record["format"]
    assert isinstance(present, int)
    changed = _known({**record, "format": max(version, present), **facts})
    if changed != record:  # a full disk must not prevent a start
        _write(files, directory, changed)


def containers_of(files: Filesystem, directory: str) -> int | None:
    """Return the number of containers an existing directory was made with, None for a new one.

    Raises:
        InvalidArgumentError: it was made by a newer version.
        DataCorruptionError: its record cannot be read, or names a number that no server can have.
    """
    path = f"{directory}/{FILE_NAME}"
    return _count_of(_read(files, path), path) if files.exists(path) else None


def system_of(files: Filesystem, directory: str) -> str | None:
    """Return the id of the system whose data these are; None if the directory is new, or has none yet.

    Raises:
        DataCorruptionError: its record cannot be read, or has something else there.
    """
    path = f"{directory}/{FILE_NAME}"
    system = _read(files, path).get("system") if files.exists(path) else None
    if system is None:
        return None
    if not isinstance(system, str) or not is_system(system):
        raise DataCorruptionError("the record has an id of a system that is none", path=path)
    return system


def recorded_storage(files: Filesystem, directory: str) -> str:
    """Return the URI of the chunks of a directory; "" if they are in it, or if its record cannot be read."""
    return _recorded(files, directory, "storage")


def recorded_log(files: Filesystem, directory: str) -> str:
    """Return the URI of the place of a directory's logs; "" if they are in it, or if its record cannot be
    read.
    """
    return _recorded(files, directory, "log")


def recorded_cluster(files: Filesystem, directory: str) -> str:
    """Return the URI of what the stores agree through that have a directory; "" if it is no cluster's, or if
    its record cannot be read.
    """
    return _recorded(files, directory, "cluster")


def _recorded(files: Filesystem, directory: str, key: str) -> str:
    path = f"{directory}/{FILE_NAME}"
    try:
        text = _read(files, path).get(key, "") if files.exists(path) else ""
    except (DataCorruptionError, OSError):
        return ""  # whoever needs the record says so
    return text if isinstance(text, str) else ""


def check_is_directory(files: Filesystem, directory: str) -> None:
    """Raises: InvalidArgumentError if this is a file, or below one; not if it does not exist."""
    try:
        files.listdir(directory)
    except NotADirectoryError:
        raise InvalidArgumentError(
            f"{directory} is a file, or lies below one: --data-dir names the directory of all data"
        ) from None
    except FileNotFoundError:
        pass


def find_used_log(files: Filesystem, directory: str) -> str | None:
    """Return an entry of the directory of logs that is no empty directory; None if there is none."""
    logs = f"{directory}/wal"
    names = files.listdir(logs) if files.exists(logs) else []
    return next((f"{logs}/{name}" for name in names if not _is_empty(files, f"{logs}/{name}")), None)


def _is_empty(files: Filesystem, path: str) -> bool:
    try:
        return not files.listdir(path)
    except NotADirectoryError:
        return False


def describe_surplus(logs: list[int], containers: int) -> str:
    """Say what is wrong if there are logs of more containers than the record names; empty if there are not.

    A server of so few would look for every segment in the wrong place, and answer that it does not exist.
    """
    surplus = [number for number in logs if number >= containers]
    if not surplus:
        return ""
    return (
        f"the record names {containers} containers, but the log of container {surplus[0]} exists: write the "
        f"number that the directory was made with, at least {surplus[-1] + 1}"
    )


def _count_of(record: dict[str, object], path: str) -> int:
    version, containers = record.get("format"), record.get("containers")
    if not isinstance(version, int) or not _is_number(version):
        raise DataCorruptionError("the record names no format", path=path)
    if not _FORMAT_OLDEST <= version <= FORMAT:
        raise InvalidArgumentError(
            f"{path}: data of format {version}, "
            f"this version of Headrace reads formats {_FORMAT_OLDEST} to {FORMAT}"
        )
    if not isinstance(containers, int) or not _is_number(containers):
        raise DataCorruptionError("the record names no number of containers", path=path)
    if not 1 <= containers <= CONTAINERS_MAX:
        raise DataCorruptionError(
            f"the record names {containers} containers, there are 1 to {CONTAINERS_MAX}", path=path
        )
    return containers


def _is_number(value: object) -> bool:
    """Whether it is a whole number in JSON, where ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _read(files: Filesystem, path: str) -> dict[str, object]:
    fd = files.open(path, os.O_RDONLY)
    try:
        buffer = bytearray(_BYTES_MAX)
        count = files.pread_into(fd, memoryview(buffer), 0)
    except OSError as error:
        error.filename = path  # the system knows only the descriptor
        raise
    finally:
        files.close(fd)
    try:
        record = json.loads(bytes(buffer[:count]))
    except (ValueError, RecursionError) as error:
        raise DataCorruptionError(f"not JSON: {error}", path=path) from error
    if not isinstance(record, dict):
        raise DataCorruptionError("not a JSON object", path=path)
    return record


def _known(record: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in record.items() if value != ""}


def _write(files: Filesystem, directory: str, record: Mapping[str, object]) -> None:
    """Replace the record; a fact that is "" is left out."""
    content = json.dumps(_known(record)).encode() + b"\n"
    temporary = f"{directory}/.{FILE_NAME}"
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        files.pwrite(fd, content, 0)
        files.fsync(fd)
    except OSError as error:
        error.filename = temporary  # as above
        raise
    finally:
        files.close(fd)
    files.rename(temporary, f"{directory}/{FILE_NAME}")
    files.fsync_directory(directory)
