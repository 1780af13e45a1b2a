"""How one container batches, bounds and moves its data."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import internal, tunable
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.readindex.read_index import ReadIndexConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.tables.config import TablesConfig
from headrace.storage.checkpoints.config import StorageCheckpointsConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.optimiser_config import OptimiserConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionConfig:
    """How many segments of a container are active, and when idle ones are evicted."""

    active_segments_max: int = tunable(
        25_000,
        low=16,
        high=1_000_000,
        simulate=(16, 100),
        help="Segments in memory, those of the system included. Beyond it idle ones are evicted at once.",
    )
    eviction_interval_s: float = tunable(
        60.0,
        low=0.1,
        high=86_400.0,
        simulate=(0.2, 2.0),
        help="A stored segment that was idle for this long is evicted until it is used again.",
    )
    eviction_batch: int = internal(
        2500,
        simulate=(1, 10),
        help="Segments evicted in one batch, least recently used first.",
    )
    eviction_cut_s: float = internal(
        10.0,
        help="How long evictions for another segment may wait for storage, so that the log can be truncated.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """Bounds of one container, and how often it writes a metadata checkpoint."""

    memory_log_max: int = internal(
        1_000_000,
        help="Operations in memory that the storage writer has not taken; more are not accepted.",
    )
    requests_max: int = internal(10_000, help="Operations that wait to be accepted; more are refused.")
    unstored_bytes_max: int = tunable(
        192 * MIB,
        low=1 * MIB,
        high=1024 * GIB,
        help="Unstored bytes; with more, nothing is accepted.",
    )
    throttle: ThrottleConfig = field(default_factory=ThrottleConfig)
    checkpoint_bytes: int = tunable(
        64 * MIB,
        low=4 * KIB,
        high=64 * GIB,
        help="A metadata checkpoint is written after so many bytes of the log, if not before for its frames.",
    )
    checkpoint_frames: int = internal(4096, help="It is written after so many frames,")
    checkpoint_departures: int = internal(
        25_000,
        help="or so many segments that were deleted or merged, and as many bytes as the last one had.",
    )
    checkpoint_interval_s: float = internal(
        600.0,
        help="It is written at the latest so long after an operation.",
    )
    storage_row_cache_bytes: int = internal(
        4 * MIB,
        simulate=(0,),
        help="Memory of the rows of long-term storage that were used last.",
    )
    checkpoint_part_bytes: int = internal(256 * KIB, help="A checkpoint travels in parts of this size.")
    replay_operations: int = internal(
        500,
        help="Operations of the log that recovery replays before it yields to the loop.",
    )
    attributes: AttributesConfig = field(default_factory=AttributesConfig)
    eviction: EvictionConfig = field(default_factory=EvictionConfig)
    read_index: ReadIndexConfig = field(default_factory=ReadIndexConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    storage: SegmentStorageConfig = field(default_factory=SegmentStorageConfig)
    storage_checkpoints: StorageCheckpointsConfig = field(default_factory=StorageCheckpointsConfig)
    tables: TablesConfig = field(default_factory=TablesConfig)
    storage_writer: StorageWriterConfig = field(default_factory=StorageWriterConfig)
