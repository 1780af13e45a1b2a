"""One leads; when it goes the next one does, and nobody else is woken."""

import asyncio

from headrace.cluster.leader_node import LEADER, Candidate
from headrace.cluster.leadership import Leadership
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.simulation import simulate


class Candidates:
    def __init__(self, sim, **faults):
        self.coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults(**faults))
        self.sim = sim
        self.all = []

    async def stand(self):
        number = len(self.all)
        session = await self.coordinator.open()
        leadership = Leadership(session, Candidate(f"{number:016}"), SeededEntropy(number), lambda: None)
        task = asyncio.get_running_loop().create_task(leadership.run())
        self.all.append((session, leadership, task))
        await asyncio.sleep(5)

    def leaders(self):
        return [number for number, (_, leadership, _) in enumerate(self.all) if leadership.is_leader]

    async def stop(self):
        for session, _, task in self.all:
            await session.close()
            await asyncio.wait([task])
            task.exception()


def run(scenario, seed=1, **faults):
    async def main(sim):
        candidates = Candidates(sim, **faults)
        for _ in range(3):
            await candidates.stand()
        await scenario(candidates)
        await candidates.stop()

    simulate(seed, main)


def test_the_first_leads_then_the_next():
    async def scenario(candidates):
        assert candidates.leaders() == [0]
        await candidates.all[0][0].close()
        await asyncio.sleep(1)
        assert candidates.leaders() == [1]

    run(scenario)


def test_one_that_goes_in_the_middle_changes_nothing():
    async def scenario(candidates):
        await candidates.all[1][0].close()
        await asyncio.sleep(1)
        assert candidates.leaders() == [0]
        await candidates.all[0][0].close()
        await asyncio.sleep(1)
        assert candidates.leaders() == [2]

    run(scenario)


def test_a_leader_that_hears_nothing_leads_no_more_before_another_one_does():
    async def scenario(candidates):
        candidates.all[0][0].suspend()
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert len(candidates.leaders()) <= 1
        assert candidates.leaders() == [1]
        candidates.all[0][0].resume()
        await asyncio.sleep(1)
        assert candidates.leaders() == [1]

    run(scenario)


def test_lost_answers_make_no_candidate_twice():
    async def scenario(candidates):
        session = await candidates.coordinator.observe()
        assert len(await session.children(LEADER)) == 3
        assert candidates.leaders() == [0]
        await session.close()

    for seed in range(8):
        run(scenario, seed, lost_replies_percent=40)


def test_a_candidate_whose_node_was_deleted_stands_again():
    async def scenario(candidates):
        session = await candidates.coordinator.observe()
        first, *_ = await session.children(LEADER)
        await session.delete(f"{LEADER}/{first}", 0)
        await asyncio.sleep(5)
        assert candidates.leaders() == [1]
        assert len(await session.children(LEADER)) == 3
        await session.close()

    run(scenario)
