"""A data directory that all segment stores of one cluster use, on one machine.

Each log has one owner at a time: its owner record sees to that, under a lock of its own. The directory is
locked by all stores together, so that nothing else uses it. What it was made for is in the facts of the
cluster; the record says the same, for tools that find only the directory.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Final

from headrace.cluster.facts_node import Facts
from headrace.cluster.levels import check_level
from headrace.data_directory.chunk_root import check_chunk_root, make_chunk_root
from headrace.data_directory.chunk_store import ChunkStore, facts_of
from headrace.data_directory.log_place import claim_log, parse_log, place_of
from headrace.data_directory.record import (
    FILE_NAME,
    check_is_directory,
    containers_of,
    find_used_log,
    make_record,
    raise_format,
    system_of,
)
from headrace.data_directory.taken_directory import TakenDirectory
from headrace.data_directory.unfinished_rebuild import refuse_unfinished
from headrace.errors import DataCorruptionError, DirectoryLockedError, InvalidArgumentError, PreconditionError
from headrace.model.data_format import FORMATS_OF_CLUSTERS
from headrace.runtime.context import Runtime
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.runtime.filesystem import Filesystem
from headrace.runtime.host_id import find_host_id
from headrace.storage.providers.location import StorageLocation

_LOGS: Final = "/wal"
_WAITS: Final = 500
_WAIT_S: Final = 0.02
"""Between two looks whether another store has recorded what the directory is for."""


def is_in_files(log: str) -> bool:
    """Whether the logs at a URI are files of one machine."""
    return log.startswith("file:")


def directory_of(log: str, own: str = "") -> str:
    """Return the data directory of a cluster from the URI of its logs, which are in ``wal`` there; ``own`` if
    they are not in files.

    Raises:
        InvalidArgumentError: it is no URI, or logs cannot be kept there.
    """
    if not is_in_files(log):
        location = parse_log(log)
        if not own:
            raise InvalidArgumentError(f"the logs of this cluster are at {location}, in no directory")
        return own
    return StorageLocation.parse(log).prefix.rstrip("/").removesuffix(_LOGS)


def check_facts(facts: Facts) -> None:
    """Refuse a cluster that this process cannot join.

    Raises:
        PreconditionError: its logs are files of another machine, or it is at a format unknown here.
    """
    here = find_host_id()
    if facts.host and facts.host != here:
        raise PreconditionError(
            f"the logs of this cluster are files of the machine {facts.host}, and this one is {here}: "
            "start its segment stores there"
        )
    check_level(facts, FORMATS_OF_CLUSTERS)


async def take_shared_directory(facts: Facts, runtime: Runtime, where: str, own: str = "") -> TakenDirectory:
    """Lock the data directory of a cluster together with its other stores.

    Args:
        facts: of the cluster.
        runtime: where it is.
        where: the URI of what they agree through, which the record names.
        own: the directory of this store, if the logs are not in files.

    Raises:
        PreconditionError: the place of the logs does not answer.
        DirectoryLockedError: another kind of process has it; the message names it.
        InvalidArgumentError: it has other data, or is a file.
        DataCorruptionError: something that it had is missing, or its record cannot be read.
    """
    place = None if is_in_files(facts.log) else place_of(facts.log, runtime)
    files, directory = runtime.filesystem, directory_of(facts.log, own)
    check_is_directory(files, directory)
    lock = DirectoryLock(files, directory, describe_process(runtime.clock), shared=True)
    lock.acquire()
    try:
        location = StorageLocation.parse(facts.storage)
        has_data = bool(facts.opened)
        store = ChunkStore(location, facts.system, has_data, not has_data, format=facts.format)
        if place is not None:
            store = replace(store, log=facts.log)
            claim_log(place, facts.system, facts.containers)
        record = await _lock_record(files, directory)
        try:
            _recognise(files, directory, facts, store, where)
        finally:
            files.close(record)
    except BaseException:
        lock.release()
        raise
    return TakenDirectory(facts.containers, store, lock)


async def _lock_record(files: Filesystem, directory: str) -> int:
    """Return the descriptor of a lock that is held by the one store that looks at the record, or makes it."""
    path = f"{directory}/.{FILE_NAME}.lock"
    descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for _ in range(_WAITS):
            if files.lock(descriptor):
                return descriptor
            await asyncio.sleep(_WAIT_S)
    except BaseException:
        files.close(descriptor)
        raise
    files.close(descriptor)
    raise DirectoryLockedError(path, "another segment store, which does not finish its start")


def _recognise(files: Filesystem, directory: str, facts: Facts, store: ChunkStore, where: str) -> None:
    """Compare a directory with what the cluster is, or make it."""
    refuse_unfinished(files, directory)
    made_with, noted = containers_of(files, directory), {**facts_of(store, directory), "cluster": where}
    if made_with is not None:
        system = system_of(files, directory)
        if (made_with, system) != (facts.containers, facts.system):
            raise InvalidArgumentError(
                f"{directory} has the data of system {system} in {made_with} containers, and those of this "
                f"cluster are of {facts.system} in {facts.containers}: nothing was changed"
            )
    elif (facts.opened and not store.log) or find_used_log(files, directory) is not None:
        what = "the cluster has data" if facts.opened else "there are logs"
        raise DataCorruptionError(
            f"{what}, and no record of what the directory is for: mount its file system, or put it back",
            path=f"{directory}/{FILE_NAME}",
        )
    if store.root is not None:
        if made_with is None:
            make_chunk_root(files, store.root)  # first: the record proves that there was one
        check_chunk_root(files, store.root)
    if made_with is None:
        make_record(files, directory, facts.containers, noted, facts.format)
    else:
        raise_format(files, directory, noted, facts.format)
