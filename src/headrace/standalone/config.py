"""What a person may choose about a standalone server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.limits import MIB
from headrace.segmentstore.container.config import ContainerConfig
from headrace.storage.providers.chunk_threads import ChunkThreadsConfig

CONTAINERS_DEFAULT: Final = 4
CONTAINERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig:
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    data_dir: str = "headrace-data"
    in_memory: bool = False
    host: str = "127.0.0.1"
    controller_port: int = 9090
    segmentstore_port: int = 12345
    rest_port: int = 10080
    ready_file: str | None = None
    containers: int | None = None
    """Fixed once data exist. None: as the data directory was made, CONTAINERS_DEFAULT for a new one."""
    cache_bytes: int = 256 * MIB
    frames_max: int = 12
    """Frames per container: a legal append of 16 MiB has to find room in them."""
    container: ContainerConfig = field(default_factory=ContainerConfig)
    chunk_threads: ChunkThreadsConfig = field(default_factory=ChunkThreadsConfig)
