"""A rolling upgrade ends when every live member knows the next format, and not before."""

import pytest

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts, read_facts
from headrace.cluster.finalizing import finalize
from headrace.cluster.leader_node import CANDIDATE, Candidate, encode_candidate
from headrace.cluster.levels import MemberFormats, check_level, plan_level
from headrace.cluster.store_node import StoreNode, encode_store, store_path
from headrace.coordination.member_node import MemberNode, encode_member, member_path
from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import PreconditionError
from headrace.model.endpoint import Endpoint
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.simulation import simulate

FACTS = Facts("00" * 16, 20, 16, "file:///log", "file:///chunks", 2)
OLD, NEW, NEWEST = (2,), (2, 3), (2, 3, 4)


async def join(session, stores, controllers, waiting=0):
    """Plant members that know these formats."""
    for number, formats in enumerate(stores):
        node = StoreNode(Endpoint("s", number + 1), software=f"0.{formats[-1]}", formats=formats)
        await session.create(store_path(f"{number:016}"), encode_store(node), ephemeral=True)
    for number, formats in enumerate(controllers):
        node = MemberNode(Endpoint("c", number + 1), 0, f"0.{formats[-1]}" if formats else "", formats)
        await session.create(member_path(f"{number:016}"), encode_member(node), ephemeral=True)
    for number in range(len(controllers) + waiting):
        candidate = encode_candidate(Candidate(f"{number:016}"))
        await session.create(CANDIDATE, candidate, ephemeral=True, sequential=True)


async def born(*members, **more):
    session = await MemoryCoordinator().open()
    await create_facts(session, FACTS)
    await join(session, *members, **more)
    return session


async def test_a_cluster_is_raised_once_and_then_there_is_nothing_to_do():
    session = await born([NEW, NEWEST], [NEW])
    assert await finalize(session) == (2, 3)
    assert (await read_facts(session)).format == 3
    unraised = await born([OLD], [OLD])
    for _ in range(2):
        assert await finalize(unraised) == (2, 2)
    assert await read_facts(unraised) == FACTS


@pytest.mark.parametrize(
    ("stores", "controllers", "named"),
    [
        ([NEW, OLD], [NEW], "segment store s:2 of version 0.2"),
        ([NEW], [OLD, NEW], "controller c:1 of version 0.2"),
        ([NEW], [()], "controller c:1 of version unknown"),
        ([OLD, NEWEST], [OLD], "segment store s:1 of version 0.2; controller c:1 of version 0.2"),
    ],
)
async def test_members_that_do_not_know_it_are_named_and_nothing_changes(stores, controllers, named):
    session = await born(stores, controllers)
    with pytest.raises(PreconditionError, match=f"stays at format 2.* format 3. .*these first: {named}$"):
        await finalize(session)
    assert await read_facts(session) == FACTS


async def test_a_controller_that_is_not_ready_is_waited_for_only_if_something_would_change():
    session = await born([NEW], [NEW], waiting=1)
    with pytest.raises(PreconditionError, match="1 of 2 controllers have started and are not ready"):
        await finalize(session)
    assert await read_facts(session) == FACTS
    assert await finalize(await born([OLD], [OLD], waiting=1)) == (2, 2)


async def test_without_members_or_a_cluster_it_is_refused():
    with pytest.raises(PreconditionError, match="no member lives"):
        await finalize(await born([], []))
    with pytest.raises(PreconditionError, match="no cluster"):
        await finalize(await MemoryCoordinator().open())


def test_an_answer_that_is_lost_raises_it_once():
    async def scenario(sim):
        coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults(lost_replies_percent=0))
        session = await coordinator.open()
        await create_facts(session, FACTS)
        await join(session, [NEW], [NEW])
        coordinator.faults = CoordinationFaults(lost_replies_percent=30)
        assert (await finalize(session))[1] == 3
        assert (await read_facts(session)).format == 3
        await session.close()

    for seed in range(5):
        simulate(seed, scenario)


def test_a_format_that_some_skip_is_not_taken_for_common():
    members = [MemberFormats("a", "", (2, 3)), MemberFormats("b", "", (2, 3, 4, 5))]
    assert plan_level(2, members) == 3
    with pytest.raises(PreconditionError, match="stays at format 3"):
        plan_level(3, members)


@pytest.mark.parametrize(
    ("formats", "told"),
    [((2, 3), "takes part at 2 to 3: install a newer one"), ((5,), "takes part at 5: install an older one")],
)
def test_a_process_of_another_time_is_told_which_one_is_needed(formats, told):
    facts = Facts("aa", 1, 1, "", "", 4)
    with pytest.raises(PreconditionError, match=f"this cluster is at format 4, .*{told}"):
        check_level(facts, formats)
    check_level(facts, (4, 5))
