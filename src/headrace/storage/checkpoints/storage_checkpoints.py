"""Writes storage checkpoints of one container: copies of its log beside its chunks, to rebuild it from.

What a checkpoint names exists as long as it does: garbage batches that were not committed when it was written
are held. And its objects fence: an owner that finds a checkpoint of a higher container epoch learns that its
system was rebuilt from this storage, and ends. Source: ``docs/flows/rebuild.md``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from headrace.errors import DataCorruptionError, FencedOutError, HeadraceError
from headrace.runtime.clock import Clock
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.checkpoints.config import StorageCheckpointsConfig
from headrace.storage.checkpoints.listed import (
    Listed,
    ListedCheckpoint,
    finished,
    next_checkpoint,
    plan_removal,
)
from headrace.storage.checkpoints.manifest import Manifest, SystemFacts
from headrace.storage.checkpoints.object_names import CheckpointId
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage

_logger = logging.getLogger(__name__)

_GARBAGE_WAITING_MAX: Final = 0.25
"""A checkpoint is due when this part of all garbage batches that may wait do: it releases them."""


_VERDICT_S: Final = 10.0
"""How long the reason of an end waits for the store."""


@dataclass(slots=True)
class StorageCheckpointsStatistics:
    """Counts since the start, and gauges of now."""

    written: int = 0
    failures: int = 0
    bytes_written: int = 0
    newest_time_ms: int = 0
    """When the newest one was written; 0 for never."""

    held_from: int = -1
    """Garbage batches from this number on are held; -1: none."""


class CopiedContainerLog(Protocol):
    """What a copy needs of the log of a container."""

    @property
    def epoch(self) -> int:
        """The container epoch of this owner."""

    @property
    def sequence(self) -> int:
        """The highest sequence number assigned so far."""

    @property
    def waiting_checkpoints(self) -> int:
        """Metadata checkpoints in front of which the log could not be truncated yet."""

    async def write_new_checkpoint(self, *, apart: bool = False) -> None:
        """Write a metadata checkpoint if anything was logged since the newest one."""

    async def flush(self) -> None:
        """Wait until everything accepted so far is durable, or the log has failed."""

    def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """Iterate what the log holds now; it is not truncated meanwhile."""

    async def is_fenced(self) -> bool:
        """Say whether a newer owner exists."""


class StorageCheckpoints:
    """The storage checkpoints of one container, while it is owned here. Used on the container's loop."""

    def __init__(
        self,
        container: int,
        log: CopiedContainerLog,
        storage: ChunkedSegmentStorage,
        store: CheckpointStore,
        system: SystemFacts,
        clock: Clock,
        config: StorageCheckpointsConfig,
    ) -> None:
        self._container = container
        self._log = log
        self._storage = storage
        self._store = store
        self._system = system
        self._clock = clock
        self._config = config
        self._free_garbage: dict[CheckpointId, int] = {}
        """Of every finished checkpoint that is known, the first garbage number that was free then."""
        self._held: int | None = None
        self._is_open = False
        self._fenced: FencedOutError | None = None
        self._listed_at = 0.0
        self._last_number = -1
        """Of the checkpoints begun here; the objects of one that failed may appear later."""
        self._written_sequence = -1
        """Last sequence number that the newest checkpoint has; -1 if there is none."""
        self._written_at = 0.0
        self._chunks_before = 0
        self._truncated = asyncio.Event()
        self._lock = asyncio.Lock()
        self._statistics = StorageCheckpointsStatistics()

    # ---------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Look for checkpoints of former owners. Without an answer of the store all garbage is held, and the
        question repeated by :meth:`run`.

        Raises:
            FencedOutError: the system was rebuilt from this storage, or the log is older than its copies.
        """
        self._hold(0)
        try:
            await self._open()
        except FencedOutError:
            raise
        except HeadraceError as error:
            _logger.warning("%s: storage checkpoints could not be listed: %s", self._name, error)

    async def run(self) -> None:
        """Write checkpoints when they are due, for ever. Raises: FencedOutError."""
        loop = asyncio.get_running_loop()
        not_before = 0.0
        while True:
            await asyncio.sleep(self._config.look_s)
            if self._fenced is not None:
                raise self._fenced
            if loop.time() < not_before:
                continue
            try:
                if not self._is_due() and self._is_open:
                    continue
                await self.write_now(only_changed=True)
            except FencedOutError:
                raise
            except HeadraceError as error:
                self._statistics.failures += 1
                _logger.warning("%s: a storage checkpoint failed, next attempt soon: %s", self._name, error)
            not_before = loop.time() + self._config.pause_s

    async def watch(self) -> None:
        """Look every ``fence_s`` whether another owner has taken the log or the system, for ever: also while
        nothing is written, or a write waits for space.

        Raises: FencedOutError.
        """
        loop = asyncio.get_running_loop()
        pause_s = 0.0
        while True:
            await asyncio.sleep(max(pause_s, self._listed_at + self._config.fence_s - loop.time()))
            if await self._log.is_fenced():
                raise FencedOutError(f"a newer owner has taken {self._name}")
            try:
                await self._list()
            except FencedOutError:
                raise
            except HeadraceError as error:
                _logger.warning("%s: storage checkpoints could not be listed: %s", self._name, error)
            pause_s = self._config.pause_s

    async def find_successor(self) -> FencedOutError | None:
        """Return why this owner has to end, if its system was rebuilt; None also if the store does not say so
        soon.
        """
        try:
            async with asyncio.timeout(_VERDICT_S):
                await self._list()
        except FencedOutError as error:
            return error
        except (HeadraceError, TimeoutError):
            pass
        return None

    def _is_due(self) -> bool:
        if not self._config.enabled:
            return False
        is_old = asyncio.get_running_loop().time() - self._written_at >= self._config.interval_s
        if self._log.sequence == self._written_sequence:
            # Nothing is new, but the last deletions of an idle container take space until two copies later.
            return is_old and self._storage.garbage.holds()
        return (
            self._written_sequence < 0
            or is_old
            or self._storage.chunks_created - self._chunks_before >= self._config.chunks
            or self._storage.garbage.waiting >= _GARBAGE_WAITING_MAX
        )

    def on_log_truncated(self) -> None:
        """The log may have become shorter."""
        self._truncated.set()

    def statistics(self) -> StorageCheckpointsStatistics:
        return self._statistics

    @property
    def _name(self) -> str:
        return f"container {self._container}"

    # ---------------------------------------------------------------------------------- writing

    async def write_last(self) -> None:
        """Write one before a clean stop, if anything has changed; the log is short already.

        Raises as :meth:`write_now`.
        """
        async with self._lock:
            await self._ensure_open()
            if self._config.enabled and self._log.sequence != self._written_sequence:
                await self._write()

    async def write_now(self, *, only_changed: bool = False) -> None:
        """Write a checkpoint, of a log as short as it can be made soon.

        Raises:
            FencedOutError: a newer owner exists, perhaps in a system rebuilt from this storage.
            HeadraceError: it was not written, or perhaps it was; a later one will be.
        """
        async with self._lock:
            await self._ensure_open()
            if not self._config.enabled or (only_changed and not self._is_due()):
                return
            if self._written_sequence >= 0:  # else one of any length, as soon as may be
                await self._shorten_log()
            await self._write()

    async def renew(self) -> None:
        """Replace all checkpoints by new ones: nothing that was dropped before is held any more.

        Raises as :meth:`write_now`.
        """
        for _ in range(self._config.kept):
            await self.write_now()

    async def _shorten_log(self) -> None:
        """Write a metadata checkpoint, and wait for a while until the log is truncated in front of it."""
        log = self._log
        await log.write_new_checkpoint(apart=not log.waiting_checkpoints)
        try:
            async with asyncio.timeout(self._config.truncation_wait_s):
                while log.waiting_checkpoints:
                    self._truncated.clear()
                    await self._truncated.wait()
        except TimeoutError:
            pass  # a longer log is as good

    async def _write(self) -> None:
        listed = await self._list()
        checkpoint = next_checkpoint(listed, self._log.epoch, self._last_number)
        self._last_number = checkpoint.number
        # Before the copy, and only what is durable: then the copy has all of it.
        free_garbage = self._storage.garbage.first_free()
        # No higher than now: an earlier attempt whose outcome is unknown may be a checkpoint.
        self._hold(free_garbage if self._held is None else min(free_garbage, self._held))
        sequence = self._log.sequence
        await self._log.flush()
        chunks = self._storage.chunks_created
        time_ms = self._clock.now_ms()
        async with aclosing(self._log.copy_records()) as records:
            copied = await self._store.write_parts(checkpoint, records)
        if await self._log.is_fenced():  # last: what was copied before was the log then
            raise FencedOutError(f"a newer owner has taken {self._name}")
        manifest = Manifest(
            self._container,
            self._system.containers,
            checkpoint,
            time_ms,
            sequence,
            free_garbage,
            copied.records,
            self._storage.incarnation,
            copied.parts,
            self._system.system_id,
        )
        await self._store.finish(manifest)
        self._free_garbage[checkpoint] = free_garbage
        self._written_sequence, self._chunks_before = sequence, chunks
        self._written_at = asyncio.get_running_loop().time()
        self._statistics.written += 1
        self._statistics.bytes_written += manifest.size_bytes
        self._statistics.newest_time_ms = time_ms
        # Only now may a rebuild have begun that has not seen this one: it has left a checkpoint then.
        await self._retain(await self._list())

    # ---------------------------------------------------------------------------------- what is there

    async def _ensure_open(self) -> None:
        if not self._is_open:
            await self._open()

    async def _open(self) -> None:
        listed = await self._list()
        if not self._config.enabled:
            # Nothing is held for them from now on: they would name chunks that are deleted.
            newest = max(finished(listed), default=None)
            for checkpoint, facts in listed.items():
                # In a system that was rebuilt a manifest stays, which nothing can be rebuilt from without
                # its parts: owners of the former system would delete what this one needs.
                is_fence = checkpoint == newest and checkpoint.rebuilds
                await self._store.remove(checkpoint, ListedCheckpoint(facts.parts) if is_fence else facts)
            self._hold(None)
            self._is_open = True
            return
        await self._learn(listed)
        newest = max(self._free_garbage, default=None)
        if newest is not None:
            manifest = await self._store.read_manifest(newest, listed[newest])
            self._statistics.newest_time_ms = manifest.time_ms
            if not manifest.rebuilt:  # that one has less than the log
                self._written_sequence = manifest.sequence
        self._written_at = asyncio.get_running_loop().time()
        self._hold_known()
        self._is_open = True

    async def _list(self) -> Listed:
        listed = await self._store.look()
        newest = max(finished(listed), default=None)
        if newest is not None and newest.epoch > self._log.epoch:
            if newest.rebuilds > CheckpointId(self._log.epoch, 0).rebuilds:
                system = f"the system {self._system.system_id}" if self._system.system_id else "a system"
                why = f"{self._name} was rebuilt from this storage, as {system}; use the rebuilt one"
            else:
                why = (
                    f"an older log was put back in place of a newer one of {self._name}; put the newer log "
                    "back, or rebuild the system from its storage"
                )
            self._fenced = FencedOutError(
                f"{why}: a storage checkpoint of container epoch {newest.epoch} exists, this owner has "
                f"{self._log.epoch}"
            )
            raise self._fenced
        self._listed_at = asyncio.get_running_loop().time()
        return listed

    async def _learn(self, listed: Listed) -> None:
        """Know every finished checkpoint: those of former owners, and late ones. Damaged ones are removed."""
        there = set(finished(listed))
        self._free_garbage = {found: n for found, n in self._free_garbage.items() if found in there}
        for checkpoint in sorted(there - self._free_garbage.keys()):
            try:
                manifest = await self._store.read_manifest(checkpoint, listed[checkpoint])
                self._free_garbage[checkpoint] = manifest.first_free_garbage
            except DataCorruptionError as error:
                damage = str(error)
            else:
                continue
            if not listed[checkpoint].parts:
                continue  # a fence of an owner that made no copies: later checkpoints replace it
            _logger.error("damaged data: storage checkpoint %s is removed: %s", checkpoint, damage)
            await self._store.remove(checkpoint, listed.pop(checkpoint))

    async def _retain(self, listed: Listed) -> None:
        """Remove checkpoints that are not needed any more, then hold garbage for the others only."""
        await self._learn(listed)
        for checkpoint in plan_removal(listed, self._config.kept):
            await self._store.remove(checkpoint, listed[checkpoint], partial(self._forget, checkpoint))
        self._hold_known()

    def _forget(self, checkpoint: CheckpointId) -> None:
        self._free_garbage.pop(checkpoint, None)

    def _hold_known(self) -> None:
        self._hold(min(self._free_garbage.values(), default=None))

    def _hold(self, first: int | None) -> None:
        self._held = first
        self._storage.garbage.hold(first)
        self._statistics.held_from = -1 if first is None else first
