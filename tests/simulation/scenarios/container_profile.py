"""What one seed makes of a container's surroundings: sizes that are far too small, and which faults occur.

Everything is drawn from what each settings class declares for simulation (``tunable(simulate=...)``), so a
new setting takes part without a change here; the rest is bounds that have no declaration.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.read_index import ReadIndexConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.testing.object_store_faults import ObjectStoreFaults
from headrace.testing.simulated_settings import simulated
from headrace.wal.config import WalConfig
from tests.simulation.reduction import Reduction

#: How the life of an owner ends. All but the last are faults.
ENDINGS: Final = (
    "kill",
    "power",
    "power_at_write",
    "wal_failure",
    "wal_full",
    "rival",
    "restart",
    "stop",
)

#: What goes wrong while an owner lives.
TROUBLES: Final = ("storage", "hang", "reads", "slow", "cancel", "outage", "disk")

FAULTS: Final = (*ENDINGS[:-1], *TROUBLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProfile:
    """Drawn once per run."""

    file_log: bool
    file_chunks: bool
    supports_append: bool
    wal: WalConfig
    container: ContainerConfig
    cache: CacheConfig
    lives: int
    clients: int
    steps: int
    streams: int
    storage_faults_per_thousand: int
    read_faults_per_thousand: int
    cancels_per_thousand: int
    storage_s_max: float
    log_s_max: float
    pause_s_max: float
    troubles: frozenset[str]
    crowds: bool = False
    """Of a whole store: whether its clients ask for many things at once."""
    chains: bool = False
    """Of a container: whether what is merged was merged into before."""
    attributes: bool = False
    """Of a container: whether its clients need many attributes."""
    distant_log: bool = False
    """Whether logs are asked as over a network."""
    loop_writes: bool = False
    """Whether logs in files write small frames on the loop."""
    far_storage: ObjectStoreFaults | None = None
    """What is wrong with long-term storage if that is an object store across a network."""
    connection_requests_max: int = 128
    receive_buffer_bytes: int = 256 * KIB
    connection_bytes_max: int = 512 * MIB
    small_reply_bytes_max: int = 64 * KIB


def draw_profile(entropy: SeededEntropy, reduction: Reduction) -> ContainerProfile:
    """Return the profile of a seed."""
    draw = entropy.randbelow
    troubles = frozenset(name for name in TROUBLES if draw(3)) - reduction.without
    frame = (300, 512, 1 * KIB, 4 * KIB)[draw(4)]
    frames = max(3 + draw(5), -(-16 * KIB // frame))
    wal = dataclasses.replace(
        simulated(WalConfig, entropy),
        frame_bytes_max=frame,
        frames_max=frames,
        segment_file_bytes=(32 * KIB, 64 * KIB)[draw(2)],
        zero_step_bytes=4 * KIB,
        zero_ahead_bytes=(0, 8 * KIB)[draw(2)],
    )
    writer = simulated(StorageWriterConfig, entropy)
    writer = dataclasses.replace(
        writer,
        flush_age_s=min(writer.flush_age_s, 0.5),
        retry_max_s=min(writer.retry_max_s, 0.5),
        garbage_interval_s=(0.05, 0.5)[draw(2)],
        stop_flush_s=(0.0, 1.0)[draw(2)],
    )
    container = simulated(ContainerConfig, entropy)
    container = dataclasses.replace(
        container,
        memory_log_max=(20, 200, 10_000)[draw(3)],
        requests_max=(3, 10_000)[draw(2)],
        unstored_bytes_max=(16 * KIB, 64 * KIB, 1 << 20)[draw(3)],
        checkpoint_frames=(40, 80, 200)[draw(3)],
        checkpoint_bytes=(16 * KIB, 64 * KIB)[draw(2)],
        checkpoint_part_bytes=(200, 2 * KIB)[draw(2)],
        checkpoint_interval_s=(0.2, 600.0, 600.0)[entropy.fork("checkpoint-interval").randbelow(3)],
        replay_operations=(1, 7, 500)[entropy.fork("replay").randbelow(3)],
        read_index=ReadIndexConfig(
            fetches_max=2 + draw(3),
            read_ahead=draw(3) > 0,
            storage_timeout_s=2.0,
        ),
        storage=dataclasses.replace(
            container.storage,
            rollover_bytes=(700, 2 * KIB, 8 * KIB)[draw(3)],
            block_bytes=(16, 64, 200)[draw(3)],
            concat_copy_bytes_max=(0, 300, 4 * KIB)[draw(3)],
            provider_timeout_s=5.0,  # a read has a fifth of it: storage that is slow needs it for many chunks
            garbage_delay_s=0.0,
            # Storage checkpoints hold garbage: a bound of a few batches would be reached, and nothing go on.
            garbage_runs_max=(
                100_000 if container.storage_checkpoints.enabled else container.storage.garbage_runs_max
            ),
            garbage_retry_s=0.05,
        ),
        storage_writer=writer,
    )
    arena = 64 * KIB
    cache = CacheConfig(
        bytes_max=(64 * KIB, 128 * KIB, 512 * KIB)[draw(3)],
        arena_bytes=arena,
        extent_bytes_max=(4 * KIB, 16 * KIB, arena)[draw(3)],
        soft_bytes_max=(None, arena)[entropy.fork("soft").randbelow(2)],
    )
    return ContainerProfile(
        file_log=draw(5) < 3,
        file_chunks=draw(4) == 0,
        supports_append=draw(4) > 0,
        wal=wal,
        container=container,
        cache=cache,
        lives=min(2 + draw(4), reduction.lives),
        clients=min(1 + draw(4), reduction.clients),
        steps=min(8 + draw(25), reduction.steps),
        streams=1 + draw(3),
        storage_faults_per_thousand=draw(150),
        read_faults_per_thousand=draw(15),
        cancels_per_thousand=draw(60),
        storage_s_max=(0.0, 0.02, 0.3)[draw(3)],
        log_s_max=(0.0, 0.002, 0.05)[draw(3)],
        pause_s_max=(0.0, 0.02, 0.2)[draw(3)],
        troubles=troubles,
        distant_log=entropy.fork("distant-log").randbelow(2) > 0,
        loop_writes=entropy.fork("loop-writes").randbelow(2) > 0,
    )
