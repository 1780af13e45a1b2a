"""Whole segment stores on one disk: how they start, what is looked at in them, and how they end.

A store is the data plane of a standalone process - listener, connections, registry, containers, one cache -
with logs and long-term storage of this world. A period of the history ends when all stores and clients are
dead and a new store, before it listens, has been looked at.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import replace
from typing import Final

from headrace.errors import CorruptionError, HeadraceError, RequestError
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.hosting.hosted_container import OnFailed
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.storage.providers.contract import ChunkProvider
from headrace.testing.failures import SimulationError, StalledError
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.simulation import Simulation
from headrace.testing.wal_faults import FaultyMemoryWal, WalFault
from headrace.wal.contract import Wal
from tests.simulation.models.observation import check_known, check_stored, observe, observe_table
from tests.simulation.models.store_history import StoreHistory
from tests.simulation.scenarios.container_profile import ContainerProfile
from tests.simulation.scenarios.foundations import Foundations

PORT: Final = 12345

_ATTEMPTS_MAX: Final = 60


class SimulatedStore(WiredStore):
    """The data plane of one process, on the foundations of a world."""

    def __init__(self, world: StoreWorld, host: SimulatedHost) -> None:
        profile = world.profile
        config = StandaloneConfig(
            data_dir="/data",
            container=_without_copies(profile.container),
            cache_bytes=profile.cache.bytes_max,
        )
        super().__init__(config, host.runtime, world.history.containers)
        self.cache = self._cache = BlockCache(profile.cache)
        self._ingress = replace(
            self._ingress,
            requests_max=profile.connection_requests_max,
            receive_buffer_bytes=profile.receive_buffer_bytes,
            connection_bytes_max=profile.connection_bytes_max,
            small_reply_bytes_max=profile.small_reply_bytes_max,
        )
        self.wals: dict[int, Wal] = {}
        self.failures: list[BaseException] = []
        self._world = world
        self._host = host

    def _make_provider(self) -> ChunkProvider:
        return self._world.foundations.make_chunks(self._runtime)

    def _make_wal(self, container_id: int) -> Wal:
        world, host = self._world, self._host
        entropy = world.entropy.fork(f"{host.name}-{world.next_number()}")
        name = f"container-{container_id}"
        wal = world.foundations.make_wal(name, self._runtime, entropy, host.kill)
        self.wals[container_id] = wal
        return world.foundations.reach_wal(wal, entropy)

    def _make_container(self, container_id: int, on_failed: OnFailed) -> SegmentContainer:
        self._world.history.on_owner(container_id)

        def note(container: SegmentContainer, error: BaseException) -> None:
            self._world.sim.trace.add(self._host.name, "container ended", id=container_id, why=repr(error))
            self.failures.append(error)
            on_failed(container, error)

        return super()._make_container(container_id, note)


def _without_copies(container: ContainerConfig) -> ContainerConfig:
    """Copies of logs are what the scenario ``objects`` is about; here they would be most of what happens."""
    copies = dataclasses.replace(container.storage_checkpoints, interval_s=0.0)
    return dataclasses.replace(container, storage_checkpoints=copies)


class StoreWorld:
    """What outlives stores, and the way to a new one."""

    def __init__(self, sim: Simulation, profile: ContainerProfile, containers: int) -> None:
        self.sim = sim
        self.profile = profile
        self.entropy = sim.entropy.fork("world")
        self.foundations = Foundations(sim, profile)
        self.history = StoreHistory(sim.loop.machine_time, sim.trace, containers)
        self.stores: dict[SimulatedHost, SimulatedStore] = {}
        """The last store of each host."""
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    # ---------------------------------------------------------------------------------- a new store

    async def begin(self, host: SimulatedHost) -> SimulatedStore:
        """Start a store on ``host``, observed and judged, whatever it takes; then let it listen.

        Raises:
            StalledError: it takes too long.
            CorruptionError: what is on disk contradicts itself; nothing here damages it.
            NotLinearizableError: no order explains the answers of the last period.
        """
        for attempt in range(_ATTEMPTS_MAX):
            if attempt % 4 == 3:
                host.disk.heal()
            try:
                store = await self._start(host)
                await host.run(self._observe(store))
                await host.run(store.listen("0.0.0.0", PORT))
            except HostDownError:
                continue
            except (HeadraceError, OSError) as error:
                self._on_start_failed(host, error)
                await asyncio.sleep(0.1)
                continue
            return store
        raise StalledError(f"no store in {_ATTEMPTS_MAX} attempts")

    async def keep_serving(self, host: SimulatedHost) -> None:
        """Start a store whenever the host has none, until cancelled. It is not looked at."""
        while True:
            if not host.is_up or host not in self.stores:
                try:
                    store = await self._start(host)
                    await host.run(store.listen("0.0.0.0", PORT))
                except HostDownError:
                    pass
                except (HeadraceError, OSError) as error:
                    self._on_start_failed(host, error)
            await asyncio.sleep(0.2)

    async def _start(self, host: SimulatedHost) -> SimulatedStore:
        self.stores.pop(host, None)
        if not host.is_up:
            host.boot()
        store = SimulatedStore(self, host)
        await host.run(store.start())
        self.stores[host] = store
        return store

    def _on_start_failed(self, host: SimulatedHost, error: HeadraceError | OSError) -> None:
        self.sim.trace.add("world", "start failed", error=type(error).__name__, why=str(error)[:100])
        if isinstance(error, CorruptionError | RequestError):
            raise error
        host.kill()

    def check_failures(self, *, fenced: bool) -> None:
        """Look at what ended containers: only an owner that was ``fenced`` may report corruption.

        Raises:
            SimulationError: one died of a mistake.
            CorruptionError: one has found damage; nothing here damages anything.
        """
        for store in self.stores.values():
            for failure in store.failures:
                if not isinstance(failure, HeadraceError | OSError):
                    raise SimulationError(f"a container died of {failure!r}") from failure
                if isinstance(failure, CorruptionError) and not fenced:
                    raise failure

    def plan_failure(self, store: SimulatedStore) -> None:
        """Let one of the next writes to one of the logs fail; its container ends, and recovers."""
        draw = self.entropy.randbelow
        wal = store.wals[draw(len(store.wals))]
        if isinstance(wal, FaultyMemoryWal):
            wal.plan(draw(40), list(WalFault)[draw(len(WalFault))])
        else:
            calls = ("pwrite", "fdatasync", "fsync", "fsync_directory", "rename", "unlink")
            store_host = next(host for host, found in self.stores.items() if found is store)
            store_host.disk.fail(*calls, path="/wal/", skip=draw(40))

    async def stop(self, host: SimulatedHost) -> None:
        """Stop a store in order, in its process."""
        store = self.stores[host]
        try:
            async with asyncio.timeout(120):
                await host.run(store.stop())
        except HostDownError:
            return
        except TimeoutError:
            raise StalledError(f"the store does not stop{self.sim.loop.describe_tasks()}") from None
        left = store.cache.statistics().used_bytes
        if left:
            raise SimulationError(f"a stopped store has left {left} bytes in the cache")

    # ---------------------------------------------------------------------------------- looking

    async def _observe(self, store: SimulatedStore) -> None:
        history = self.history
        for container in store.registry.running():
            check_known(container, history.names(container.container_id))
        if len(store.registry.running()) < history.containers:
            raise SimulationError("a store has started without all of its containers")
        for name, family in list(history.families.items()):
            container = store.registry.get(name)
            if family.is_table:
                history.end_period(family, await observe_table(container, name))
            else:
                history.end_period(family, await observe(container, family.known, self.entropy))
        history.contested = False

    async def check_stored(self, store: SimulatedStore) -> None:
        """Compare what storage holds with what clients know. Raises SimulationError if they differ."""
        for container in store.registry.running():
            number = container.container_id
            await check_stored(container, self.history.segments(number), self.history.tables(number))
