"""Judges of a cluster, who look at the coordinator itself.

* A store answers for a container only while its claim is there: so no two serve one container at a time, and
  with clocks in bounds nothing is answered under a lease that is over. (Not where sessions may expire before
  their leases.)
* A store that opens a container whose former owner lives, and had it when the map was changed, has waited.
* No store goes back to an older map.
* Every map follows from the one before: the next generation, whole, and containers of stores that live stay
  where they are, but for a few that have been there for a while.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.cluster.claim_node import Claim, claim_path, decode_container_claim
from headrace.cluster.map_node import MAP, ContainerMap, decode_map
from headrace.cluster.node_reads import read_claims, read_stores
from headrace.cluster.planner import MOVES_MAX, REST_MS, is_wanting
from headrace.cluster.reconciler import COURTESY_S
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import StoreNode
from headrace.coordination.memory import MemorySession
from headrace.testing.coordination_faults import FaultyCoordinator
from headrace.testing.simulation import Simulation

_CLOCKS_MS: Final = 200
"""By which the clocks of two leaders may differ."""
_ROUNDED_S: Final = 0.01
"""Loops may read time in whole milliseconds, and strike early."""


class ClusterJudges:
    """Convict in :meth:`check`: what is judged could take an AssertionError for a failure of its own."""

    def __init__(self, coordinator: FaultyCoordinator, sim: Simulation, *, is_strict: bool) -> None:
        self.moves = 0
        """Containers that were moved while their store lived."""
        self.fenced = 0
        """Containers that were fenced while they ran."""
        self.answers = 0
        self.map = ContainerMap(0, ())
        self._coordinator = coordinator
        self._sim = sim
        self._is_strict = is_strict
        self._observer: MemorySession
        self._watching: asyncio.Task[None]
        self._found: list[str] = []
        self._generations: dict[str, int] = {}
        self._changed_s: dict[int, float] = {}
        """When the place of a container was changed last."""
        self._claims_then: dict[int, Claim | None] = {}
        """The claim on it at that moment."""

    async def start(self) -> None:
        self._observer = await self._coordinator.observe()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def check(self) -> None:
        """Raise what was found so far."""
        assert not self._found, self._found[0]
        if self._watching.done():
            self._watching.result()

    # ---- claims

    async def claim_on(self, container_id: int) -> Claim | None:
        node = await self._observer.read(claim_path(container_id))
        return None if node is None else decode_container_claim(node.data)

    async def check_answer(self, store: str, container_id: int) -> None:
        """``store`` answers for a container now."""
        self.answers += 1
        claim = await self.claim_on(container_id)
        held = claim is not None and claim.store == store
        if self._is_strict and not held:
            self._found.append(f"{store} answers for container {container_id}, whose claim is {claim}")

    async def check_open(self, store: str, container_id: int) -> None:
        """``store`` opens the log of a container now."""
        if self.place_of(container_id) != store:
            return
        claim = await self.claim_on(container_id)
        if claim is None or claim.store == store or claim != self._claims_then[container_id]:
            return
        waited_s = self._sim.loop.machine_time() - self._changed_s[container_id]
        if waited_s < COURTESY_S - _ROUNDED_S:
            self._found.append(f"{store} fences {claim} of container {container_id} after {waited_s} s")

    def see_map(self, name: str, member: StoreMember) -> None:
        """A store knows a map: none that is older than one it knew."""
        generation = member.placement.map.generation
        if generation < self._generations.get(member.id, 0):
            self._found.append(f"{name} goes back to map {generation}")
        self._generations[member.id] = generation

    def place_of(self, container_id: int) -> str:
        places = self.map.placements
        return places[container_id].store if container_id < len(places) else ""

    # ---- maps

    async def _watch(self) -> None:
        async for _ in self._observer.watch(MAP):
            node = await self._observer.read(MAP)
            if node is None:
                continue
            after = decode_map(node.data)
            claims = await read_claims(self._observer)
            changed = self._changed(self.map, after)
            self._sim.trace.add("judge", "map", generation=after.generation, changed=str(sorted(changed)))
            for container_id in changed:
                self._changed_s[container_id] = self._sim.loop.machine_time()
                self._claims_then[container_id] = claims.get(container_id)
            self._check_map(self.map, after, await read_stores(self._observer))
            self.map = after

    def _changed(self, before: ContainerMap, after: ContainerMap) -> set[int]:
        places = before.placements or ContainerMap.empty(len(after.placements)).placements
        assert len(places) == len(after.placements)
        return {
            n for n, (a, b) in enumerate(zip(places, after.placements, strict=True)) if a.store != b.store
        }

    def _check_map(self, before: ContainerMap, after: ContainerMap, stores: dict[str, StoreNode]) -> None:
        assert after.generation > before.generation, f"map {after.generation} after {before.generation}"
        if after.generation != before.generation + 1 or not before.placements:
            return  # several changes were one notice
        changed = self._changed(before, after)
        for number, (a, b) in enumerate(zip(before.placements, after.placements, strict=True)):
            assert (b.generation == after.generation) if number in changed else a == b
        moved = [
            number
            for number in changed
            if (node := stores.get(before.placements[number].store)) is not None
            and not node.draining
            and not is_wanting(node, number)
        ]
        self.moves += len(moved)
        assert len(moved) <= MOVES_MAX, f"{moved} moved at once, and their stores live"
        for number in moved:
            rested_ms = after.placements[number].changed_ms - before.placements[number].changed_ms
            assert rested_ms >= REST_MS - _CLOCKS_MS, f"{number} moved after {rested_ms} ms"
