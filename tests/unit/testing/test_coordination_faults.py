import asyncio

import pytest

from headrace.coordination.node import Node
from headrace.errors import ConnectionLostError, SessionExpiredError
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.simulation import simulate


def run(scenario, **faults):
    async def main(sim):
        coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults(**faults))
        session, other = await coordinator.open(), await coordinator.open()
        await session.create("m/a", b"", ephemeral=True)
        await scenario(coordinator, session, other)
        await session.close()
        await other.close()

    simulate(1, main)


def test_sessions_live_as_long_as_their_members():
    async def scenario(_, session, other):
        await asyncio.sleep(100)
        assert session.lease.is_valid
        assert await other.children("m") == ["a"]

    run(scenario)


def test_a_suspended_session_loses_its_lease_before_it_expires():
    async def scenario(_, session, other):
        session.suspend()
        await session.lease.lost.wait()
        assert await other.children("m") == ["a"]
        await asyncio.sleep(6)
        assert await other.children("m") == []
        with pytest.raises(ConnectionLostError):
            await session.read("m/a")
        session.resume()
        with pytest.raises(SessionExpiredError):
            await session.read("m/a")

    run(scenario)


def test_nothing_arrives_at_a_suspended_session_not_even_that_it_is_over():
    async def scenario(_, session, other):
        watch = session.watch("n")
        await anext(watch)
        session.suspend()
        following = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(20)
        assert await other.children("m") == []
        assert not following.done()
        session.resume()
        with pytest.raises(SessionExpiredError):
            await following

    run(scenario)


def test_the_lease_of_a_wrong_clock_ends_before_the_session_may():
    async def scenario(coordinator, session, other):
        lengths = [coordinator.draw_lease_s() for _ in range(100)]
        assert min(lengths) < 4.5
        assert 5.5 < max(lengths) < coordinator.faults.session_timeout_s

    run(scenario, drift_percent_max=15)


def test_a_session_that_is_resumed_in_time_goes_on():
    async def scenario(_, session, other):
        watch = session.watch("n")
        await anext(watch)
        session.suspend()
        await other.create("n", b"1")
        await asyncio.sleep(3)
        session.resume()
        await anext(watch)
        assert await session.read("n") == Node(b"1", 0)
        await asyncio.sleep(20)
        assert session.lease.is_valid
        await watch.aclose()

    run(scenario)


def test_a_lost_reply_leaves_the_change_made():
    async def scenario(coordinator, session, other):
        coordinator.faults.lost_replies_percent = 100
        with pytest.raises(ConnectionLostError):
            await session.write("m/a", b"1", 0)
        assert await other.read("m/a") == Node(b"1", 1)

    run(scenario)


def test_a_paused_process_gives_no_signs_of_life():
    async def main(sim):
        coordinator = FaultyCoordinator(sim.entropy)
        host = sim.host("one")

        async def program():
            session = await coordinator.open()
            await session.create("m/a", b"", ephemeral=True)
            await session.lease.lost.wait()
            with pytest.raises(SessionExpiredError):
                await session.read("m/a")

        task = host.spawn("program", program())
        other = await coordinator.open()
        await asyncio.sleep(10)
        host.pause()
        await asyncio.sleep(7)
        assert await other.children("m") == []
        host.resume()
        await task
        await other.close()

    simulate(1, main)
