"""Containers move between two to four stores, under one to three leaders, in trouble of every kind.

Judged at the end, beside what the judges of the world say all the time: what was acknowledged is in the log
once and in order, whoever owned it; a read shows what was acknowledged before it began; every container is
served again within ten seconds once faults end; the map comes to rest, balanced; and a store that leaves in
order is not missed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import Reduction
from tests.simulation.worlds.cluster_world import FAULTS, ClusterWorld

__all__ = ["CLIENTS", "FAULTS", "LIVES", "STEPS", "moving"]

LIVES: Final = 10
CLIENTS: Final = 3
STEPS: Final = 120

_BUDGET_S: Final = 10.0
_LEFT_BUDGET_S: Final = 1.5
_REST_S: Final = 45.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened in one run: a simulation in which nothing happens proves nothing."""

    appends: int
    reads: int
    moves: int
    fenced: int
    generations: int


class Client:
    """Appends to all containers and reads them, one call after the other."""

    def __init__(
        self, world: ClusterWorld, name: str, entropy: SeededEntropy, acked: list[list[str]]
    ) -> None:
        self.reads = 0
        self._world = world
        self._name = name
        self._entropy = entropy
        self._acked = acked
        """By container, what anybody was acknowledged, in that order."""
        self._number = 0

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            container_id = self._entropy.randbelow(self._world.containers)
            if self._entropy.randbelow(3):
                await self.append(container_id)
            else:
                await self.read(container_id)
            self._world.judges.check()
            await asyncio.sleep(self._entropy.random())

    async def append(self, container_id: int) -> bool:
        self._number += 1
        value = f"{self._name}-{self._number:06}"
        if await self._world.append(container_id, value, self._entropy):
            self._acked[container_id].append(value)
            return True
        return False

    async def read(self, container_id: int) -> None:
        before = [*self._acked[container_id]]
        found = await self._world.read(container_id, self._entropy)
        if found is None:
            return
        self.reads += 1
        if not self._world.expires:
            missing = set(before).difference(found)
            assert not missing, f"a read of container {container_id} lacks {sorted(missing)}"


async def moving(sim: Simulation, reduction: Reduction) -> Seen:
    """Let clients work in trouble; mend everything; judge."""
    draw = sim.entropy.randbelow
    world = ClusterWorld(sim, reduction, containers=1 + draw(12))
    await world.start(2 + draw(3), 1 + draw(3))
    acked: list[list[str]] = [[] for _ in range(world.containers)]
    clients = [
        Client(world, f"client-{number}", sim.entropy.fork(f"client-{number}"), acked)
        for number in range(min(CLIENTS, reduction.clients))
    ]
    loop = asyncio.get_running_loop()
    troubling = loop.create_task(world.trouble())
    steps = 1 + draw(min(STEPS, reduction.steps))
    await asyncio.gather(*(client.run(steps) for client in clients))
    troubling.cancel()
    await asyncio.wait([troubling])
    if not troubling.cancelled():
        troubling.result()
    world.mend()
    prober = Client(world, "prober", sim.entropy.fork("prober"), acked)
    await _check_served(world, prober, _BUDGET_S)
    await _check_rest(world)
    await _check_leaving(world, prober)
    world.judges.check()
    for container_id, values in enumerate(acked):
        _check_log(container_id, world.logs[container_id].values, values)
    return Seen(
        appends=sum(map(len, acked)),
        reads=sum(client.reads for client in clients),
        moves=world.judges.moves,
        fenced=world.judges.fenced,
        generations=world.judges.map.generation,
    )


async def _check_served(world: ClusterWorld, prober: Client, budget_s: float) -> None:
    """Assert that each container acknowledges something soon."""
    until_s = world.sim.loop.elapsed_s() + budget_s

    async def probe(container_id: int) -> None:
        while not await prober.append(container_id):
            world.judges.check()
            assert world.sim.loop.elapsed_s() < until_s, f"container {container_id} is not served"
            await asyncio.sleep(0.1)

    await asyncio.gather(*(probe(container_id) for container_id in range(world.containers)))


async def _check_rest(world: ClusterWorld) -> None:
    """Assert that the map comes to rest, and that each store that may have a share has one."""
    await asyncio.sleep(_REST_S)
    before = world.judges.map
    await asyncio.sleep(_REST_S / 3)
    assert world.judges.map is before, f"map {world.judges.map.generation} after a rest"
    for container_id in range(world.containers):
        claim = await world.judges.claim_on(container_id)
        assert claim is not None
        assert claim.store == world.judges.place_of(container_id)


async def _check_leaving(world: ClusterWorld, prober: Client) -> None:
    """Assert that a store that leaves in order is not missed."""
    name = min(world.hosts)
    fenced = world.judges.fenced
    leaving = asyncio.get_running_loop().create_task(world.stop_store(name, 30.0))
    while not leaving.done():
        await _check_served(world, prober, _LEFT_BUDGET_S)
        await asyncio.sleep(0.02)
    leaving.result()
    await _check_served(world, prober, _LEFT_BUDGET_S)
    assert world.judges.fenced == fenced, "a store that left in order was fenced"


def _check_log(container_id: int, log: list[str], acked: list[str]) -> None:
    assert len(log) == len(set(log)), f"the log of container {container_id} has something twice"
    places = {value: place for place, value in enumerate(log)}
    missing = [value for value in acked if value not in places]
    assert not missing, f"the log of container {container_id} lacks {missing}"
    for name in {value.rpartition("-")[0] for value in acked}:
        mine = [places[value] for value in acked if value.startswith(name)]
        assert mine == sorted(mine), f"container {container_id} has the appends of {name} in another order"
