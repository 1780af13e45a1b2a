"""How one container batches, bounds and moves its data."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.limits import KIB, MIB
from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig
from headrace.segmentstore.readindex.read_index import ReadIndexConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.tables.config import TablesConfig
from headrace.storage.chunks.config import SegmentStorageConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """Values only; clocks, logs and stores are components."""

    memory_log_max: int = 1_000_000
    requests_max: int = 10_000
    unstored_bytes_max: int = 192 * MIB
    throttle: ThrottleConfig = field(default_factory=ThrottleConfig)
    checkpoint_frames: int = 4096
    checkpoint_bytes: int = 64 * MIB
    checkpoint_part_bytes: int = 256 * KIB
    read_index: ReadIndexConfig = field(default_factory=ReadIndexConfig)
    storage: SegmentStorageConfig = field(default_factory=SegmentStorageConfig)
    tables: TablesConfig = field(default_factory=TablesConfig)
    storage_writer: StorageWriterConfig = field(default_factory=StorageWriterConfig)
