"""The facts are made once, and every change is one of what there is."""

import asyncio
from dataclasses import replace

import pytest

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts, mark_opened, read_facts, update_facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import PreconditionError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.simulation import simulate

FACTS = Facts("00" * 16, 20, 16, "file:///log", "file:///chunks", 1)


async def test_a_cluster_is_born_once():
    session = await MemoryCoordinator().open()
    with pytest.raises(PreconditionError, match="no cluster"):
        await read_facts(session)
    with pytest.raises(PreconditionError, match="no cluster"):
        await mark_opened(session, 1)
    await create_facts(session, FACTS)
    for again in (FACTS, replace(FACTS, system="11" * 16)):
        with pytest.raises(PreconditionError, match=f"already, with the data of system {FACTS.system}"):
            await create_facts(session, again)
    assert await read_facts(session) == FACTS


def test_whatever_answers_are_lost_no_change_is():
    async def scenario(sim):
        coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults(lost_replies_percent=30))
        sessions = [await coordinator.open() for _ in range(4)]
        await create_facts(sessions[0], FACTS)
        await asyncio.gather(
            *(
                mark_opened(session, 4 * number + place)
                for place, session in enumerate(sessions)
                for number in (0, 1)
            )
        )
        raised = await update_facts(sessions[1], lambda facts: replace(facts, format=2))
        assert raised == await read_facts(sessions[2])
        assert raised == replace(FACTS, format=2, opened=frozenset(range(8)))
        for session in sessions:
            await session.close()

    for seed in range(5):
        simulate(seed, scenario)


def test_of_two_births_at_a_time_one_is_told():
    async def scenario(sim):
        faults = CoordinationFaults(lost_replies_percent=30)
        coordinator = FaultyCoordinator(SeededEntropy(sim.seed), faults)
        sessions = [await coordinator.open() for _ in range(3)]
        births = [replace(FACTS, system=f"{number:032}") for number in range(3)]
        outcomes = await asyncio.gather(
            *(create_facts(session, each) for session, each in zip(sessions, births, strict=True)),
            return_exceptions=True,
        )
        (winner,) = [number for number, outcome in enumerate(outcomes) if outcome is None]
        assert all(isinstance(each, PreconditionError) for each in outcomes if each is not None)
        assert await read_facts(sessions[0]) == births[winner]
        for session in sessions:
            await session.close()

    for seed in range(5):
        simulate(seed, scenario)
