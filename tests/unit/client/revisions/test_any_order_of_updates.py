"""Many processes update one state while replies are lost, connections break, and they are killed and paused.

An update that was acknowledged is in the state once, one that failed at most once, and everybody sees one
order of them.
"""

import asyncio

import pytest
from simulated_clients import SimulatedClients

from headrace.client.writer.conditional_output import ConditionalOutput
from headrace.errors import HeadraceError, UnreachableError
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import simulate
from tests.effort import seeds, soak

pytestmark = pytest.mark.slow
UPDATES = 8
"""Of each process that is not killed."""


def append(state, update):
    return [*state, update]


class Updates:
    """Processes that append their names to a list, with its length as they saw it."""

    def __init__(self, seed, simulation, monkeypatch):
        self.world = SimulatedClients(seed, simulation, monkeypatch)
        self.draws = self.world.draws
        self.names = iter(range(1000))
        self.given, self.seen = set(), []
        self.acknowledged, self.refused = {}, set()

    async def run(self):
        await self.world.start()
        self.world.controller.create("s", "t")
        async with asyncio.TaskGroup() as group:
            for _ in range(self.draws.randrange(2, 5)):
                group.create_task(self.live())
        self.world.be_well()
        async with (
            self.world.connect() as client,
            client.synchronizer("s/t", initial=[], apply=append) as shared,
        ):
            self.judge(shared.state)
        await self.world.store.stop()

    async def live(self):
        """A process after another: each but the last one is killed."""
        for _ in range(self.draws.choice([0, 0, 1, 2])):
            host = self.world.new_host()
            host.spawn("updates", self.update(1000))
            await self.trouble(host)
            host.kill()
        host = self.world.new_host()
        done = host.spawn("updates", self.update(UPDATES))
        while not done.done():
            await self.trouble(host)
            await asyncio.wait([done], timeout=self.draws.choice([0.05, 1.0, 10.0]))
        done.result()

    async def trouble(self, host):
        """Let some time pass; break connections and pause the process meanwhile."""
        await asyncio.sleep(self.draws.random() * 0.1)
        if self.draws.random() < 0.3:
            self.world.simulation.network.drop_connections(host.name)
            await asyncio.sleep(self.draws.random() * 0.02)
        if self.draws.random() < 0.2:
            host.pause()
            await asyncio.sleep(self.draws.choice([0.01, 1.0, 100.0]))
            host.resume()

    async def update(self, count):
        """Of one process. It goes on after what failed."""
        give_up_s = self.draws.choice([0.0, 0.05, 120.0])
        async with self.world.connect(give_up_s) as client:
            shared = None
            while shared is None:
                try:
                    shared = await client.synchronizer("s/t", initial=[], apply=append)
                except HeadraceError:
                    await asyncio.sleep(0.01)
            while count > 0:
                together = self.draws.choice([1, 1, 1, 3])
                count -= together
                await asyncio.gather(*(self.update_once(shared) for _ in range(together)))
                await self.look(shared)
            await shared.close()

    async def update_once(self, shared):
        name = next(self.names)
        self.given.add(name)
        try:
            state = await shared.update(lambda state: [[name, len(state)]])
        except UnreachableError:
            self.refused.add(name)
        except HeadraceError:
            pass  # it may have happened
        else:
            self.acknowledged[name] = state

    async def look(self, shared):
        chance = self.draws.random()
        try:
            if chance < 0.2:
                await shared.compact()
            elif chance < 0.4:
                self.seen.append(await shared.fetch())
        except HeadraceError:
            pass
        await asyncio.sleep(self.draws.choice([0.0, 0.002, 0.02]))

    def judge(self, final):
        names = [name for name, _ in final]
        assert len(names) == len(set(names)), f"doubled: {names}"
        assert set(names) <= self.given
        assert self.acknowledged.keys() <= set(names), "acknowledged and lost"
        assert not self.refused & set(names), "refused, and happened"
        assert [length for _, length in final] == [*range(len(final))], "made of a state that was old"
        for name, state in self.acknowledged.items():
            assert state == final[: len(state)], "another order"
            assert state[-1][0] == name, "not right behind the update"
        for state in self.seen:
            assert state == final[: len(state)], "another order"


def run(seed, monkeypatch):
    async def scenario(simulation):
        await Updates(seed, simulation, monkeypatch).run()

    simulate(seed, scenario, network=NetworkConfig(), limit_s=36_000.0)


@pytest.mark.parametrize("seed", seeds(24))
def test_an_update_that_is_acknowledged_happens_once_in_one_order(seed, monkeypatch):
    run(seed, monkeypatch)


@soak
def test_updates_of_two_hundred_seeds_happen_once_in_one_order(monkeypatch):
    for seed in range(1000, 1200):
        run(seed, monkeypatch)


def test_a_new_number_for_what_may_have_happened_is_convicted(monkeypatch):
    pause = ConditionalOutput._pause

    def with_a_new_number(output, reconnects, error, now, doubt):
        if doubt is not None:
            output._number += 1
        return pause(output, reconnects, error, now, doubt)

    monkeypatch.setattr(ConditionalOutput, "_pause", with_a_new_number)
    with pytest.raises(AssertionError, match="doubled"):
        run(5, monkeypatch)
