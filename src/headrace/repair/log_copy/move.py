"""Where a system has its logs before and after a move, and what remembers that: a data directory, a bucket,
the facts of a cluster.

A bucket is claimed, and record or facts are changed, once the logs are there and the former ones have ended.
Until then a bucket with logs and without a claim, and a directory with logs and without a record, are refused
by every start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from os.path import abspath

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import update_facts
from headrace.coordination.contract import Session
from headrace.data_directory.birth_of_cluster import AsRecorded
from headrace.data_directory.log_place import check_claim, find_log_system, place_of, prove_log
from headrace.data_directory.record import (
    check_is_directory,
    containers_of,
    make_record,
    raise_format,
    recorded_cluster,
    recorded_log,
    system_of,
)
from headrace.data_directory.shared_directory import check_facts, directory_of, is_in_files
from headrace.data_directory.taken_directory import take_directory
from headrace.data_directory.unfinished_rebuild import refuse_unfinished
from headrace.errors import DataCorruptionError, InvalidArgumentError, PreconditionError
from headrace.repair.log_copy.log_copy import CopiedLog, LogCopy
from headrace.runtime.context import Runtime
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.storage.inspect_store import Run
from headrace.storage.providers.location import StorageLocation
from headrace.wal.config import WalConfig
from headrace.wal.logs import Logs
from headrace.wal.stores import LogPlace, LogSystem, frames_for, make_logs


@dataclass(frozen=True, slots=True)
class _Place:
    """Where logs are: in a data directory, or in a bucket."""

    name: str
    """The URI of the bucket, or the directory."""
    directory: str
    """A data directory that knows of the place; "" if there is none."""
    bucket: LogPlace | None

    def logs(self, runtime: Runtime) -> Logs:
        config = frames_for(WalConfig(), self.bucket)
        return make_logs(self.directory, runtime, config, place=self.bucket)


@dataclass(slots=True)
class MoveReport:
    """What was moved."""

    source: str
    target: str
    system: str
    logs: list[CopiedLog] = field(default_factory=list)


class LogMove:
    """A move of all logs of a system from ``source`` to ``target``: each a data directory, or the URI of a
    bucket. A source directory stands for where its logs are, and remembers where they go; so do the facts of
    a cluster, whose stores are stopped, if :func:`note_move` follows.
    """

    def __init__(
        self,
        source: str | Facts,
        target: str,
        runtime: Runtime,
        run: Run,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._runtime = runtime
        self._run = run
        self._on_progress = on_progress

    def run(self) -> MoveReport:
        """Move everything, or nothing that a server would use.

        Raises:
            DirectoryLockedError: a server uses a directory; the message names the process.
            PreconditionError: a directory is a cluster's, or a bucket does not answer.
            InvalidArgumentError: there is nothing to be moved, or the new place has other logs.
            FencedOutError, DataCorruptionError, StorageFullError, WalWriteError, OSError: see
                :class:`LogCopy`.
        """
        with ExitStack() as stack:
            source, system, containers = self._find_source(stack)
            target = self._find_target(stack, source, system)
            copy = LogCopy(
                source.logs(self._runtime),
                target.logs(self._runtime),
                target.name,
                self._runtime.clock,
                self._run,
                self._on_progress,
            )
            copied = copy.run(containers)
            self._remember(target, system)
            return MoveReport(source.name, target.name, system.system, copied)

    # ---------------------------------------------------------------------------------- before

    def _find_source(self, stack: ExitStack) -> tuple[_Place, LogSystem, list[int]]:
        name = self._source
        if isinstance(name, Facts):
            return self._find_cluster(stack, name)
        if "://" in name:
            bucket = place_of(name, self._runtime)
            assert bucket is not None
            system = find_log_system(bucket)
            if system is None:
                raise InvalidArgumentError(f"{bucket.place} has no logs of a system: nothing was changed")
            place = _Place(bucket.place, "", bucket)
            containers = list(range(system.containers))
            logs = place.logs(self._runtime)
            missing = next((each for each in containers if not logs.log(each).is_begun()), None)
            if missing is not None:
                raise DataCorruptionError(
                    "the log of this container is missing", path=logs.log(missing).place
                )
            return place, system, containers
        directory = self._directory(name)
        if containers_of(self._runtime.filesystem, directory) is None:
            raise InvalidArgumentError(f"{directory} has no data of a server: nothing was changed")
        taken = take_directory(AsRecorded(directory), self._runtime)
        stack.callback(taken.release)
        bucket = place_of(taken.store.log, self._runtime)
        place = _Place(directory if bucket is None else bucket.place, directory, bucket)
        begun = [each for each in range(taken.containers) if each not in taken.store.unmade]
        if not begun:
            raise InvalidArgumentError(f"{place.name} has no logs yet: start a server with the new place")
        return place, LogSystem(taken.store.system, taken.containers), begun

    def _find_cluster(self, stack: ExitStack, facts: Facts) -> tuple[_Place, LogSystem, list[int]]:
        if "://" not in self._target or StorageLocation.parse(facts.storage).scheme == "file":
            raise InvalidArgumentError(
                f"the log of a cluster moves into a bucket, not to {self._target}, if its chunks are in one, "
                f"not in {facts.storage}: nothing was changed"
            )
        if not facts.opened:
            raise InvalidArgumentError("the cluster has no logs yet: nothing was changed")
        check_facts(facts)
        system, opened = LogSystem(facts.system, facts.containers), sorted(facts.opened)
        if not is_in_files(facts.log):
            return _Place(facts.log, "", place_of(facts.log, self._runtime)), system, opened
        directory = directory_of(facts.log)
        lock = DirectoryLock(self._runtime.filesystem, directory, describe_process(self._runtime.clock))
        lock.acquire()
        stack.callback(lock.release)
        return _Place(directory, directory, None), system, opened

    def _find_target(self, stack: ExitStack, source: _Place, system: LogSystem) -> _Place:
        name = self._target
        if "://" in name:
            bucket = place_of(name, self._runtime)
            assert bucket is not None
            self._refuse_same(source, bucket.place)
            check_claim(bucket, system)
            prove_log(bucket)
            return _Place(bucket.place, source.directory, bucket)
        directory = self._directory(name)
        self._refuse_same(source, directory)
        if source.bucket is None:
            raise InvalidArgumentError(
                f"{source.name} and {directory} both have their logs in files: copy the whole directory"
            )
        if directory != source.directory:
            if source.directory:
                raise InvalidArgumentError(
                    f"{source.directory} has its log in {source.name}: name that, or {source.directory} alone"
                )
            self._take_new(stack, directory, source.name, system)
        return _Place(directory, directory, None)

    def _refuse_same(self, source: _Place, target: str) -> None:
        if source.name == target:
            raise InvalidArgumentError(f"the log is in {target} already: nothing was changed")

    def _directory(self, name: str) -> str:
        files, directory = self._runtime.filesystem, abspath(name)  # noqa: PTH100 - paths are str here
        check_is_directory(files, directory)
        cluster = recorded_cluster(files, directory)
        if cluster:
            raise PreconditionError(
                f"{directory} is that of the cluster at {cluster}, and nothing was changed: name that with "
                "--coordinator in place of --from"
            )
        return directory

    def _take_new(self, stack: ExitStack, directory: str, source: str, system: LogSystem) -> None:
        """Lock the directory that logs are copied into, which has none, or is of the same system."""
        files = self._runtime.filesystem
        lock = DirectoryLock(files, directory, describe_process(self._runtime.clock))
        lock.acquire()
        stack.callback(lock.release)
        refuse_unfinished(files, directory)
        made_with = containers_of(files, directory)
        if made_with is None:
            return
        if (system_of(files, directory), made_with) != system:
            raise InvalidArgumentError(
                f"{directory} has the data of another system than {source}, and nothing was changed: name "
                "another directory"
            )
        if recorded_log(files, directory) not in {"", source}:
            raise InvalidArgumentError(
                f"the log of {directory} is in {recorded_log(files, directory)}, not in {source}: nothing "
                "was changed"
            )

    # ---------------------------------------------------------------------------------- after

    def _remember(self, target: _Place, system: LogSystem) -> None:
        files, directory = self._runtime.filesystem, target.directory
        if target.bucket is not None:
            check_claim(target.bucket, system, claims=True)
        if not directory:
            return
        if containers_of(files, directory) is None:
            make_record(files, directory, system.containers, {"system": system.system})
        else:
            log = "" if target.bucket is None else target.name
            raise_format(files, directory, {"system": system.system, "log": log})


async def note_move(session: Session, before: Facts, target: str) -> Facts:
    """Let a cluster have its logs in the bucket ``target`` from now on; return its facts. Idempotent.

    Raises:
        PreconditionError: they are neither where they were ``before`` nor there.
        UnknownOutcomeError: the coordinator does not answer. Repeat the move.
    """

    def change(facts: Facts) -> Facts:
        if facts.log not in {before.log, target}:
            raise PreconditionError(f"the log of the cluster has been moved to {facts.log} meanwhile")
        return replace(facts, log=target, host="")

    return await update_facts(session, change)
