"""A container whose log is lost, made again from the copy beside its chunks: it is as it was then."""

from __future__ import annotations

import dataclasses
from contextlib import aclosing
from typing import Final

from headrace.limits import KIB
from headrace.repair.rebuild.choice import next_epoch
from headrace.repair.rebuild.rebuilt_log import RebuiltLog
from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.checkpoints.config import StorageCheckpointsConfig
from headrace.storage.checkpoints.listed import finished
from headrace.storage.providers.contract import ChunkProvider
from headrace.wal.stores import make_logs
from tests.simulation.scenarios.container_profile import ContainerProfile

NO_COPIES: Final = StorageCheckpointsConfig(interval_s=0.0)
_COPIES_BY_HAND: Final = StorageCheckpointsConfig(interval_s=86_400.0, chunks=1 << 30)
_CALL_S: Final = 60.0


def draw_copies(entropy: SeededEntropy) -> StorageCheckpointsConfig:
    """Return when owners copy their logs: never, rarely, or all the time."""
    draw = entropy.randbelow
    return StorageCheckpointsConfig(
        interval_s=(0.0, 0.2, 2.0)[draw(3)],
        chunks=(3, 50)[draw(2)],
        pause_s=0.05,
        fence_s=0.5,
        look_s=0.05,
        truncation_wait_s=0.2,
        timeout_s=5.0,
        part_bytes=(64 * KIB, 1 << 20)[draw(2)],
    )


def with_copies(profile: ContainerProfile, config: StorageCheckpointsConfig) -> ContainerProfile:
    """Return the profile with owners that copy their logs so."""
    container = dataclasses.replace(profile.container, storage_checkpoints=config)
    return dataclasses.replace(profile, container=container)


def with_copies_by_hand(profile: ContainerProfile) -> ContainerProfile:
    """Return the profile with owners that copy their logs when they are asked for that, only."""
    profile = with_copies(profile, _COPIES_BY_HAND)
    storage = dataclasses.replace(profile.container.storage, garbage_runs_max=100_000)
    return dataclasses.replace(profile, container=dataclasses.replace(profile.container, storage=storage))


async def rebuild_log(chunks: ChunkProvider, data_directory: str, runtime: Runtime) -> None:
    """Delete the log of container 0 and make it again from the newest copy."""
    store = CheckpointStore(chunks, 0, _CALL_S)
    listed = await store.look()
    newest = finished(listed)[-1]
    manifest = await store.read_manifest(newest, listed[newest])
    names = [found.name async for page in chunks.list() for found in page]
    logs = make_logs(data_directory, runtime)
    log = RebuiltLog(logs, 0, runtime.entropy, next_epoch(names, listed))
    try:
        await log.open()
        async with aclosing(store.read_records(manifest)) as parts:
            async for records in parts:
                await log.write(records)
        await log.renew_incarnation()
    finally:
        await log.close()
