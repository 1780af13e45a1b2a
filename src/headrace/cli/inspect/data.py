"""Finds logs and chunks of a data directory for the verbs that look into it, and the process that uses it."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NoReturn

from headrace.cli.inspect.chunk_access import ChunkAccess
from headrace.cli.output import print_json, print_line, progress
from headrace.data_directory.advised_commands import advised_rebuild, file_location
from headrace.data_directory.chunk_root import chunk_root
from headrace.data_directory.log_place import place_of
from headrace.data_directory.lost_logs import find_unmade
from headrace.data_directory.record import (
    FILE_NAME,
    check_is_directory,
    containers_of,
    describe_surplus,
    find_used_log,
    recorded_cluster,
    recorded_log,
    recorded_storage,
    system_of,
)
from headrace.errors import CorruptionError, DataCorruptionError, InvalidArgumentError, SnapshotLostError
from headrace.model.hashing import container_of
from headrace.runtime.context import system_runtime
from headrace.runtime.directory_lock import LOCK_NAME
from headrace.runtime.kernel_locks import is_locked
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.segment_names import INTERNAL_PREFIX, is_internal_chunk
from headrace.storage.checkpoints.object_names import CHECKPOINTS_PREFIX
from headrace.storage.identity_format import IDENTITY_NAME
from headrace.storage.inspect import StoredChunks
from headrace.storage.providers.location import StorageLocation
from headrace.wal.logs import FoundLog
from headrace.wal.stores import find_logs

_INTERNAL: Final = re.compile(re.escape(INTERNAL_PREFIX) + r"[a-z]+_(\d+)")
_HOLDER_BYTES_MAX: Final = 4096

UNMADE: Final = "has no log yet, the very first start did not complete"
"""What is said of a container whose log the next start makes: that is no damage."""


class InspectedData:
    """A data directory, opened for looking only.

    ``access`` says how its chunks are looked at, and where, if the record does not.

    Raises:
        InvalidArgumentError: there are no data of a server.
        DataCorruptionError: there are chunks and nothing else.
    """

    def __init__(self, directory: str, access: ChunkAccess | None = None) -> None:
        if not directory:
            raise InvalidArgumentError("the name of the data directory is empty")
        self.directory = directory.rstrip("/") or "/"
        self.files = ReadOnlyFiles()
        place = place_of(recorded_log(self.files, self.directory), system_runtime())
        self._logs = find_logs(self.directory, self.files, place)
        check_is_directory(self.files, self.directory)
        self._access = access or ChunkAccess()
        self.problem = ""
        """What is wrong with the record of the directory's make-up."""
        self.locked: bool | None = False
        """Whether a running server uses the directory; None if the system does not say."""
        self.holder = ""
        """The process that uses it, or may: on another machine, or where ``locked`` is unknown. Or empty."""
        self.find_holder()
        self.containers = self._find_containers()

    @cached_property
    def chunks(self) -> StoredChunks:
        """The objects of long-term storage, where ``--storage`` or the record says, or in the directory.

        Raises:
            UnsupportedError: a library is missing that this store needs.
        """
        return self._access.open(recorded_storage(self.files, self.directory), self.directory, self.files)

    def check_system(self) -> None:
        """Compare the system of the chunks with that of the directory, before anything is made of either.

        Raises:
            DataCorruptionError: the store is another system's: to it, all objects would be garbage.
            StorageReadError, OSError: the store did not answer.
        """
        try:
            system = system_of(self.files, self.directory)
        except (DataCorruptionError, OSError):
            return  # the record's problem is told anyway
        found = None if system is None else self.chunks.find_identity()
        if found is None or found == system:
            return
        location = self._location
        if find_used_log(self.files, self.directory) is None:
            command = advised_rebuild(self.files, location, self.directory)
            what = f"has no log; if its own data directory is lost, `{command}`"
        else:
            what = "is of the system " + str(system)
            if self._access.storage:
                what += ": leave out --storage, or name its store"
        raise DataCorruptionError(
            f"{location} is the store of another system ({found}), whose objects are not judged: "
            f"{self.directory} {what}"
        )

    @property
    def may_change(self) -> bool:
        """Whether files may change, and new ones appear, while they are looked at."""
        return bool(self.locked or (self.locked is None and self.holder))

    def log(self, container_id: int) -> FoundLog:
        """Return the log of a container."""
        return self._logs.log(container_id)

    def container_of(self, segment: str) -> int:
        """Return the container that owns a segment of this name."""
        internal = _INTERNAL.fullmatch(segment)
        if internal is not None and int(internal[1]) in self.containers:
            return int(internal[1])
        return container_of(segment, self.containers[-1] + 1)

    def chosen(self, container: int | None) -> list[int]:
        """Return the container a caller named, or all. Raises InvalidArgumentError."""
        if container is None:
            return self.containers
        if container not in self.containers:
            raise InvalidArgumentError(
                f"{self.directory} has the containers 0 to {self.containers[-1]}, not {container}"
            )
        return [container]

    def only(self, container: int | None) -> int:
        """Return the one container meant. Raises InvalidArgumentError if several could be."""
        found = self.chosen(container)
        if len(found) > 1:
            raise InvalidArgumentError(
                f"{self.directory} has {len(found)} containers: say which with --container"
            )
        return found[0]

    @property
    def _location(self) -> StorageLocation:
        """The store of the chunks. Raises: InvalidArgumentError."""
        uri = self._access.storage or recorded_storage(self.files, self.directory)
        return StorageLocation.parse(uri) if uri else file_location(chunk_root(self.directory))

    @property
    def _chunk_root(self) -> str | None:
        """The directory of the chunks; None if they are no files. Raises: InvalidArgumentError."""
        location = self._location
        return location.prefix if location.scheme == "file" else None

    def find_unmade(self) -> list[int]:
        """Return the containers that have no log because the very first start has not come to its end."""
        if self.problem:
            return []
        try:
            return find_unmade(self._logs, self.files, self.directory, len(self.containers), self._chunk_root)
        except (DataCorruptionError, SnapshotLostError, OSError):
            return []  # a look at the container says more

    def with_logs(self, container: int | None, *, json: bool) -> Iterator[int]:
        """Yield the container a caller named, or all; in place of one that has no log yet, say so.

        Raises:
            InvalidArgumentError: there is no such container.
        """
        chosen, unmade = self.chosen(container), self.find_unmade()
        for container_id in chosen:
            if container_id not in unmade:
                yield container_id
            elif json:
                print_json({"container": container_id, "begun": False})
            else:
                print_line(f"container {container_id}: {UNMADE}\n")

    def only_with_log(self, container: int | None, *, json: bool) -> int | None:
        """Return the one container meant; None if it has no log yet, which was said then.

        Raises:
            InvalidArgumentError: several could be meant, or there is no such container.
        """
        return next(self.with_logs(self.only(container), json=json), None)

    def _find_containers(self) -> list[int]:
        """Those of the record, and those that have a log: none may be passed over."""
        count = None
        try:
            count = containers_of(self.files, self.directory)
            if count is None:
                self.problem = (
                    f"{self.directory}/{FILE_NAME} is missing: the record of the number of containers"
                )
        except (CorruptionError, OSError) as error:
            self.problem = str(error)
        logs = self._logs.numbers()
        if count is not None and (surplus := describe_surplus(logs, count)):
            self.problem = f"{surplus} ({self.directory}/{FILE_NAME})"
        found = sorted({*range(count or 0), *logs})
        if not found:
            self._refuse_without_containers()
        return found

    def _refuse_without_containers(self) -> NoReturn:
        """Neither record nor log: nothing was ever here, or only the chunks are left of what was."""
        places: list[str] = []
        for name, path in self.chunks.objects(lambda path, _: places.append(path)):
            if (
                not is_internal_chunk(name) and name != IDENTITY_NAME
            ):  # what containers make for themselves proves nothing
                places.append(path)
                break
        if not places:
            raise InvalidArgumentError(f"{self.directory} holds no data of a server")
        lost = f"there are chunks, but neither a log nor {FILE_NAME}: put them back"
        if any(name.startswith(CHECKPOINTS_PREFIX) for name, _ in self.chunks.objects(lambda *_: None)):
            command = advised_rebuild(self.files, self._location, self.directory)
            lost += f", or make them anew from their copies beside the chunks: `{command}`"
        raise DataCorruptionError(lost, path=places[0])

    def find_holder(self) -> None:
        """Ask the kernel whether the lock is held now; its file only names the last holder."""
        self.locked, self.holder = False, ""
        path = f"{self.directory}/{LOCK_NAME}"
        if not self.files.exists(path):
            return
        named = _read_holder(self.files, path)
        self.locked = is_locked(path, None if named is None else named.pid)
        if self.locked:
            self.holder = "another process" if named is None else named.text
        elif named is not None and (not named.is_here or (self.locked is None and _exists(named.pid))):
            self.holder = named.text


