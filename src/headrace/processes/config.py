"""What a person may choose about a process: a segment store by itself, or with a controller beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.controller.config import ControllerConfig
from headrace.data_directory.log_place import parse_log
from headrace.errors import InvalidArgumentError
from headrace.limits import CONTAINERS_MAX, GIB, MIB
from headrace.processes.process_config import PARTS, PORT_MAX, Part, ProcessConfig, RestConfig
from headrace.runtime.settings import tunable
from headrace.segmentstore.attributes.page_cache import PAGE_CACHE_BYTES
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.files.filesystem import FilesystemProviderConfig
from headrace.storage.providers.location import StorageLocation
from headrace.wal.config import WalConfig
from headrace.wal.loop_writes import LoopWritesConfig
from headrace.wal.stores import ObjectLogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStoreConfig(ProcessConfig):
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    parts: ClassVar[tuple[Part, ...]] = ("segmentstore", "rest")

    data_dir: str = tunable("headrace-data", help="Directory of all data.")
    storage: str | None = tunable(
        None,
        help="URI of long-term storage: s3://bucket/prefix, gs://, az://, hdfs://host:port/directory or "
        "file:///mnt/chunks; no secrets. None: as the last start; for a new directory, `chunks` in it.",
    )
    log: str | None = tunable(
        None,
        help="URI of what has the log: a bucket (s3://bucket/prefix, gs:// or az://) or "
        "bookkeeper://zk1:2181/ledgers; no secrets. None: as the last start; for a new directory, `wal` in "
        "it.",
    )
    in_memory: bool = tunable(default=False, help="Store nothing on disk; all data are lost at the end.")
    advertise_segmentstore: str | None = tunable(
        None, help="HOST[:PORT] to tell clients for the data protocol, if it differs, as behind mapped ports."
    )
    segmentstore_port: int = tunable(12345, low=0, high=PORT_MAX, help="Port of the data protocol.")
    containers: int | None = tunable(
        None,
        low=1,
        high=CONTAINERS_MAX,
        help="Fixed once data exist. None: as the directory was made; 4 for a new one.",
    )
    cache_bytes: int = tunable(
        512 * MIB,
        low=16 * MIB,
        high=1024 * GIB,
        help="Capacity of the cache of all containers together, unstored events included.",
    )
    cache_soft_bytes: int = tunable(
        160 * MIB,
        low=16 * MIB,
        high=1024 * GIB,
        help="Part of the capacity that any event may use; the rest is for unstored events only.",
    )
    index_cache_bytes: int = tunable(
        PAGE_CACHE_BYTES,
        low=1 * MIB,
        high=1024 * GIB,
        help="Pages in memory of the indexes of tables and attributes, of all containers together.",
    )
    frames_max: int = tunable(
        12,
        low=10,
        high=1024,
        help="Log frames of 2 MiB per container; together they hold the largest append, 16 MiB.",
    )
    connections_max: int = tunable(
        10_000,
        low=1,
        high=1_000_000,
        help="Connections of the data protocol at a time; fewer if the limit of open files is low.",
    )
    connection_bytes_max: int = tunable(
        512 * MIB,
        low=1,
        high=1024 * GIB,
        help="What all of them together may take of memory besides their buffers: large frames on their way, "
        "requests that run, replies that are not taken, reads that wait, writers that are set up.",
    )
    connection_stall_s: float = tunable(
        30.0,
        low=0.1,
        high=3600.0,
        help="While others wait for some of it, a client is closed that does not send the frame, or take the "
        "reply, for which it has some, in this time; or nothing of it for a sixth of this time.",
    )
    container: ContainerConfig = field(default_factory=ContainerConfig)
    chunk_threads: ChunkThreadsConfig = field(default_factory=ChunkThreadsConfig)
    chunk_files: FilesystemProviderConfig = field(default_factory=FilesystemProviderConfig)
    loop_writes: LoopWritesConfig = field(default_factory=LoopWritesConfig)
    log_in_bucket: ObjectLogConfig = field(default_factory=ObjectLogConfig)

    def check(self) -> None:
        """Check relations between settings, and that directory and host are names that can be looked up.

        Raises InvalidArgumentError.
        """
        if self.containers is not None and not 1 <= self.containers <= CONTAINERS_MAX:
            raise InvalidArgumentError(f"{self.containers} containers: 1 to {CONTAINERS_MAX}")
        if not (self.data_dir or self.in_memory):
            raise InvalidArgumentError("data_dir is empty: it names the directory of all data")
        if self.in_memory and (self.storage is not None or self.log is not None):
            raise InvalidArgumentError("with in_memory nothing is stored: leave out storage and log")
        if self.storage is not None:
            StorageLocation.parse(self.storage)
        if self.log is not None and str(parse_log(self.log)) == self.storage:
            raise InvalidArgumentError("log and storage name one place: give each a prefix of its own")
        ProcessConfig.check(self)

    def place(self) -> str:
        return "in memory only" if self.in_memory else f"data in {self.data_dir}"

    def cache_bytes_wanted(self, containers: int) -> int:
        """How large the cache must be for so many containers to be under full load at the same time."""
        return 2 * containers * self.frames_max * WalConfig().frame_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig(SegmentStoreConfig):
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    parts: ClassVar[tuple[Part, ...]] = PARTS

    advertise_controller: str | None = tunable(
        None, help="HOST[:PORT] to tell clients for control calls, if it differs, as behind mapped ports."
    )
    controller_port: int = tunable(9090, low=0, high=PORT_MAX, help="Port of the control calls (gRPC).")
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    rest: RestConfig = field(default_factory=RestConfig)
    scaling: ScalingConfig = field(default_factory=ScalingConfig)
