"""What a person may choose about a standalone server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, MIB
from headrace.runtime.settings import tunable
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.ingress.config import ConnectionMemoryConfig
from headrace.storage.providers.chunk_threads import ChunkThreadsConfig
from headrace.storage.providers.filesystem import FilesystemProviderConfig
from headrace.wal.config import WalConfig
from headrace.wal.file.loop_writes import LoopWritesConfig

CONTAINERS_DEFAULT: Final = 4
CONTAINERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig:
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    data_dir: str = tunable("headrace-data", help="Directory of everything that is kept.")
    in_memory: bool = tunable(default=False, help="Keep nothing on disk; all is lost at the end.")
    host: str = tunable("127.0.0.1", help="Address to listen on and to tell clients.")
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
        help="Hard bound of the memory for events, of all containers together: cached and not stored yet.",
    )
    cache_soft_bytes: int = tunable(
        160 * MIB,
        low=16 * MIB,
        high=1024 * GIB,
        help="Of that, so much is used for whatever comes; more only for events that are not stored yet.",
    )
    frames_max: int = tunable(
        12,
        low=10,
        high=1024,
        help="Log frames of 2 MiB per container: a legal append of 16 MiB has to find room in them.",
    )
    connections_max: int = tunable(
        10_000,
        low=1,
        high=1_000_000,
        help="Connections of the data protocol at a time; fewer if the limit of open files is low.",
    )
    container: ContainerConfig = field(default_factory=ContainerConfig)
    chunk_threads: ChunkThreadsConfig = field(default_factory=ChunkThreadsConfig)
    chunk_files: FilesystemProviderConfig = field(default_factory=FilesystemProviderConfig)
    loop_writes: LoopWritesConfig = field(default_factory=LoopWritesConfig)
    connection_memory: ConnectionMemoryConfig = field(default_factory=ConnectionMemoryConfig)

    def check(self) -> None:
        """Check relations between settings, and that directory and host are names that can be looked up."""
        if not (self.data_dir or self.in_memory):
            raise InvalidArgumentError("data_dir is empty: it names the directory of everything that is kept")
        if not self.host:  # the system would listen on every address there is
            raise InvalidArgumentError("host is empty: it names the address to listen on and to tell clients")
        try:
            self.host.encode("idna")
        except UnicodeError as error:
            raise InvalidArgumentError(f"host = {self.host!r} is no name of a host: {error}") from None

    def cache_bytes_wanted(self, containers: int) -> int:
        """How large the cache must be for so many containers to be under full load at the same time."""
        return 2 * containers * self.frames_max * WalConfig().frame_bytes_max
