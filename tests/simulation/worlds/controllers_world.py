"""Several controllers on one store of rows, one set of segment stores and one coordinator.

Fault model: what :mod:`distant` says about calls and ``headrace.testing.coordination_faults`` about the
coordinator, whose sessions are suspended or expire; hosts are killed, or paused for longer than a session and
resumed; wall clocks are wrong by seconds. In some runs each controller has a coordinator of its own, so that
all of them do all work at once. A watchdog starts a killed host anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from headrace.controller.config import ControllerConfig
from headrace.controller.segments.remote.locator import OneStore
from headrace.controller.server import Controller
from headrace.controller.store.layout import SHARDS, txns_table
from headrace.errors import HeadraceError, RequestError
from headrace.model.endpoint import Endpoint
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.memory_metadata_store import MemoryStore
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import Reduction
from tests.simulation.worlds.distant import Distant, Weather
from tests.unit.controller import calls
from tests.unit.controller.segment_stores import FakeSegmentStores

FAULTS: Final = (
    "kill",
    "pause",
    "suspend",
    "expire",
    "refused",
    "lost",
    "slow",
    "doubled",
    "skew",
    "divided",
)

_ask: Any = calls.ask

_ANSWER_S: Final = 60.0
_PATIENCE: Final = 400
_SETTLED_S: Final = 1_200.0
"""Longer than the time between two sweeps."""
_LEASES_S: Final = 90.0
"""Longer than any transaction that a dead controller began: a lease of clients, and as long again."""
_SKEW_MS: Final = 20_000


class ControllersWorld:
    """One run. The simulation's entropy decides everything."""

    def __init__(self, sim: Simulation, reduction: Reduction, config: ControllerConfig) -> None:
        self.sim = sim
        self.rows = MemoryStore()
        self.segments = FakeSegmentStores()
        self.controllers: dict[str, Controller] = {}
        """The running ones, by host."""
        self._config = config
        self._reduction = reduction
        self._entropy = sim.entropy.fork("world")
        draw = self._entropy.randbelow
        self._weather = Weather(
            refused=self._allowed("refused", draw(30)),
            lost=self._allowed("lost", draw(30)),
            slow=self._allowed("slow", draw(20)),
            doubled=self._allowed("doubled", draw(300)),
        )
        self._divided = bool(self._allowed("divided", draw(4) == 0))
        """Whether each controller has a coordinator of its own, and so believes that it owns everything."""
        self._faults = CoordinationFaults(lost_replies_percent=self._allowed("lost", draw(10)))
        self._coordinator = self._make_coordinator()
        self._hosts: list[SimulatedHost] = []
        self._lives_left = min(reduction.lives, draw(8))
        self._mending = False

    def _allowed(self, fault: str, value: int) -> int:
        return 0 if fault in self._reduction.without else value

    def _make_coordinator(self) -> FaultyCoordinator:
        return FaultyCoordinator(self._entropy.fork("coordinator"), self._faults)

    # ---- controllers

    async def start(self, count: int) -> None:
        """Start ``count`` controllers, each on a host of its own, and wait until one serves."""
        for number in range(1, count + 1):
            host = self.sim.host(f"controller-{number}")
            self._hosts.append(host)
            self._start_on(host)
        while not self.controllers:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.01)

    def _start_on(self, host: SimulatedHost) -> None:
        host.clock.skew_ms = self._allowed("skew", self._entropy.randbelow(2 * _SKEW_MS) - _SKEW_MS)
        host.spawn("controller", self._run(host))

    def make(self, host: SimulatedHost) -> Controller:
        """Return a controller for the process that runs on ``host``."""
        entropy = self._entropy.fork(f"{host.name}-{self.sim.loop.elapsed_s()}")
        return Controller(
            Distant(self.rows, entropy.fork("rows"), self._weather),
            Distant(self.segments, entropy.fork("segments"), self._weather),
            host.clock,
            host.runtime.entropy,
            self._config,
            OneStore(Endpoint("store", 12345)),
            self._make_coordinator() if self._divided else self._coordinator,
        )

    async def _run(self, host: SimulatedHost) -> None:
        while True:
            controller = self.make(host)
            try:
                await controller.start()
                break
            except HeadraceError as error:
                self.sim.trace.add(host.name, "start again", error=str(error))
                await controller.stop()
                await asyncio.sleep(1)
        self.controllers[host.name] = controller
        await asyncio.Event().wait()

    # ---- trouble

    async def trouble(self) -> None:
        """Kill and pause controllers until cancelled, and start killed ones again."""
        draw = self._entropy.fork("trouble").randbelow
        while True:
            await asyncio.sleep(draw(20_000) / 1000)
            host = self._hosts[draw(len(self._hosts))]
            kind = ("kill", "pause", "suspend", "expire")[draw(4)]
            if not self._allowed(kind, 1):
                continue
            if kind == "kill":
                await self._kill(host, draw(15_000) / 1000)
            elif kind == "pause":
                host.pause()
                try:
                    await asyncio.sleep(draw(30_000) / 1000)
                finally:
                    host.resume()
            elif self._coordinator.sessions:
                session = self._coordinator.sessions[draw(len(self._coordinator.sessions))]
                self.sim.trace.add("coordinator", kind)
                if kind == "expire":
                    session.expire()
                    continue
                session.suspend()
                try:
                    await asyncio.sleep(draw(15_000) / 1000)
                finally:
                    session.resume()

    async def _kill(self, host: SimulatedHost, down_s: float) -> None:
        if self._lives_left <= 0:
            return
        self._lives_left -= 1
        host.kill()
        self.controllers.pop(host.name, None)
        await asyncio.sleep(down_s)
        host.boot()
        self._start_on(host)

    async def mend(self) -> None:
        """End all faults; return once the controllers have nothing left to do, and leases have run out."""
        self._weather.calm()
        self._faults.lost_replies_percent = 0
        for host in self._hosts:
            host.resume()
            if not host.is_up:
                host.boot()
                self._start_on(host)
        await asyncio.sleep(_LEASES_S)
        deadline_s = self.sim.loop.elapsed_s() + _SETTLED_S
        while busy := await self._busy():
            assert self.sim.loop.elapsed_s() < deadline_s, busy
            await asyncio.sleep(0.1)

    async def _busy(self) -> dict[str, object]:
        """Return what each controller still does, which have not started, and transactions that do not end.

        One whose row was written by a controller that was dead already is seen by the next sweep only.
        """
        missing: dict[str, object] = {
            host.name: "starts" for host in self._hosts if host.name not in self.controllers
        }
        owned = sorted(
            bucket for each in self.controllers.values() for bucket in each.context.buckets.owned()
        )
        for table in {txns_table(bytes([shard])) for shard in range(SHARDS)}:
            if (page := await self.rows.scan(table, b"", 1)).rows:
                missing["transactions"] = str(page.rows)
        if not self._divided and owned != list(range(self._config.buckets)):
            missing["buckets"] = f"{owned} are owned of {self._config.buckets}"
        return missing | {
            name: controller.statistics()
            for name, controller in self.controllers.items()
            if not controller.is_idle()
        }

    # ---- clients

    async def ask(self, name: str, request: Any, *, final: Callable[[Any], bool] = bool) -> Any:
        """Ask one controller after the other until an answer is ``final``, and return it.

        A call whose answer is lost may have happened.

        Raises:
            RequestError: it is refused.
        """
        draw = self._entropy.fork(f"ask-{self.sim.loop.next_serial()}").randbelow
        answer = None
        for _ in range(_PATIENCE):
            names = sorted(self.controllers)
            if names:
                answer = await self._ask_one(names[draw(len(names))], name, request)
                if answer is not None and final(answer):
                    return answer
            await asyncio.sleep(draw(500) / 1000)
        raise AssertionError(f"{name} is never done: {request} gets {answer}")

    async def _ask_one(self, host_name: str, name: str, request: Any) -> Any:
        host, controller = self.sim.host(host_name), self.controllers[host_name]
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await host.run(_ask(controller, name, request))
                self.sim.trace.add(host_name, "answer", call=name, status=getattr(answer, "status", ""))
                return answer
        except RequestError as error:
            self.sim.trace.add(host_name, "refuse", call=name, error=str(error))
            raise
        except (HostDownError, HeadraceError, TimeoutError):
            return None
