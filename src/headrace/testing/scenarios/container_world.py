"""One container's world: its log, its storage, its machine, and how its owners come and go.

The log is the one in files on a simulated disk or the one in memory, and so is the storage; what survives of
them is what the next owner finds. Everything that clients are told goes into one ``ContainerHistory``, and
every owner is looked at before anybody may use it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from headrace.errors import (
    ContainerOfflineError,
    CorruptionError,
    HeadraceError,
    NoSuchSegmentError,
    RequestError,
    StorageReadError,
)
from headrace.runtime.context import Runtime
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.filesystem import FilesystemChunkProvider
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.container_calls import ObserveAnswer, ObserveCall, ObservedSegment
from headrace.testing.container_history import ContainerHistory
from headrace.testing.disk import Moment
from headrace.testing.failures import SimulationError
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.process import SimulatedProcess
from headrace.testing.scenarios.container_profile import ContainerProfile
from headrace.testing.simulation import Simulation
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, ModifyingCall
from headrace.testing.wal_faults import FaultyMemoryWal, WalFault
from headrace.testing.workloads.container_clients import facts_of
from headrace.wal.contract import Wal
from headrace.wal.file.file_wal import FileWal
from headrace.wal.memory import MemoryLogStore

T = TypeVar("T")

LOG: Final = "/data/wal/container-0"
CHUNKS: Final = "/data/chunks"

_ATTEMPTS_MAX: Final = 60
_READ_ATTEMPTS_MAX: Final = 300


class StuckError(SimulationError):
    """Something that must end sooner or later has not."""


class Owner:
    """One container object in one process."""

    def __init__(self, host: SimulatedHost, process: SimulatedProcess, cache: BlockCache) -> None:
        self.host = host
        self.process = process
        self.cache = cache
        self.container: SegmentContainer
        self.wal: Wal
        self.over = asyncio.Event()
        """Set when the container has ended by itself or its process was killed."""
        self.failure: BaseException | None = None
        process.on_kill(self.over.set)

    def on_failed(self, _: SegmentContainer, error: BaseException) -> None:
        """The container has ended by itself."""
        self.failure = error
        self.over.set()

    @property
    def lives(self) -> bool:
        """Whether its process does; the container may have ended."""
        return self.process.alive


class ContainerWorld:
    """What outlives owners, and the way to a new one."""

    def __init__(self, sim: Simulation, profile: ContainerProfile) -> None:
        self.sim = sim
        self.profile = profile
        self.history = ContainerHistory(sim.loop.time, sim.trace)
        self.known: dict[str, bool] = {}
        """Names of all segments that clients have asked for, and whether they are transient."""
        self.troubled = True
        self.endings: dict[str, int] = {}
        self._entropy = sim.entropy.fork("world")
        self._faults = sim.entropy.fork("storage-faults")
        self._logs = MemoryLogStore()
        self._objects = MemoryChunkProvider(supports_append=profile.supports_append)
        self._caches: dict[SimulatedProcess, BlockCache] = {}

    # ---------------------------------------------------------------------------------- a new owner

    async def start_owner(self, host: SimulatedHost) -> Owner:
        """Start a container on ``host``, observed and judged, whatever it takes.

        Raises:
            StuckError: it takes too long.
            CorruptionError: what is on disk contradicts itself; nothing here damages it.
        """
        for attempt in range(_ATTEMPTS_MAX):
            if attempt % 4 == 3:
                host.disk.heal()
            owner = None
            try:
                owner = await self.open_owner(host)
                seen = await self.run_in(owner, self._observe(owner))
            except HostDownError:
                continue
            except (HeadraceError, OSError) as error:
                if isinstance(error, CorruptionError | RequestError):
                    raise
                self.sim.trace.add("world", "start failed", error=type(error).__name__, why=str(error)[:100])
                if self._entropy.randbelow(2):
                    host.kill()
                elif owner is not None:
                    await self.stop(owner)  # as a registry does; its cache is the next owner's too
                await asyncio.sleep(0.1)
                continue
            operation = self.history.start("observer", ObserveCall())
            self.history.succeed(operation, seen)
            self.history.end_period()
            return owner
        raise StuckError(f"no owner in {_ATTEMPTS_MAX} attempts")

    async def open_owner(self, host: SimulatedHost) -> Owner:
        """Start a container on ``host`` as it is, in its running process or a new one."""
        if not host.is_up:
            host.boot()
        process = host.process
        assert process is not None
        cache = self._caches.get(process)
        if cache is None:
            cache = self._caches[process] = BlockCache(self.profile.cache)
        owner = Owner(host, process, cache)
        await self.run_in(owner, self._open(owner, host.runtime))
        return owner

    async def run_in(self, owner: Owner, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run in the owner's process, from outside."""
        return await owner.host.run(coroutine)

    async def _open(self, owner: Owner, runtime: Runtime) -> None:
        owner.wal = self._make_wal(owner, runtime)
        components = ContainerComponents(
            wal=owner.wal,
            chunks=self._make_chunks(runtime),
            cache=owner.cache,
            clock=runtime.clock,
            entropy=runtime.entropy,
        )
        container = SegmentContainer(0, components, self.profile.container, owner.on_failed)
        owner.container = container
        try:
            await container.start()
        except BaseException:
            await container.stop()
            raise

    def _make_wal(self, owner: Owner, runtime: Runtime) -> Wal:
        config = self.profile.wal
        if not self.profile.file_log:
            return FaultyMemoryWal(
                self._logs,
                "log",
                config,
                self.sim.loop,
                self._entropy.fork(owner.process.name),
                write_s_max=self.profile.log_s_max,
                kill=owner.host.kill,
            )
        files = runtime.filesystem
        if not files.exists("/data/wal"):
            files.mkdir("/data/wal")
            for directory in ("/data", "/"):
                files.fsync_directory(directory)
        return FileWal(
            LOG,
            config,
            filesystem=files,
            clock=runtime.clock,
            entropy=runtime.entropy,
            threads=runtime.threads,
        )

    def _make_chunks(self, runtime: Runtime) -> FaultyChunkProvider:
        provider: ChunkProvider = self._objects
        if self.profile.file_chunks:
            files = runtime.filesystem
            if not files.exists(CHUNKS):
                files.mkdir(CHUNKS)
                for directory in ("/data", "/"):
                    files.fsync_directory(directory)
            provider = FilesystemChunkProvider(CHUNKS, files, runtime.threads.pool(2, "storage"))
        faulty = FaultyChunkProvider(provider, self._inject)
        faulty.on_read = self._on_read
        faulty.delay_s = self._delay_s
        return faulty

    # ---------------------------------------------------------------------------------- faults of storage

    def has_trouble(self, name: str) -> bool:
        """Say whether this kind of trouble may happen now."""
        return self.troubled and name in self.profile.troubles

    def _inject(self, _: ModifyingCall) -> Fault | None:
        if self.has_trouble("outage") and self.sim.loop.time() % 3.0 < 0.7:
            return Fault.FAIL
        draw = self._faults.randbelow
        if not self.has_trouble("storage") or draw(1000) >= self.profile.storage_faults_per_thousand:
            return None
        kinds = [Fault.FAIL, Fault.FULL, Fault.LOSE_REPLY, Fault.TEAR]
        if self.has_trouble("hang"):
            kinds.append(Fault.HANG)
        return kinds[draw(len(kinds))]

    def _on_read(self, name: str) -> None:
        if not self.has_trouble("reads"):
            return
        if self._faults.randbelow(1000) < self.profile.read_faults_per_thousand:
            raise StorageReadError(f"injected: {name}")

    def _delay_s(self, _: str) -> float:
        return self._faults.random() * self.profile.storage_s_max if self.has_trouble("slow") else 0.0

    # ---------------------------------------------------------------------------------- endings

    def plan(self, owner: Owner, ending: str) -> None:
        """Arrange for an ending that waits for a certain write to happen."""
        draw, disk = self._entropy.randbelow, owner.host.disk
        if ending in {"wal_failure", "wal_full"} and isinstance(owner.wal, FaultyMemoryWal):
            kinds = [WalFault.FULL] if ending == "wal_full" else [WalFault.FAIL, WalFault.LOSE_REPLY]
            owner.wal.plan(draw(60), kinds[draw(len(kinds))])
        elif ending == "wal_full":
            disk.fail("pwrite", error=errno.ENOSPC, path="/wal/", skip=draw(60), count=1 + draw(3))
        elif ending == "wal_failure":
            calls = ("pwrite", "fdatasync", "fsync", "fsync_directory", "rename", "unlink")
            disk.fail(*calls, path="/wal/", skip=draw(60))
        elif ending == "power_at_write" and isinstance(owner.wal, FaultyMemoryWal):
            owner.wal.plan(draw(60), (WalFault.DIE_BEFORE, WalFault.DIE_AFTER)[draw(2)])
        elif ending == "power_at_write":
            moments = list(Moment)
            number = disk.statistics().durable_writes + 1 + draw(80)
            disk.plan_power_loss(number, moments[draw(len(moments))])

    async def end(self, owner: Owner, ending: str) -> None:
        """Let the owner end, if it has not done so; afterwards its process may live."""
        if not owner.lives:
            return
        if ending == "kill":
            owner.host.kill()
        elif ending in {"power", "power_at_write"}:
            owner.host.lose_power()
        elif owner.failure is not None and self._entropy.randbelow(2):
            owner.host.kill()
        else:
            await self.stop(owner)

    async def stop(self, owner: Owner) -> None:
        """Stop the container in its process, as its registry does."""
        try:
            async with asyncio.timeout(120):
                await self.run_in(owner, owner.container.stop())
        except HostDownError:
            return
        except TimeoutError:
            raise StuckError(f"the container does not stop{self.sim.loop.describe_tasks()}") from None
        left = owner.cache.statistics().used_bytes
        if left:
            raise SimulationError(f"a stopped container has left {left} bytes in the cache")

    # ---------------------------------------------------------------------------------- looking

    async def _observe(self, owner: Owner) -> ObserveAnswer:
        container = owner.container
        container.check()
        seen: dict[str, ObservedSegment] = {}
        for name in self.known:
            try:
                facts = await facts_of(container, name)
            except NoSuchSegmentError:
                continue
            seen[name] = ObservedSegment(facts, await self._read_all(container, name))
            assert await facts_of(container, name) == facts
        found = {name for name in container.state.by_name if not name.startswith("_system/")} - set(
            self.known
        )
        assert not found, f"nobody has created {sorted(found)}"
        return ObserveAnswer(seen)

    async def _read_all(self, container: SegmentContainer, name: str) -> bytes:
        content, failures, offset = b"", 0, 0
        while True:
            try:
                state = await container.resolve(name)
                offset = state.start_offset + len(content)
                if offset == state.durable_length:
                    return content
                result = await container.read(
                    state, offset, 1 + self._entropy.randbelow(5000), wait=bool(self._entropy.randbelow(2))
                )
            except (StorageReadError, ContainerOfflineError):  # it may have been evicted in between
                if not container.online:
                    raise
                failures += 1
                if failures > _READ_ATTEMPTS_MAX:
                    raise StuckError(f"{name} cannot be read at {offset}") from None
                await asyncio.sleep(0.05)
                continue
            data = result.to_bytes()
            assert data, f"no bytes at {offset} of {name}, which has {state.durable_length}"
            content += data

    async def check_stored(self, owner: Owner) -> None:
        """Flush, and compare what storage holds with what clients know; look for objects left behind.

        Raises:
            SimulationError: they differ.
        """
        container, model = owner.container, self.history.state
        storage, writer = container._storage, container._writer  # noqa: SLF001 - the judge looks inside
        assert storage is not None
        assert writer is not None
        await asyncio.sleep(0.001)
        try:
            async with asyncio.timeout(300):
                await writer.flush_all()
        except TimeoutError:
            raise StuckError(f"storage does not catch up{self.sim.loop.describe_tasks()}") from None
        except ContainerOfflineError:
            raise SimulationError(f"the container has ended: {owner.failure!r}") from owner.failure
        writer.check()
        live: set[str] = set()
        for name, found in model.segments.items():
            state = await container.resolve(name)
            stored = storage.info(state.storage_name)
            if stored is None:
                assert not found.length, f"storage does not know {name}"
                continue
            told = (stored.start_offset, stored.length, stored.sealed)
            assert told == (found.start, found.length, found.sealed), f"storage says {told} of {name}"
            data = await storage.read_stored(state.storage_name, found.start, found.length - found.start)
            assert data == found.content(found.start, found.length), f"storage holds other bytes of {name}"
            live.add(state.storage_name)
        stale = {name for name in storage.segments() if not name.startswith("_system/")} - live
        assert not stale, f"storage has not forgotten {sorted(stale)}"
        for _ in range(600):
            if not storage.statistics().garbage_runs:
                return
            await asyncio.sleep(0.1)
        raise StuckError("garbage is not collected")
