"""What a session with ZooKeeper promises when the network or the server fails."""

import asyncio

import pytest

from headrace.coordination.node import Node
from headrace.errors import (
    ConnectionLostError,
    SessionExpiredError,
    UnknownOutcomeError,
    UnreachableError,
)
from headrace.testing.conformance.coordination import Changes, eventually_children
from tests.zookeeper_cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]


@pytest.fixture
async def cluster(zookeeper):
    async with Cluster(zookeeper) as cluster:
        yield cluster


async def answered(session, path):
    """Read a node; None if there was no answer."""
    try:
        return await session.read(path)
    except ConnectionLostError:
        return None


async def expired(session):
    """Wait until the member knows that its session is over."""
    await session.lease.lost.wait()
    while True:
        try:
            await session.read("any")
        except SessionExpiredError:
            return
        except ConnectionLostError:
            continue


async def test_a_session_outlives_its_connections(cluster):
    proxy = await cluster.proxy()
    session, other = await cluster.open(proxy.port), await cluster.open()
    await session.create("m/a", b"1", ephemeral=True)
    for _ in range(3):
        proxy.cut()
        assert await session.read("m/a") == Node(b"1", 0)
    assert proxy.connections > 1
    assert session.lease.is_valid
    assert not session.lease.lost.is_set()
    assert await other.children("m") == ["a"]


async def test_a_silent_network_ends_the_lease_before_the_session(cluster):
    proxy = await cluster.proxy()
    session, other = await cluster.open(proxy.port), await cluster.open()
    await session.create("m/a", b"", ephemeral=True)
    order = []

    async def lose():
        await session.lease.lost.wait()
        order.append("lease")

    async def expire():
        await eventually_children(other, "m", [])
        order.append("session")

    proxy.block()
    async with asyncio.TaskGroup() as group:
        group.create_task(lose())
        group.create_task(expire())
    assert order == ["lease", "session"]
    assert not session.lease.is_valid


async def test_an_expired_session_is_over_for_ever_and_begins_no_other(cluster):
    proxy = await cluster.proxy()
    coordinator = cluster.coordinator(proxy.port)
    session, other = await coordinator.open(), await cluster.open()
    await session.create("m/a", b"", ephemeral=True)
    changes = Changes(session.watch("m/a"))
    await changes.expect()
    proxy.block()
    await eventually_children(other, "m", [])
    proxy.flow()
    await expired(session)
    assert not session.lease.is_valid
    with pytest.raises(SessionExpiredError):
        await changes.expect_forever()
    with pytest.raises(SessionExpiredError):
        await session.create("m/b", b"")
    await session.close()
    assert proxy.sessions == {session.session_id}
    again = await coordinator.open()
    assert again.lease.is_valid
    assert again.session_id != session.session_id
    assert await again.children("m") == []


async def test_a_change_without_an_answer_is_an_unknown_outcome_that_is_looked_up(cluster):
    proxy = await cluster.proxy()
    session = await cluster.open(proxy.port)
    await session.create("a", b"0")
    for call in (lambda: session.write("a", b"1", 0), lambda: session.create("b", b"2")):
        assert await session.read("a") is not None
        proxy.loses_answers = True
        with pytest.raises(UnknownOutcomeError):
            await call()
        proxy.loses_answers = False
    assert await session.read("a") == Node(b"1", 1)
    assert await session.read("b") == Node(b"2", 0)
    assert session.lease.is_valid


async def test_a_server_that_only_takes_requests_does_not_block_its_callers(cluster):
    proxy = await cluster.proxy()
    session, other = await cluster.open(proxy.port), await cluster.open()
    await session.create("a", b"")
    proxy.loses_answers = True
    outcomes = await asyncio.gather(
        *(session.write("a", b"", version) for version in range(50)), return_exceptions=True
    )
    assert all(isinstance(outcome, UnknownOutcomeError) for outcome in outcomes)
    assert await other.read("a") == Node(b"", 50)
    proxy.loses_answers = False
    assert await session.read("a") == Node(b"", 50)


