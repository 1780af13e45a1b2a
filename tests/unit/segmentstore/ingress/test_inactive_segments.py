"""Writers of segments that are not in memory: set up when these are back, in the order of what was sent."""

import asyncio

import pytest

from headrace.errors import NoSuchSegmentError, TooManyActiveSegmentsError
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.wire import commands as c
from tests.unit.segmentstore.ingress.world import (
    NULL,
    OTHER,
    SEGMENT,
    WRITER,
    FakeHome,
    Peer,
    acked,
    append,
)

SETUP = c.SetupAppend(1, WRITER, SEGMENT, "")


async def test_appends_sent_behind_the_set_up_wait_until_the_segment_is_back(peer, store):
    store.inactive.add(SEGMENT)
    store.gate = asyncio.Event()
    assert await peer.ask(SETUP, append(1, b"abc"), c.KeepAlive(), append(2, b"de")) == []
    assert peer.connection.statistics()["blocked"] == ["setup"]
    store.gate.set()
    replies = await peer.replies()
    assert replies[0] == c.AppendSetup(1, SEGMENT, WRITER, NULL)
    assert replies[-1] == acked(2, NULL, 5)
    assert store.segments[SEGMENT].data == b"abcde"


async def test_a_segment_that_is_gone_is_told_and_the_connection_goes_on(peer, store):
    store.inactive.add(SEGMENT)
    store.refusal = NoSuchSegmentError(SEGMENT)
    assert await peer.ask(SETUP, c.KeepAlive()) == [c.NoSuchSegment(1, SEGMENT, "", -1), c.KeepAlive()]
    assert not peer.closed


async def test_no_room_for_the_segment_closes_the_connection_so_that_the_client_comes_again(peer, store):
    store.inactive.add(SEGMENT)
    store.refusal = TooManyActiveSegmentsError(0, 25_000)
    assert await peer.ask(SETUP) == []
    assert peer.closed


@pytest.mark.parametrize("gone", [False, True])
async def test_a_client_that_says_no_more_still_hears_of_a_set_up_under_way(home, store, gone):
    peer, target = Peer(home), store.segments[SEGMENT]
    store.inactive.add(SEGMENT)
    store.gate = asyncio.Event()
    peer.feed(SETUP)
    peer.connection.eof_received()
    assert await peer.replies() == []
    assert not peer.closed, "an answer is owed"
    if gone:
        store.refusal = NoSuchSegmentError(SEGMENT)
    store.gate.set()
    expected = c.NoSuchSegment(1, SEGMENT, "", -1) if gone else c.AppendSetup(1, SEGMENT, WRITER, NULL)
    assert await peer.replies() == [expected]
    assert peer.lost
    assert (target.users, home.writers.total) == (0, 0)


async def test_a_connection_that_closes_does_not_wait_for_ever_for_a_set_up(store):
    home = FakeHome(store, IngressConfig(drain_s=0.01))
    peer = Peer(home)
    store.inactive.add(SEGMENT)
    store.gate = asyncio.Event()
    peer.feed(SETUP)
    peer.connection.eof_received()
    async with asyncio.timeout(120):
        while not peer.lost:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    store.gate.set()
    await home.supervisor.stop()
    assert (store.segments[SEGMENT].users, home.writers.total) == (0, 0)


async def test_a_writer_lets_go_of_its_segment_when_its_connection_ends_or_it_goes_elsewhere(home, store):
    peer, target = Peer(home), store.segments[SEGMENT]
    other = store.add("sc/st/1.#epoch.0")
    await peer.set_up()
    await peer.set_up(OTHER)
    assert target.users == 2
    await peer.set_up(OTHER)
    assert target.users == 2, "set up again"
    await peer.ask(append(1), SETUP)
    assert target.users == 2, "set up again with an append in flight"
    await peer.set_up(segment="sc/st/1.#epoch.0")
    assert (target.users, other.users) == (1, 1)
    await peer.set_up(segment="no")
    assert (target.users, other.users) == (1, 0)
    peer.transport.close()
    await peer.replies()
    assert (target.users, other.users) == (0, 0)


async def test_a_connection_that_ends_while_its_writer_is_set_up_holds_nothing(home, store):
    peer = Peer(home)
    store.inactive.add(SEGMENT)
    store.gate = asyncio.Event()
    await peer.ask(SETUP)
    peer.connection.connection_lost(None)
    store.gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert store.segments[SEGMENT].users == 0


async def test_a_bug_while_a_segment_comes_back_ends_its_connection(peer, store):
    store.inactive.add(SEGMENT)
    store.refusal = ValueError("a bug")
    assert await peer.ask(SETUP) == []
    assert peer.closed
