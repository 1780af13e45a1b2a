"""What is known late: claims that are older than the map, and maps that are older than one that is known."""

import asyncio

from headrace.cluster.claim_node import Claim, claim_path, encode_container_claim
from headrace.cluster.container_steps import ContainerSteps
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.map_node import MAP, ContainerMap, Placement, encode_map
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.coordination.memory import MemoryCoordinator
from headrace.runtime.entropy import SeededEntropy


class Host:
    def __init__(self):
        self.given = asyncio.Event()

    async def give(self, _):
        self.given.set()
        return 1


def map_for(generation, store):
    return ContainerMap(generation, (Placement(store, generation),))


async def test_a_container_that_was_just_moved_has_an_owner_though_the_last_look_shows_none():
    coordinator = MemoryCoordinator()
    session, other = await coordinator.open(), await coordinator.open()
    placement, host, gate = WatchedPlacement(SeededEntropy(1)), Host(), LeaseGate()
    gate.begin(session.lease)
    steps = ContainerSteps(session, "me", 1, host, gate, placement, SeededEntropy(1), lambda: None)
    await other.create(MAP, encode_map(map_for(1, "other")))
    await placement.look(session)
    claim = encode_container_claim(Claim("other", 1))
    await other.create(claim_path(0), claim, ephemeral=True)
    await other.write(MAP, encode_map(map_for(2, "me")), 0)
    placement.learn_map(map_for(2, "me"))
    for _ in range(20):
        steps.act()
        await asyncio.sleep(0.1)
    assert not host.given.is_set()
    await other.close()
    await placement.look(session)
    steps.act()
    await asyncio.wait_for(host.given.wait(), 1)
    gate.end()


async def test_an_older_map_and_an_older_look_at_claims_change_nothing():
    coordinator = MemoryCoordinator()
    session = await coordinator.open()
    placement = WatchedPlacement(SeededEntropy(1))
    placement.learn_map(map_for(3, "a"))
    placement.learn_map(map_for(2, "b"))
    assert placement.intended(0) == "a"
    assert placement.locate(0) is None
    slow = SlowSession(session)
    late = asyncio.ensure_future(placement.look(slow))
    await asyncio.sleep(0.1)
    await session.create(claim_path(0), encode_container_claim(Claim("a", 1)))
    await placement.look(session)
    slow.answers.set()
    await late
    assert placement.claims == {0: Claim("a", 1)}


class SlowSession:
    """Asks at once, and has its answer when ``answers`` is set."""

    def __init__(self, session):
        self.answers = asyncio.Event()
        self._session = session

    async def read(self, path):
        found = await self._session.read(path)
        await self.answers.wait()
        return found

    async def children(self, path):
        found = await self._session.children(path)
        await self.answers.wait()
        return found
