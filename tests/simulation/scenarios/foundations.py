"""What outlives owners of containers: logs and objects, in files or in memory, and their faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.errors import StorageReadError
from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider, FilesystemProviderConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.distant_wal import make_distant
from headrace.testing.object_store_faults import FaultyObjectStore, ObjectStoreFaults
from headrace.testing.simulation import Simulation
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, ModifyingCall
from headrace.testing.wal_faults import FaultyMemoryWal
from headrace.wal.contract import Wal
from headrace.wal.file.file_wal import FileWal
from headrace.wal.loop_writes import LoopWrites, LoopWritesConfig
from headrace.wal.memory import MemoryLogStore
from tests.simulation.scenarios.container_profile import ContainerProfile

CHUNKS: Final = "/data/chunks"

_THREADS: Final = ChunkThreadsConfig(writes=2, reads=2)
_FILES: Final = FilesystemProviderConfig(written_cache_bytes=4096)
_PAGE_OBJECTS: Final = 20
"""More than one page of them, in most listings."""


class Foundations:
    """Logs and long-term storage of one world, as its profile has drawn them."""

    def __init__(self, sim: Simulation, profile: ContainerProfile) -> None:
        self.troubled = True
        self._now = sim.loop.time
        self._loop = sim.loop
        self._profile = profile
        self._faults = sim.entropy.fork("storage-faults")
        self._logs = MemoryLogStore()
        self._objects = MemoryChunkProvider(supports_append=profile.supports_append)
        self.far: FaultyObjectStore | None = None
        if profile.far_storage is not None:
            faults = replace(profile.far_storage)
            entropy = sim.entropy.fork("far-storage")
            self.far = FaultyObjectStore(
                entropy, faults, supports_append=profile.supports_append, page_objects_max=_PAGE_OBJECTS
            )

    def end_troubles(self) -> None:
        """Let nothing go wrong any more by itself; what was begun still ends late."""
        self.troubled = False
        if self.far is not None:
            self.far.faults = ObjectStoreFaults(latency_s_max=self.far.faults.latency_s_max)

    def make_wal(self, name: str, runtime: Runtime, entropy: SeededEntropy, kill: Callable[[], None]) -> Wal:
        """Return an unopened log; ``kill`` ends the process of its owner."""
        config = self._profile.wal
        if not self._profile.file_log:
            return FaultyMemoryWal(
                self._logs, name, config, self._loop, entropy, write_s_max=self._profile.log_s_max, kill=kill
            )
        files = runtime.filesystem
        if not files.exists("/data/wal"):
            files.mkdir("/data/wal")
            for directory in ("/data", "/"):
                files.fsync_directory(directory)
        return FileWal(
            f"/data/wal/{name}",
            config,
            filesystem=files,
            clock=runtime.clock,
            entropy=runtime.entropy,
            threads=runtime.threads,
            loop_writes=LoopWrites(LoopWritesConfig()) if self._profile.loop_writes else None,
        )

    def reach_wal(self, wal: Wal, entropy: SeededEntropy) -> Wal:
        """Return the log as its owner sees it."""
        if not self._profile.distant_log:
            return wal
        return make_distant(wal, entropy.fork("distant-log"), max(self._profile.log_s_max, 0.001))

    def make_chunks(self, runtime: Runtime) -> ChunkProvider:
        """Return the way of one process to the objects."""
        if self.far is not None:
            return self.far
        provider: ChunkProvider = self._objects
        if self._profile.file_chunks:
            files = runtime.filesystem
            if not files.exists(CHUNKS):
                files.mkdir(CHUNKS)
                for directory in ("/data", "/"):
                    files.fsync_directory(directory)
            threads = ChunkThreads.start(runtime.threads, _THREADS)
            provider = FilesystemChunkProvider(CHUNKS, files, threads, _FILES)
        faulty = FaultyChunkProvider(provider, self._inject)
        faulty.on_read = self._on_read
        faulty.delay_s = self._delay_s
        return faulty

    def has_trouble(self, name: str) -> bool:
        """Say whether this kind of trouble may happen now."""
        return self.troubled and name in self._profile.troubles

    def _inject(self, _: ModifyingCall) -> Fault | None:
        if self.has_trouble("outage") and self._now() % 3.0 < 0.7:
            return Fault.FAIL
        draw = self._faults.randbelow
        if not self.has_trouble("storage") or draw(1000) >= self._profile.storage_faults_per_thousand:
            return None
        kinds = [Fault.FAIL, Fault.FULL, Fault.LOSE_REPLY, Fault.TEAR]
        if self.has_trouble("hang"):
            kinds.append(Fault.HANG)
        return kinds[draw(len(kinds))]

    def _on_read(self, name: str) -> None:
        if not self.has_trouble("reads"):
            return
        if self._faults.randbelow(1000) < self._profile.read_faults_per_thousand:
            raise StorageReadError(f"injected: {name}")

    def _delay_s(self, _: str) -> float:
        return self._faults.random() * self._profile.storage_s_max if self.has_trouble("slow") else 0.0
