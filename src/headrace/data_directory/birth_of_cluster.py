"""A data directory becomes that of the stores of a new cluster: nothing of its data is written.

Two places say so: the record of the directory, and the facts of the cluster. The record is first, so that at
no moment both a server that is alone and the cluster could have it, and that it can have one cluster only. A
birth that was cut off in between is repeated, and recognised by the id of the system.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import abspath

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import born_before, create_facts, find_facts
from headrace.coordination.contract import Session
from headrace.data_directory.advised_commands import file_location
from headrace.data_directory.log_place import place_of
from headrace.data_directory.record import (
    FORMAT,
    check_is_directory,
    containers_of,
    raise_format,
    recorded_cluster,
)
from headrace.data_directory.taken_directory import take_directory
from headrace.errors import InvalidArgumentError, PreconditionError
from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.runtime.host_id import find_host_id
from headrace.segmentstore.inspection.container_replay import replay_container
from headrace.wal.stores import find_logs


@dataclass(frozen=True, slots=True)
class AsRecorded:
    """A choice that leaves everything to the record of the directory."""

    data_dir: str
    storage: str | None = None
    log: str | None = None
    in_memory: bool = False
    containers: int | None = None


@contextmanager
def facts_of_directory(directory: str, runtime: Runtime) -> Iterator[Facts]:
    """Yield the facts of a cluster that goes on with a directory; meanwhile nothing else uses that.

    Raises:
        InvalidArgumentError: no data, those of a later version, or chunks in files with a log in a bucket.
        DirectoryLockedError: a server uses it; the message names the process.
        DataCorruptionError: something that it had is missing or damaged, or it is half rebuilt.
    """
    files, directory = runtime.filesystem, abspath(directory)  # noqa: PTH100 - paths are str here
    check_is_directory(files, directory)
    if not files.exists(directory) or containers_of(files, directory) is None:
        raise InvalidArgumentError(f"{directory} has no data of a server: nothing was made")
    taken = take_directory(AsRecorded(directory), runtime, of_cluster=True)
    try:
        log = taken.store.log
        if log and taken.store.root is not None:
            raise InvalidArgumentError(
                f"the log of {directory} is in {log}, and stores on other machines would not find the chunks "
                f"in {taken.store.root}: copy them to a bucket first, with `headrace storage copy`"
            )
        opened = frozenset(range(taken.containers)).difference(taken.store.unmade)
        logs = find_logs(directory, files, place_of(log, runtime))
        for container_id in sorted(opened):
            replay_container(container_id, logs.log(container_id))
        yield Facts(
            taken.store.system,
            taken.containers,
            0,  # only a controller can read rows
            log or str(file_location(f"{directory}/wal")),
            str(taken.store.location),
            FORMAT,
            "" if log else find_host_id(),
            opened,
        )
    finally:
        taken.release()


async def found_cluster(
    session: Session, facts: Facts, directory: str, where: str, files: Filesystem
) -> Facts:
    """Let a cluster be born with the facts of a directory, or find that it was; return its facts.

    ``where``: the URI of what its members agree through.

    Raises:
        PreconditionError: another cluster is there, or has the directory; nothing changed.
        UnknownOutcomeError: the coordinator does not answer: it may be born. Repeat.
    """
    present, marked = await find_facts(session), recorded_cluster(files, directory)
    if present is not None and not _is_of(present, facts):
        raise born_before(present)
    if present is None and marked not in {"", where}:
        raise PreconditionError(
            f"{directory} is that of the cluster at {marked}, and of no second one: nothing was changed"
        )
    raise_format(files, directory, {"system": facts.system, "cluster": where}, (present or facts).format)
    if present is not None:
        return present
    try:
        await create_facts(session, facts)
    except PreconditionError:  # another one was born meanwhile
        raise_format(files, directory, {"cluster": marked})
        raise
    return facts


def _is_of(present: Facts, facts: Facts) -> bool:
    """Whether a cluster was born with this directory. What was opened, and the format, may have grown."""
    return (present.system, present.containers, present.log, present.storage, present.host) == (
        facts.system,
        facts.containers,
        facts.log,
        facts.storage,
        facts.host,
    )
