"""Stores and leaders that move containers among each other, over one coordinator.

Fault model: what ``headrace.testing.coordination_faults`` says about the coordinator, whose sessions are
suspended or expire, and about clocks; hosts are killed, paused for longer than a session and resumed, or
stopped in order; containers fail while they run, do not start, and are fenced by nobody who wants to serve
them, as a service that repairs logs does. A container is a log in memory, which
outlives all processes and fences: who opens it has the next container epoch, and no other may append.

Judged at every answer and every open; see :mod:`cluster_judges`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.placement_service import PlacementService
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import StoreNode
from headrace.errors import ClosedError, ContainerOfflineError, FencedOutError, HeadraceError
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import Reduction
from tests.simulation.worlds.cluster_judges import ClusterJudges

TROUBLES: Final = ("kill", "pause", "suspend", "expire", "fail", "fence", "leave")
FAULTS: Final = (*TROUBLES, "starts", "lost", "late", "drift")

_PORT: Final = 12345
_ANSWER_S: Final = 3.0
_START_S: Final = 0.3
_WRITE_S: Final = 0.004


@dataclass(slots=True)
class SharedLog:
    """The log of one container: its last owner may append."""

    container_epoch: int = 0
    values: list[str] = field(default_factory=list)

    def append(self, container_epoch: int, value: str) -> None:
        if container_epoch != self.container_epoch:
            raise FencedOutError("the log has another owner")
        self.values.append(value)


@dataclass(slots=True, eq=False)
class _Running:
    container_epoch: int
    values: list[str]
    """What this owner knows: recovered, and appended since."""


class LogHost:
    """The containers of one process; see ``ContainerHost``."""

    def __init__(self, world: ClusterWorld, name: str, entropy: SeededEntropy) -> None:
        self.gate = LeaseGate()
        self.member: StoreMember
        self.start_failures_percent = 0
        self._world = world
        self._name = name
        self._draw = entropy.random
        self._running: dict[int, _Running] = {}
        self._lives: dict[int, int] = {}

    # ---- what a member asks

    async def give(self, container_id: int) -> int:
        life = self._lives[container_id] = self._lives.get(container_id, 0) + 1
        return await self._start(container_id, life)

    async def take(self, container_id: int) -> None:
        self._lives[container_id] = self._lives.get(container_id, 0) + 1
        was_running = self._running.pop(container_id, None) is not None
        await asyncio.sleep(_START_S * self._draw() if was_running else 0)

    async def confirm(self, container_id: int) -> None:
        await self._pause()
        running = self._running.get(container_id)
        if running is None:
            raise ContainerOfflineError("it does not run")
        if self._world.logs[container_id].container_epoch != running.container_epoch:
            self._running.pop(container_id)
            raise FencedOutError("the log has another owner")

    async def _start(self, container_id: int, life: int) -> int:
        await asyncio.sleep(_START_S * self._draw())
        self._check_life(container_id, life)
        if 100 * self._draw() < self.start_failures_percent:
            raise ContainerOfflineError("injected: it does not start")
        log = self._world.logs[container_id]
        await self._world.judges.check_open(self.member.id, container_id)
        log.container_epoch += 1
        running = _Running(log.container_epoch, [])
        self._world.sim.trace.add(self._name, "open", container=container_id, epoch=running.container_epoch)
        await asyncio.sleep(_START_S * self._draw())
        self._check_life(container_id, life)
        if running.container_epoch != log.container_epoch:
            raise FencedOutError("the log has another owner")
        running.values = [*log.values]
        self._running[container_id] = running
        return running.container_epoch

    def _check_life(self, container_id: int, life: int) -> None:
        if self._lives[container_id] != life:
            raise ClosedError("it was taken before it ran")

    # ---- what happens to a container

    async def fail(self, container_id: int) -> None:
        """Let a container fail, and start it again by itself as a host does."""
        if self._running.pop(container_id, None) is None:
            return
        life = self._lives[container_id]
        self.member.on_failed(container_id)
        try:
            container_epoch = await self._start(container_id, life)
        except FencedOutError:
            self.member.on_fenced(container_id)
        except ContainerOfflineError:
            if self._lives[container_id] == life:
                self.member.on_fenced(container_id)  # released, and given again if it is wanted
        except ClosedError:
            pass
        else:
            self.member.on_online(container_id, container_epoch)

    # ---- what clients ask

    async def append(self, container_id: int, value: str) -> None:
        running = self._serving(container_id)
        await self._pause()
        try:
            self._world.logs[container_id].append(running.container_epoch, value)
        except FencedOutError:
            if self._running.get(container_id) is running:
                self._running.pop(container_id)
                self._world.judges.fenced += 1
                self.member.on_fenced(container_id)
            raise
        running.values.append(value)
        await self._pause()
        await self._answer(container_id, running)

    async def read(self, container_id: int) -> list[str]:
        running = self._serving(container_id)
        await self._pause()
        await self._answer(container_id, running)
        return [*running.values]

    def _serving(self, container_id: int) -> _Running:
        running = self._running.get(container_id)
        if running is None or not self.gate.serves(container_id):
            raise ContainerOfflineError(f"container {container_id} is not served here")
        return running

    async def _answer(self, container_id: int, running: _Running) -> None:
        if self._serving(container_id) is not running:
            raise ContainerOfflineError(f"container {container_id} is not served here any more")
        await self._world.judges.check_answer(self.member.id, container_id)

    async def _pause(self) -> None:
        await asyncio.sleep(_WRITE_S * self._draw())


class ClusterWorld:
    """One run. The simulation's entropy decides everything."""

    def __init__(self, sim: Simulation, reduction: Reduction, containers: int) -> None:
        self.sim = sim
        self.containers = containers
        self.logs = [SharedLog() for _ in range(containers)]
        self.hosts: dict[str, LogHost] = {}
        """Of the running stores, by host."""
        self.leaders: dict[str, PlacementService] = {}
        self._found: list[set[str]] = [set() for _ in range(containers)]
        """Hosts at which each container was found."""
        self._reduction = reduction
        self._entropy = sim.entropy.fork("world")
        draw = self._entropy.randbelow
        self.expires = bool(self._allowed("expire", draw(3) == 0))
        """Whether sessions may end before their leases: then reads may be old, and only logs are judged."""
        self.faults = CoordinationFaults(
            lost_replies_percent=self._allowed("lost", draw(12)),
            watch_delay_s_max=self._allowed("late", draw(1000)) / 1000 or 0.002,
            delay_s_max=0.001 + self._allowed("late", draw((10, 50, 300)[draw(3)])) / 1000,
            drift_percent_max=self._allowed("drift", 15),
        )
        self.coordinator = FaultyCoordinator(self._entropy.fork("coordinator"), self.faults)
        self.judges = ClusterJudges(self.coordinator, sim, is_strict=not self.expires)
        self._stores: list[SimulatedHost] = []
        self._controllers: list[SimulatedHost] = []
        self._lives_left = min(reduction.lives, draw(10))
        self._start_failures_percent = self._allowed("starts", (0, 0, 30, 90)[draw(4)])

    def _allowed(self, fault: str, value: int) -> int:
        return 0 if fault in self._reduction.without else value

    # ---- processes

    async def start(self, stores: int, controllers: int) -> None:
        await self.judges.start()
        for number in range(1, stores + 1):
            self._stores.append(self.sim.host(f"store-{number}"))
        for number in range(1, controllers + 1):
            self._controllers.append(self.sim.host(f"controller-{number}"))
        for host in (*self._stores, *self._controllers):
            self._start_on(host)

    def _start_on(self, host: SimulatedHost) -> None:
        host.clock.skew_ms = self._entropy.randbelow(200) - 100
        run = self._run_store if host in self._stores else self._run_controller
        host.spawn("process", run(host))

    async def _run_store(self, host: SimulatedHost) -> None:
        entropy = self._entropy.fork(f"{host.name}-{self.sim.loop.elapsed_s()}")
        log_host = LogHost(self, host.name, entropy.fork("host"))
        log_host.start_failures_percent = self._start_failures_percent
        node = StoreNode(Endpoint(host.name, _PORT))
        log_host.member = StoreMember(
            self.coordinator, log_host, node, self.containers, log_host.gate, entropy.fork("member")
        )
        log_host.member.placement.on_change(lambda: self.judges.see_map(host.name, log_host.member))
        self.hosts[host.name] = log_host
        log_host.member.start()
        await asyncio.Event().wait()

    async def _run_controller(self, host: SimulatedHost) -> None:
        entropy = self._entropy.fork(f"{host.name}-{self.sim.loop.elapsed_s()}")
        service = PlacementService(self.coordinator, self.containers, host.clock, entropy)
        self.leaders[host.name] = service
        service.start()
        await asyncio.Event().wait()

    # ---- trouble

    async def trouble(self) -> None:
        """Make trouble until cancelled; what it has begun ends then."""
        draw = self._entropy.fork("trouble").randbelow
        kinds = [kind for kind in TROUBLES if kind not in self._reduction.without]
        while kinds:
            await asyncio.sleep(draw(6_000) / 1000)
            hosts = (*self._stores, *self._controllers)
            host = hosts[draw(len(hosts))]
            kind = kinds[draw(len(kinds))]
            down_s = draw(15_000) / 1000
            self.sim.trace.add(host.name, "trouble", kind=kind)
            if kind == "kill":
                await self._kill(host, down_s)
            elif kind == "pause":
                host.pause()
                try:
                    await asyncio.sleep(down_s)
                finally:
                    host.resume()
            elif kind in {"suspend", "expire"}:
                await self._trouble_session(kind, draw, down_s)
            elif kind == "leave" and host.name in self.hosts:
                await self.stop_store(host.name, 5.0)
                await asyncio.sleep(down_s)
                self.boot(host.name)
            elif kind == "fence":
                self.logs[draw(self.containers)].container_epoch += 1
            elif kind == "fail" and host.name in self.hosts:
                host.spawn("fail", self.hosts[host.name].fail(draw(self.containers)))

    async def _trouble_session(self, kind: str, draw: object, down_s: float) -> None:
        sessions = self.coordinator.sessions
        if not sessions:
            return
        session = sessions[self._entropy.randbelow(len(sessions))]
        if kind == "expire":
            if self.expires:
                session.expire()
            return
        session.suspend()
        try:
            await asyncio.sleep(down_s)
        finally:
            session.resume()

    async def _kill(self, host: SimulatedHost, down_s: float) -> None:
        if self._lives_left <= 0:
            return
        self._lives_left -= 1
        host.kill()
        self.hosts.pop(host.name, None)
        self.leaders.pop(host.name, None)
        try:
            await asyncio.sleep(down_s)
        finally:
            self.boot(host.name)

    async def stop_store(self, name: str, timeout_s: float) -> None:
        """Stop the store of a host in order, and end its process."""
        host = self.sim.host(name)
        try:
            await host.run(self.hosts[name].member.stop(timeout_s))
        except HostDownError:
            return
        finally:
            self.hosts.pop(name, None)
            host.kill()

    def boot(self, name: str) -> None:
        host = self.sim.host(name)
        host.resume()
        if not host.is_up:
            host.boot()
            self._start_on(host)

    def mend(self) -> None:
        """End all faults, and start what is down."""
        self.sim.trace.add("world", "mend")
        self.faults.lost_replies_percent = 0
        self.faults.watch_delay_s_max = self.faults.delay_s_max = 0.002
        self._start_failures_percent = 0
        for log_host in self.hosts.values():
            log_host.start_failures_percent = 0
        for session in self.coordinator.sessions:
            session.resume()
        for host in (*self._stores, *self._controllers):
            self.boot(host.name)

    # ---- clients

    async def append(self, container_id: int, value: str, draw: SeededEntropy) -> bool | None:
        """Ask where it is, and append; return whether it is acknowledged, or None: it may have happened."""
        host = self._locate(container_id, draw)
        if host is None:
            return False
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self.sim.host(host).run(self.hosts[host].append(container_id, value))
                return True
        except (HostDownError, HeadraceError, TimeoutError):
            return None

    async def read(self, container_id: int, draw: SeededEntropy) -> list[str] | None:
        """Ask where it is, and read everything; None: no answer."""
        host = self._locate(container_id, draw)
        if host is None:
            return None
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self.sim.host(host).run(self.hosts[host].read(container_id))
        except (HostDownError, HeadraceError, TimeoutError):
            return None

    def _locate(self, container_id: int, draw: SeededEntropy) -> str | None:
        """Ask one controller; every other time a client goes where it, or another one, found it before."""
        former = sorted(self._found[container_id].intersection(self.hosts))
        if former and draw.randbelow(2):
            return former[draw.randbelow(len(former))]
        leaders = sorted(self.leaders)
        if not leaders:
            return None
        place = self.leaders[leaders[draw.randbelow(len(leaders))]].placement.locate(container_id)
        if place is None or place.host not in self.hosts:
            return None
        self._found[container_id].add(place.host)
        return place.host