@dataclass(slots=True)
class _Holder:
    """The process that the lock file names."""

    pid: int
    host: str
    since: str

    @property
    def text(self) -> str:
        return f"pid {self.pid} on {self.host} since {self.since}"

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()


def _read_holder(files: ReadOnlyFiles, path: str) -> _Holder | None:
    """Return the process that the lock file names, None if it names none or cannot be read."""
    try:
        fd = files.open(path, os.O_RDONLY)
        try:
            buffer = bytearray(_HOLDER_BYTES_MAX)
            count = files.pread_into(fd, memoryview(buffer), 0)
        finally:
            files.close(fd)
        named = json.loads(bytes(buffer[:count]))
        return _Holder(int(named["pid"]), str(named["host"]), str(named["since"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _exists(pid: int) -> bool:
    if pid <= 0:
        return False  # that would ask for a group of processes
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def open_data(data_dir: str, access: ChunkAccess | None = None) -> InspectedData:
    """Open the directory the caller named; say on stderr if a server is using it."""
    data = InspectedData(data_dir, access)
    if data.locked:
        cluster = recorded_cluster(data.files, data.directory)
        stores = f"segment stores of the cluster at {cluster}, as " if cluster else ""
        progress(
            f"{data.directory} is in use by {stores}{data.holder}: what follows may be out of date already"
        )
    elif data.holder:
        progress(
            f"{data.directory} was last held by {data.holder}: if that still runs, what follows may be out "
            "of date already"
        )
    if data.problem:
        progress(data.problem)
    return data


def time_text(time_ms: int) -> str:
    """Return a time as people and programs read it, in UTC; one that no calendar has, as it was stored."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
