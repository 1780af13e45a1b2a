"""One container's world: its log, its storage, its machine, and how its owners come and go.

The log is the one in files on a simulated disk or the one in memory, and so is the storage; what survives of
them is what the next owner finds. All answers go into one ``ContainerHistory``, and
every owner is looked at before clients may use it.
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
    RequestError,
)
from headrace.limits import MIB
from headrace.runtime.context import Runtime
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.testing.disk import Moment
from headrace.testing.failures import SimulationError, StalledError
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.process import SimulatedProcess
from headrace.testing.simulation import Simulation
from headrace.testing.wal_faults import FaultyMemoryWal, WalFault
from headrace.wal.contract import Wal
from tests.simulation.models.container_calls import ObserveAnswer, ObserveCall
from tests.simulation.models.container_history import ContainerHistory
from tests.simulation.models.observation import check_known, check_stored, observe
from tests.simulation.scenarios.container_profile import ContainerProfile
from tests.simulation.scenarios.foundations import Foundations

T = TypeVar("T")

LOG: Final = "container-0"
_ATTEMPTS_MAX: Final = 60


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
        self.history = ContainerHistory(sim.loop.machine_time, sim.trace)
        self.known: dict[str, bool] = {}
        """Names of all segments that clients have asked for, and whether they are transient."""
        self.foundations = Foundations(sim, profile)
        self.endings: dict[str, int] = {}
        self._entropy = sim.entropy.fork("world")
        self._caches: dict[SimulatedProcess, BlockCache] = {}

    # ---------------------------------------------------------------------------------- a new owner

    async def start_owner(self, host: SimulatedHost) -> Owner:
        """Start a container on ``host``, observed and judged, whatever it takes.

        Raises:
            StalledError: it takes too long.
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
        raise StalledError(f"no owner in {_ATTEMPTS_MAX} attempts")

    async def open_owner(self, host: SimulatedHost) -> Owner:
        """Start a container on ``host``, in its running process or a new one."""
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
        entropy = self._entropy.fork(owner.process.name)
        owner.wal = self.foundations.make_wal(LOG, runtime, entropy, owner.host.kill)
        components = ContainerComponents(
            wal=self.foundations.reach_wal(owner.wal, entropy),
            chunks=self.foundations.make_chunks(runtime),
            cache=owner.cache,
            index_pages=PageCache(1 * MIB),
            clock=runtime.clock,
            entropy=runtime.entropy,
            system=None if self.foundations.far is None else SystemFacts(1),
        )
        container = SegmentContainer(0, components, self.profile.container, owner.on_failed)
        owner.container = container
        try:
            await container.start()
        except BaseException:
            await container.stop()
            raise

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
            raise StalledError(f"the container does not stop{self.sim.loop.describe_tasks()}") from None
        left = owner.cache.statistics().used_bytes
        if left:
            raise SimulationError(f"a stopped container has left {left} bytes in the cache")

    # ---------------------------------------------------------------------------------- looking

    def note_attributes(self, owner: Owner) -> None:
        """Count what an owner that has ended did with attributes beyond memory."""
        tiers, happened = owner.container.tiers, self.history.happened
        written = tiers.index_writer.statistics()
        happened.update(
            values_written=written.values_written,
            values_evicted=written.values_evicted,
            values_loaded=tiers.attribute_values.loaded,
            index_failures=written.index_failures,
        )

    async def _observe(self, owner: Owner) -> ObserveAnswer:
        container = owner.container
        container.check()
        seen = await observe(container, self.known, self._entropy)
        check_known(container, self.known)
        return seen

    async def check_stored(self, owner: Owner) -> None:
        """See :func:`check_stored`."""
        try:
            await check_stored(owner.container, self.history.state.segments)
        except ContainerOfflineError:
            raise SimulationError(f"the container has ended: {owner.failure!r}") from owner.failure