async def test_without_a_connection_calls_end_and_the_session_goes_on_after_a_short_gap(cluster):
    proxy = await cluster.proxy()
    session, other = await cluster.open(proxy.port, session_s=6.0), await cluster.open()
    await session.create("m/a", b"", ephemeral=True)
    changes = Changes(session.watch("b"))
    await changes.expect()
    proxy.refuses = True
    proxy.cut()
    await other.create("b", b"")
    proxy.refuses = False
    async with asyncio.timeout(30):
        while await session.read("b") is None:
            await changes.expect()
    assert await other.children("m") == ["a"]
    assert not session.lease.lost.is_set()


async def test_watches_see_what_was_changed_while_there_was_no_connection(cluster):
    proxy = await cluster.proxy()
    session, other = await cluster.open(proxy.port, session_s=6.0), await cluster.open()
    node, names, below = session.watch("a"), session.watch_children("m"), session.watch_children("none")
    watches = [Changes(each) for each in (node, names, below)]
    for changes in watches:
        await changes.expect()
    proxy.refuses = True
    proxy.cut()
    await other.create("a", b"")
    await other.create("m/x", b"")
    await other.create("none/y", b"")
    proxy.refuses = False
    for changes in watches:
        await changes.expect()
    assert await session.children("m") == ["x"]
    for changes in watches:
        await changes.close()


async def test_a_server_that_is_stopped_for_longer_than_the_session_ends_the_lease(cluster):
    session = await cluster.open()
    await session.create("m/a", b"", ephemeral=True)
    cluster.server.suspend()
    try:
        await session.lease.lost.wait()
        assert not session.lease.is_valid
        for call in (session.read("a"), session.write("m/a", b"1", 0)):
            with pytest.raises(ConnectionLostError):
                await call
        with pytest.raises(UnreachableError):
            await cluster.open()
    finally:
        cluster.server.resume()
    other = await cluster.open()
    try:
        while (node := await answered(session, "m/a")) is None:
            pass
    except SessionExpiredError:
        await eventually_children(other, "m", [])
        assert not session.lease.is_valid
    else:  # the server heard of the session before it looked at the time
        assert node == await other.read("m/a")
        assert session.lease.is_valid


async def test_a_server_that_starts_again_has_the_session_and_its_nodes(cluster):
    session = await cluster.open(session_s=20.0)
    await session.create("m/a", b"1", ephemeral=True)
    changes = Changes(session.watch("m/a"))
    await changes.expect()
    cluster.server.kill()
    cluster.server.start()
    await changes.expect()
    assert await session.read("m/a") == Node(b"1", 0)
    assert await session.write("m/a", b"2", 0) == 1
    await changes.expect()
    assert session.lease.is_valid
    await changes.close()


async def test_closing_without_an_answer_ends(cluster):
    proxy = await cluster.proxy()
    coordinator = cluster.coordinator(proxy.port)
    session, cut_off, other = await coordinator.open(), await coordinator.open(), await cluster.open()
    await session.create("m/a", b"", ephemeral=True)
    proxy.block()
    await session.close()
    await asyncio.gather(cut_off.close(), cut_off.close())
    assert not session.lease.is_valid
    with pytest.raises(SessionExpiredError):
        await session.read("a")
    await eventually_children(other, "m", [])


async def test_where_no_server_answers_no_session_is_opened(cluster):
    proxy = await cluster.proxy()
    proxy.refuses = True
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{proxy.port} gave no session within 1 s"):
        await cluster.open(proxy.port)
    proxy.refuses = False
    proxy.block()
    with pytest.raises(UnreachableError):
        await cluster.open(proxy.port)
    proxy.flow()
    await cluster.open(proxy.port)


async def test_a_session_goes_on_at_another_server(cluster):
    one, other = await cluster.proxy(), await cluster.proxy()
    session = await cluster.open(one.port, other.port, session_s=6.0)
    await session.create("a", b"1", ephemeral=True)
    changes = Changes(session.watch("a"))
    if session.session_id not in one.sessions:  # the library begins with any of the servers
        one, other = other, one
    for left, taken in ((one, other), (other, one)):
        await changes.expect()
        taken.refuses = False
        left.refuses = True
        left.cut()
        assert await session.read("a") == Node(b"1", 0)
        assert taken.sessions == {session.session_id}
    assert not session.lease.lost.is_set()
    await changes.close()
