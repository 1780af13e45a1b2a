"""A data directory that this process has: locked, recognised, and checked for what it may have lost.

Nothing is written into one before it is known to be what the settings take it for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from headrace.data_directory.advised_commands import init_command, segmentstore_command
from headrace.data_directory.chunk_root import check_chunk_root, make_chunk_root
from headrace.data_directory.chunk_store import (
    ChunkStore,
    StoreChoice,
    check_file_store,
    facts_of,
    find_store,
    store_of,
)
from headrace.data_directory.log_place import choose_log, claim_log, find_log_system, place_of
from headrace.data_directory.lost_logs import check_logs
from headrace.data_directory.record import (
    CONTAINERS_DEFAULT,
    check_data_directory,
    check_is_directory,
    containers_of,
    raise_format,
    recorded_cluster,
)
from headrace.data_directory.unfinished_rebuild import refuse_unfinished
from headrace.errors import InvalidArgumentError, PreconditionError
from headrace.runtime.context import Runtime
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.runtime.filesystem import Filesystem
from headrace.wal.stores import find_logs


class DirectoryChoice(StoreChoice, Protocol):
    """What a person may choose about a directory."""

    @property
    def containers(self) -> int | None:
        """None: as it was made, and the default for a new one."""


@dataclass(frozen=True, slots=True)
class TakenDirectory:
    """What a process knows of the directory that it has; without data on disk there is no lock."""

    containers: int
    store: ChunkStore
    """It has to be claimed before it is used, unless it is memory."""

    lock: DirectoryLock | None = None

    def release(self) -> None:
        """Let another process take it. Not while a thread may still write to a log."""
        if self.lock is not None:
            self.lock.release()


def take_directory(choice: DirectoryChoice, runtime: Runtime, *, of_cluster: bool = False) -> TakenDirectory:
    """Lock the data directory, and compare it with what it was made for.

    ``of_cluster``: it may be that of a cluster, whose stores are stopped.

    Raises:
        PreconditionError: its server is a cluster.
        DirectoryLockedError: another process has it; the message names it.
        DataCorruptionError: something that it had is missing, or its record cannot be read.
        InvalidArgumentError: it was made for another number of containers, for another store, or by a newer
            version; or it is a file.
    """
    if choice.in_memory:
        return TakenDirectory(choice.containers or CONTAINERS_DEFAULT, store_of(choice))
    directory = choice.data_dir
    check_is_directory(runtime.filesystem, directory)
    lock = DirectoryLock(runtime.filesystem, directory, describe_process(runtime.clock))
    lock.acquire()
    try:
        if not of_cluster:
            refuse_alone(runtime.filesystem, directory)
        containers, store = _recognise(choice, runtime)
    except BaseException:
        lock.release()
        raise
    return TakenDirectory(containers, store, lock)


def _recognise(choice: DirectoryChoice, runtime: Runtime) -> tuple[int, ChunkStore]:
    """Return the number of containers of a locked directory, and its store."""
    files, directory = runtime.filesystem, choice.data_dir
    refuse_unfinished(files, directory)
    made_with = containers_of(files, directory)
    has_data = made_with is not None or files.exists(f"{directory}/wal")
    log = choose_log(choice.log, files, directory, has_data=has_data)
    place = place_of(log, runtime)
    logs = find_logs(directory, files, place)
    store = replace(find_store(choice, runtime), log=log)
    present = None if place is None else find_log_system(place)
    containers = choice.containers or made_with or CONTAINERS_DEFAULT
    if made_with is None and present is not None:  # an empty directory goes on with the log
        containers, store = present.containers, replace(store, system=present.system)
        if choice.containers not in {None, containers}:
            raise InvalidArgumentError(
                f"the log in {log} was made with {containers} containers, {choice.containers} were "
                "requested: leave the number out"
            )
    check_file_store(files, store, directory)
    facts = facts_of(store, directory)
    if made_with is None and not files.exists(f"{directory}/wal"):
        # if there are chunks, the number is not known
        unmade = check_logs(logs, files, directory, containers, store.root)
        if store.root is not None and len(unmade) < containers and not files.exists(store.root):
            raise InvalidArgumentError(
                f"the log in {log} was used with chunks that are not in {store.root}: name their store, too"
            )
        if store.root is not None:
            make_chunk_root(files, store.root)  # first: the record proves that there was one
    if made_with is not None or store.root is not None or files.exists(f"{directory}/wal"):
        check_data_directory(files, directory, containers, facts)
    # Else the record is made once it is known whose the store is.
    if place is not None:
        claim_log(place, store.system, containers)
    if store.root is not None:
        check_chunk_root(files, store.root)
    unmade = check_logs(logs, files, directory, containers, store.root)
    if store.root is not None:
        raise_format(files, directory, facts)
    return containers, replace(store, unmade=tuple(unmade), is_new=len(unmade) == containers)


def refuse_alone(files: Filesystem, directory: str) -> None:
    """Refuse the directory of a cluster to a server that is alone: the facts of the cluster, and what it
    knows of opened logs, would not follow.

    Raises:
        PreconditionError: it is one.
    """
    cluster = recorded_cluster(files, directory)
    if cluster:
        raise PreconditionError(
            f"{directory} is that of the cluster at {cluster}, and nothing was changed: start a store of it "
            f"with `{segmentstore_command(cluster)}`; if there is no cluster yet, "
            f"`{init_command(cluster, directory)}` did not come to its end, and has to be repeated"
        )
