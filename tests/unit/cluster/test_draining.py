"""An operator drains a store: it hands over all it has, goes on living, and may be taken back."""

import asyncio
from dataclasses import replace

import pytest
from small_cluster import run

from headrace.cluster.drain_node import Drain
from headrace.cluster.draining import ask_to_drain, take_back, wait_drained
from headrace.cluster.drains import FORGET_S, LastingDrains, asked_to_drain, with_drains
from headrace.cluster.node_reads import read_drains
from headrace.cluster.store_node import StoreNode
from headrace.errors import PreconditionError, WaitTimeoutError
from headrace.model.endpoint import Endpoint

A, B = StoreNode(Endpoint("a", 1), started_ms=5), StoreNode(Endpoint("b", 1), started_ms=6)
STORES = {"id-a": A, "id-b": B}


def owners(cluster):
    return {name for (name,) in cluster.served()}


@pytest.mark.slow
def test_a_drained_store_has_nothing_until_it_is_taken_back():
    async def scenario(cluster):
        operator = await cluster.coordinator.observe()
        drained = await ask_to_drain(operator, "a:1")
        assert drained.store == cluster.stores["a"].id
        await wait_drained(operator, drained, 30.0)
        assert owners(cluster) == {"b", "c"}
        await asyncio.sleep(60)
        assert owners(cluster) == {"b", "c"}
        assert await take_back(operator, drained.store) == drained
        await asyncio.sleep(60)
        assert owners(cluster) == {"a", "b", "c"}
        assert await read_drains(operator) == {}
        await operator.close()

    run(scenario, "a", "b", "c", containers=6)


@pytest.mark.slow
def test_a_drain_outlives_the_session_of_the_store():
    async def scenario(cluster):
        operator = await cluster.coordinator.observe()
        drained = await ask_to_drain(operator, "a:1")
        await wait_drained(operator, drained, 30.0)
        cluster.session_of("a").expire()
        await asyncio.sleep(30)
        assert cluster.stores["a"].id != drained.store
        assert owners(cluster) == {"b", "c"}
        await asyncio.sleep(2 * FORGET_S)
        assert owners(cluster) == {"b", "c"}
        await operator.close()

    run(scenario, "a", "b", "c")


@pytest.mark.slow
def test_the_drain_of_a_store_that_has_ended_is_forgotten():
    async def scenario(cluster):
        operator = await cluster.coordinator.observe()
        drained = await ask_to_drain(operator, "a:1")
        await cluster.stores.pop("a").stop()
        del cluster.gates["a"]
        await wait_drained(operator, drained, 30.0)
        assert await read_drains(operator)
        await asyncio.sleep(FORGET_S + 5)
        assert await read_drains(operator) == {}
        await operator.close()

    run(scenario, "a", "b", "c")


def test_if_only_drained_stores_are_left_they_serve():
    async def scenario(cluster):
        operator = await cluster.coordinator.observe()
        await wait_drained(operator, await ask_to_drain(operator, "a:1"), 30.0)
        await cluster.stores.pop("b").stop()
        del cluster.gates["b"]
        await asyncio.sleep(5)
        assert owners(cluster) == {"a"}
        await operator.close()

    run(scenario, "a", "b")


def test_a_drain_that_does_not_end_in_time_goes_on():
    async def scenario(cluster):
        operator = await cluster.coordinator.observe()
        cluster.hosts["a"].takes_s = 10.0
        drained = await ask_to_drain(operator, "a:1")
        with pytest.raises(WaitTimeoutError, match="--cancel"):
            await wait_drained(operator, drained, 3.0)
        await wait_drained(operator, drained, 30.0)
        assert owners(cluster) == {"b"}
        await operator.close()

    run(scenario, "a", "b")


def test_what_cannot_be_drained_is_refused_and_nothing_is_written():
    async def scenario(cluster):
        operator = await cluster.coordinator.observe()
        for ask in (ask_to_drain, take_back):
            with pytest.raises(PreconditionError, match=r"no live store 'x:1'; .*[ab]:1.*[ab]:1"):
                await ask(operator, "x:1")
        await cluster.service.stop()
        with pytest.raises(PreconditionError, match="nobody leads"):
            await ask_to_drain(operator, "a:1")
        await cluster.stores.pop("b").stop(0.0)
        del cluster.gates["b"]
        with pytest.raises(PreconditionError, match="no other store"):
            await ask_to_drain(operator, "a:1")
        assert await read_drains(operator) == {}
        await operator.close()

    run(scenario, "a", "b")


def test_a_drain_is_of_the_process_and_not_of_its_successor_at_the_address():
    drains = {"old-id": Drain(Endpoint("a", 1), 5)}
    assert asked_to_drain(STORES, drains) == {"id-a"}
    assert [node.draining for node in with_drains(STORES, drains).values()] == [True, False]
    restarted = STORES | {"id-a": replace(A, started_ms=7)}
    assert asked_to_drain(restarted, drains) == set()
    assert with_drains({"id-a": A}, drains) == {"id-a": A}


def test_a_store_that_was_away_for_a_moment_is_drained_still():
    lasting, drains = LastingDrains(), {"id-a": Drain.of(A)}
    assert lasting.over(drains, {}, 0.0) == []
    assert lasting.over(drains, {"id-a2": A}, FORGET_S) == []
    assert lasting.over(drains, {}, FORGET_S + 1) == []
    assert lasting.over(drains, {}, 2 * FORGET_S + 1) == ["id-a"]
    assert lasting.over({}, {}, 3 * FORGET_S) == []
