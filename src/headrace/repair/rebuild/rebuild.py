"""Rebuilds the logs of a system from the storage checkpoints beside its chunks.

Order: the store is read, and nothing is written before it is known whose it is; the directory is marked, and
its record written; the log of each container is made of the newest whole
checkpoint, and replayed; then that copy is left in the store once more, as the first checkpoint of the new
container epoch, which fences owners of the former system. The mark is removed last: a stop anywhere before
leaves a directory that no server uses, and that a repetition completes.
Source: ``docs/flows/rebuild.md``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from os.path import dirname
from typing import Final

from headrace.data_directory.chunk_store import ChunkStore
from headrace.data_directory.record import check_is_directory
from headrace.data_directory.unfinished_rebuild import Wanted, begin_rebuild, end_rebuild
from headrace.errors import DataCorruptionError, ThrottledError
from headrace.repair.rebuild.choice import agree, candidates, is_outdated, next_epoch
from headrace.repair.rebuild.rebuilt_directory import check_vacant, record_system
from headrace.repair.rebuild.rebuilt_log import RebuiltLog
from headrace.repair.rebuild.report import RebuiltContainer, describe, find_newer
from headrace.runtime.context import Runtime
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.segmentstore.inspection.container_replay import replay_container
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.checkpoints.config import StorageCheckpointsConfig
from headrace.storage.checkpoints.listed import Listed, next_checkpoint, sort_objects
from headrace.storage.checkpoints.manifest import Manifest
from headrace.storage.checkpoints.object_names import CheckpointId
from headrace.storage.identity_format import IDENTITY_NAME, is_system
from headrace.storage.inspect_store import Run, StoreObjects
from headrace.storage.metadata.rows import CHUNK_PREFIX
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.location import StorageLocation
from headrace.storage.store_identity import find_identity, make_identity
from headrace.wal.stores import make_logs

_logger = logging.getLogger(__name__)

_CALL_S: Final = 300.0
_ATTEMPTS: Final = 3


@dataclass(slots=True)
class MissingSegment:
    """A segment that is in the rows of the controller, and in no container: its checkpoint is older."""

    stream: str
    segment: str


@dataclass(slots=True)
class RebuildReport:
    """What was rebuilt. Times in ms since 1970."""

    source: str
    directory: str
    system: str
    containers: list[RebuiltContainer] = field(default_factory=list)
    epoch: int = 0
    """Container epoch that the rebuilt system begins with."""

    missing: list[MissingSegment] = field(default_factory=list)


class Rebuild:
    """One rebuild, from the store of ``provider``, whose coroutines run on the loop of ``run``."""

    def __init__(
        self, provider: ChunkProvider, directory: str, wanted: Wanted, runtime: Runtime, run: Run
    ) -> None:
        self._provider = provider
        self._directory = directory
        self._wanted = wanted
        self._runtime = runtime
        self._run = run
        self._logs = make_logs(directory, runtime)
        self._location = StorageLocation.parse(wanted.source)
        self._chunks = StoreObjects(wanted.source, provider, run)
        self._listed: dict[str, int] = {}
        self._streams: list[tuple[str, str]] = []
        self._kept = StorageCheckpointsConfig().kept

    def run(self) -> RebuildReport:
        """Rebuild everything, or nothing that a server would use.

        Raises:
            InvalidArgumentError: the directory has data, or the store has no storage checkpoint.
            DataCorruptionError: no checkpoint of a container is whole, or its chunks are damaged.
            DirectoryLockedError: another process uses the directory.
            ThrottledError: owners of the former system go on replacing checkpoints; stop them.
            StorageReadError, StorageWriteError, OSError: repeat it.
        """
        files = self._runtime.filesystem
        check_is_directory(files, self._directory)
        if not files.exists(self._directory):
            files.mkdir(self._directory)
            files.fsync_directory(dirname(self._directory) or ".")  # noqa: PTH120 - paths are str here
        lock = DirectoryLock(files, self._directory, describe_process(self._runtime.clock))
        lock.acquire()
        try:
            check_vacant(files, self._directory, self._wanted)
            report = self._rebuild()
            end_rebuild(files, self._directory)
            return report
        finally:
            lock.release()

    def _rebuild(self) -> RebuildReport:
        for _ in range(_ATTEMPTS):
            self._listed, self._streams = self._run(self._list()), []
            listed = sort_objects(self._listed.items())
            found, damage = self._run(self._read_manifests(listed))
            choices = {
                container: candidates(listed[container], found[container], self._wanted.at_ms, self._kept)
                for container in listed
            }
            count, named = agree([manifests[0] for manifests in choices.values() if manifests])
            system = self._run(self._identify(named))
            checkpoints = [found for each in listed.values() for found in each]
            epoch = next_epoch(self._listed, checkpoints)
            store = ChunkStore(self._location, system)
            self._run(self._mark())
            record_system(self._runtime.filesystem, self._directory, count, store)
            report = RebuildReport(self._wanted.source, self._directory, system, epoch=epoch)
            rows: dict[str, bytes] = {}
            by_incarnation: dict[str, RebuiltContainer] = {}
            outdated = False
            for container in range(count):
                if outdated := not self._rebuild_container(
                    container,
                    choices[container],
                    damage[container],
                    found[container],
                    listed[container],
                    report,
                    rows,
                    by_incarnation,
                ):
                    break
            if not outdated:
                find_newer(self._listed, by_incarnation, rows)
                there = {segment.name for each in report.containers for segment in each.segments}
                report.missing = [MissingSegment(*each) for each in self._streams if each[1] not in there]
                return report
            _logger.warning("owners of the former system have replaced checkpoints meanwhile: once more")
        raise ThrottledError(
            "owners of the former system go on writing storage checkpoints: stop them, and repeat this"
        )

    async def _mark(self) -> None:
        """Mark the directory, which was found vacant, then delete the logs that an unfinished rebuild has
        made. Raises: OSError.
        """
        begin_rebuild(self._runtime.filesystem, self._directory, self._wanted)
        for container in self._logs.numbers():
            await self._logs.delete(container)

    # ---------------------------------------------------------------------------------- one container

    def _rebuild_container(
        self,
        container: int,
        choices: list[Manifest],
        damage: list[str],
        manifests: Mapping[CheckpointId, Manifest],
        listed: Listed,
        report: RebuildReport,
        rows: dict[str, bytes],
        by_incarnation: dict[str, RebuiltContainer],
    ) -> bool:
        """Rebuild a container from the first of ``choices`` that is whole, with all that it names.

        Returns False if it was replaced meanwhile.
        """
        passed_over = list(damage)
        for manifest in choices:
            try:
                self._run(self._make_log(manifest, report.epoch))
                replayed = replay_container(container, self._logs.log(container))
                now_ms = self._runtime.clock.now_ms()
                described, streams = describe(replayed, self._chunks, manifest, now_ms, passed_over)
            except DataCorruptionError as error:
                problem = f"storage checkpoint {manifest.checkpoint} of container {container}: {error}"
                _logger.error("damaged data: %s; the one before is tried", problem)  # noqa: TRY400
                passed_over.append(problem)
                continue
            if not self._run(self._fence(manifest, report.epoch, listed, manifests)):
                return False
            report.containers.append(described)
            self._streams += streams
            names = (replayed.state.storage_rows, replayed.archived_rows)
            for some in names:
                rows.update((key, row) for key, row in some.items() if key.startswith(CHUNK_PREFIX))
            if manifest.incarnation:
                by_incarnation[manifest.incarnation] = described
            return True
        raise DataCorruptionError(
            f"container {container} has no storage checkpoint that can be used: {'; '.join(passed_over)}"
        )

    async def _make_log(self, manifest: Manifest, epoch: int) -> None:
        """Make the log of a container anew. Raises: DataCorruptionError."""
        log = RebuiltLog(self._logs, manifest.container, self._runtime.entropy, epoch)
        try:
            await log.open()
            store = CheckpointStore(self._provider, manifest.container, _CALL_S)
            async with aclosing(store.read_records(manifest)) as parts:
                async for records in parts:
                    await log.write(records)
            await log.renew_incarnation()
        finally:
            await log.close()

    async def _fence(
        self,
        manifest: Manifest,
        epoch: int,
        listed: Listed,
        manifests: Mapping[CheckpointId, Manifest],
    ) -> bool:
        """Leave the copy once more, as the first checkpoint of the new system.

        An owner looks for it after each checkpoint of its own, before it deletes anything. So what is listed
        afterwards decides whether ``manifest`` may be used: the answer.
        """
        store = CheckpointStore(self._provider, manifest.container, _CALL_S)
        checkpoint = next_checkpoint(listed, epoch)
        copied = await store.write_parts(checkpoint, _copied(store, manifest))
        left = replace(manifest, checkpoint=checkpoint, parts=copied.parts, rebuilt=True)
        await store.finish(left)
        known = {**manifests, checkpoint: left}
        return not is_outdated(manifest.checkpoint, await store.look(), known, self._kept)

    # ---------------------------------------------------------------------------------- what is there

    async def _list(self) -> dict[str, int]:
        listed: dict[str, int] = {}
        async for page in self._provider.list():
            listed.update((found.name, found.length) for found in page)
        return listed

    async def _read_manifests(
        self, listed: Mapping[int, Listed]
    ) -> tuple[dict[int, dict[CheckpointId, Manifest]], dict[int, list[str]]]:
        """Return the manifests of whole checkpoints by container, and what is wrong with others."""
        found: dict[int, dict[CheckpointId, Manifest]] = {}
        damage: dict[int, list[str]] = {}
        for container, checkpoints in listed.items():
            store = CheckpointStore(self._provider, container, _CALL_S)
            found[container], damage[container] = {}, []
            for checkpoint, facts in checkpoints.items():
                if facts.manifest_bytes is None:
                    words = f"storage checkpoint {checkpoint} of container {container}: it has no manifest"
                    damage[container].append(words)
                    continue
                try:
                    manifest = await store.read_manifest(checkpoint, facts)
                except DataCorruptionError as error:
                    damage[container].append(
                        f"storage checkpoint {checkpoint} of container {container}: {error}"
                    )
                else:
                    found[container][checkpoint] = manifest
        return found, damage

    async def _identify(self, named: str) -> str:
        """Return the system of the store, whose identity is made anew if it is missing."""
        found = await find_identity(self._provider)
        if found is not None and named and found != named:
            raise DataCorruptionError(
                f"the store is of the system {found}, its storage checkpoints of {named}", path=IDENTITY_NAME
            )
        if found is None and is_system(named):
            await make_identity(self._provider, named)
        return found or named


async def _copied(store: CheckpointStore, manifest: Manifest) -> AsyncIterator[list[bytes]]:
    async with aclosing(store.read_records(manifest)) as parts:
        async for records in parts:
            yield [bytes(record) for record in records]
