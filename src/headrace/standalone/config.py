"""What a person may choose about a standalone server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, MIB
from headrace.runtime.settings import tunable
from headrace.segmentstore.container.config import ContainerConfig
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.filesystem import FilesystemProviderConfig
from headrace.wal.config import WalConfig
from headrace.wal.file.loop_writes import LoopWritesConfig

CONTAINERS_DEFAULT: Final = 4
CONTAINERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig:
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    data_dir: str = tunable("headrace-data", help="Directory of all data.")
    in_memory: bool = tunable(default=False, help="Store nothing on disk; all data are lost at the end.")
    host: str = tunable("127.0.0.1", help="Address to listen on, which clients connect to.")
    controller_port: int = tunable(9090, low=0, high=65535, help="Port of the control calls (gRPC).")
    segmentstore_port: int = tunable(12345, low=0, high=65535, help="Port of the data protocol.")
    rest_port: int = tunable(10080, low=0, high=65535, help="Port of the REST interface.")
    ready_file: str | None = tunable(None, help="Written as JSON once clients may connect.")
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

    def check(self) -> None:
        """Check relations between settings, and that directory and host are names that can be looked up."""
        if not (self.data_dir or self.in_memory):
            raise InvalidArgumentError("data_dir is empty: it names the directory of all data")
        if not self.host:  # the system would listen on every address there is
            raise InvalidArgumentError(
                "host is empty: it names the address to listen on, which clients connect to"
            )
        try:
            self.host.encode("idna")
        except UnicodeError as error:
            raise InvalidArgumentError(f"host = {self.host!r} is no name of a host: {error}") from None

    def cache_bytes_wanted(self, containers: int) -> int:
        """How large the cache must be for so many containers to be under full load at the same time."""
        return 2 * containers * self.frames_max * WalConfig().frame_bytes_max
