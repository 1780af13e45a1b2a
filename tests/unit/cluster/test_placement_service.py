"""The leader moves what is too much for one store, and two leaders write one map."""

import asyncio

from small_cluster import run

from headrace.cluster.loads import ContainerLoad
from headrace.cluster.node_reads import read_map
from headrace.cluster.placement_service import PlacementService
from headrace.runtime.entropy import SeededEntropy


def owners(cluster):
    return [name for (name,) in cluster.served()]


def test_a_load_that_is_reported_moves_a_container():
    async def scenario(cluster):
        await asyncio.sleep(15)
        before = owners(cluster)
        for container_id, name in enumerate(before):
            if name == "a":
                cluster.service.report(container_id, ContainerLoad(9 * 4 * 1024 * 1024, 0))
        await asyncio.sleep(5)
        moved = [n for n, (a, b) in enumerate(zip(before, owners(cluster), strict=True)) if a != b]
        assert len(moved) == 1
        assert before[moved[0]] == "a"

    run(scenario, "a", "b")


def test_when_the_leader_goes_the_next_one_goes_on_from_its_map():
    async def scenario(cluster):
        second = PlacementService(cluster.coordinator, 4, cluster.sim.clock, SeededEntropy("second"))
        second.start()
        await asyncio.sleep(1)
        assert (cluster.service.is_leader, second.is_leader) == (True, False)
        observer = await cluster.coordinator.observe()
        before = await read_map(observer)
        await cluster.service.stop()
        await asyncio.sleep(5)
        assert second.is_leader
        assert await read_map(observer) == before
        await cluster.stores.pop("b").stop()
        del cluster.gates["b"]
        await asyncio.sleep(1)
        assert owners(cluster) == ["a"] * 4
        await observer.close()
        await second.stop()

    run(scenario, "a", "b")
