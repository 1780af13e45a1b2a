"""Reads of a connection that closes: what exists is still answered, nobody waits for what may come."""

import asyncio

import pytest

from headrace.errors import NoSuchSegmentError, StorageReadError
from headrace.limits import MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.store import SegmentStore
from headrace.wire import commands as c
from tests.unit.segmentstore.container.container_bench import Bench, until
from tests.unit.segmentstore.container.test_fenced_owner import Registry
from tests.unit.segmentstore.ingress.test_reads import got, read
from tests.unit.segmentstore.ingress.world import NULL, SEGMENT, FakeHome, Peer, acked, append

COLD = "s/cold"
DATA = b"0123456789"

WAYS = {
    "the client says no more": lambda peer: peer.connection.eof_received(),
    "the client breaks a rule": lambda peer: peer.feed(append(1)),
    "the server stops": lambda peer: peer.connection.close_after_replies("the server stops"),
}


@pytest.fixture
async def cold(store):
    store.add(COLD, DATA)
    store.cold.add(COLD)
    return store


def cold_reads(count):
    return [read(n, segment=COLD, request_id=n) for n in range(count)]


def cold_answers(count):
    return [got(n, DATA[n:], segment=COLD, request_id=n) for n in range(count)]


def by_id(replies):
    return sorted(replies, key=lambda reply: reply.request_id)


def running(home):
    return len(home.supervisor.statistics().running)


@pytest.mark.parametrize("way", WAYS)
async def test_reads_that_wait_for_storage_are_answered_and_those_at_the_tail_end_at_once(
    peer, home, cold, way
):
    assert await peer.ask(*cold_reads(5), *[read(0)] * 20, read(10, segment=COLD)) == []
    WAYS[way](peer)
    assert await peer.replies() == []
    assert not peer.closed
    assert running(home) == peer.connection.statistics()["reads_waiting"] == home.waiting_reads.total == 5
    cold.storage.set()
    assert by_id(await peer.replies()) == cold_answers(5)
    assert peer.lost
    assert not peer.transport.aborted
    assert running(home) == home.waiting_reads.total == cold.results_out == 0


@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_that_only_has_reads_at_the_tail_closes_at_once(peer, home, cold, way):
    assert await peer.ask(*[read(0)] * 20, read(10, segment=COLD), read(99, segment=COLD)) == []
    cold.reads.clear()
    WAYS[way](peer)
    assert await peer.replies() == []
    assert peer.lost
    assert running(home) == home.waiting_reads.total == 0
    assert cold.reads == [], "nothing is asked of a store for them"


async def test_reads_that_came_with_the_last_word_are_answered(peer, cold):
    """They have not taken their first step yet."""
    peer.feed(*cold_reads(3), read(0))
    peer.connection.eof_received()
    cold.storage.set()
    assert by_id(await peer.replies()) == cold_answers(3)
    assert peer.lost


async def test_reads_and_other_requests_are_waited_for_together(peer, cold):
    cold.durable_at_once = False
    cold.gate = asyncio.Event()
    await peer.set_up()
    peer.feed(append(1, b"abc"), c.GetStreamSegmentInfo(8, SEGMENT, ""), *cold_reads(1))
    assert await peer.replies() == []
    peer.connection.eof_received()
    cold.gate.set()
    assert len(await peer.replies()) == 1
    cold.commit()
    assert await peer.replies() == [acked(1, NULL, 3)]
    assert not peer.closed
    cold.storage.set()
    assert await peer.replies() == cold_answers(1)
    assert peer.lost


@pytest.mark.parametrize("closing", [False, True])
async def test_a_lost_connection_drops_all_of_them_at_once(peer, home, cold, closing):
    assert await peer.ask(*cold_reads(5), read(0)) == []
    if closing:
        peer.connection.eof_received()
        await peer.replies()
    peer.connection.connection_lost(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert running(home) == home.waiting_reads.total == 0
    cold.storage.set()
    assert await peer.replies() == []


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, "the connection is lost"])
async def test_thousands_of_reads_at_the_tail_end_a_few_in_each_turn(peer, home, cold, way):
    """16,000 of them held up the loop for a quarter of a second when their client was gone."""
    count = 2000
    peer.feed(*[read(0)] * count, read(0, segment=COLD, request_id=9))
    await peer.replies(100)
    assert running(home) == count + 1
    end = WAYS.get(way, lambda peer: peer.connection.connection_lost(None))
    end(peer)
    left, most = running(home), 0
    while left > 1 and most < count:
        await asyncio.sleep(0)
        most, left = max(most, left - running(home)), running(home)
    assert most <= 256
    if way in WAYS:
        assert not peer.closed
        cold.storage.set()
        assert await peer.replies() == [got(0, DATA, segment=COLD, request_id=9)]
    await peer.replies()
    assert peer.lost
    assert running(home) == home.waiting_reads.total == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_that_only_has_thousands_of_reads_at_the_tail_closes_soon(peer, home, store, way):
    peer.feed(*[read(0)] * 2000)
    await peer.replies(100)
    WAYS[way](peer)
    await peer.replies(50)
    assert peer.lost
    assert running(home) == home.waiting_reads.total == 0


async def test_a_connection_that_is_lost_while_its_reads_end_leaves_none(peer, home, cold):
    peer.feed(*[read(0)] * 1000, *cold_reads(300))
    await peer.replies(100)
    peer.connection.eof_received()
    await asyncio.sleep(0)
    peer.connection.connection_lost(None)
    cold.storage.set()
    await peer.replies(50)
    assert running(home) == home.waiting_reads.total == cold.results_out == 0


async def test_storage_that_does_not_answer_is_waited_for_as_long_as_for_anything_else(store, cold):
    home = FakeHome(store, IngressConfig(drain_s=0.01))
    peer = Peer(home)
    assert await peer.ask(*cold_reads(5)) == []
    peer.connection.eof_received()
    await until(lambda: peer.lost)
    assert peer.transport.aborted
    await peer.replies()
    assert running(home) == home.waiting_reads.total == 0
    await home.supervisor.stop()


async def test_a_segment_that_comes_back_to_memory_is_read_but_not_waited_for(peer, home, cold):
    cold.cold.clear()
    cold.inactive.add(COLD)
    assert await peer.ask(read(7, segment=COLD), read(10, segment=COLD, request_id=3)) == []
    peer.connection.eof_received()
    assert await peer.replies() == []
    assert not peer.closed
    cold.inactive.clear()
    cold.wake()
    assert await peer.replies() == [got(7, b"789", segment=COLD)]
    assert peer.lost
    assert running(home) == 0


async def test_the_failure_of_a_read_is_an_answer_as_well(peer, cold):
    assert await peer.ask(*cold_reads(2)) == []
    peer.connection.eof_received()
    cold.storage_failure = NoSuchSegmentError(COLD)
    cold.storage.set()
    assert by_id(await peer.replies()) == [c.NoSuchSegment(n, COLD, "", n) for n in range(2)]
    assert peer.lost


async def test_a_read_that_fails_without_a_reply_takes_no_other_with_it(peer, cold):
    cold.add("s/damaged", DATA)
    cold.cold.add("s/damaged")
    first = cold.storage
    assert await peer.ask(read(0, segment="s/damaged")) == []
    cold.storage = asyncio.Event()
    assert await peer.ask(*cold_reads(2)) == []
    cold.storage_failure = StorageReadError("later")
    first.set()
    cold.reads.clear()
    assert await peer.replies() == []
    assert peer.connection.is_closing
    assert not peer.closed
    assert cold.reads == [], "nothing is asked for again"
    cold.storage_failure = None
    cold.storage.set()
    assert by_id(await peer.replies()) == cold_answers(2)
    assert peer.lost


async def test_reads_that_wait_until_a_slow_client_takes_them_are_answered_in_order(peer, cold):
    target = cold.add("s/large", bytes(2 * MIB))
    cold.cold.add("s/large")
    questions = [read(0, 2 * MIB, segment="s/large", request_id=n) for n in range(10)]
    assert await peer.ask(*questions) == []
    peer.transport.stuck = True
    cold.storage.set()
    answered = await peer.replies()
    peer.connection.eof_received()
    answered += await peer.replies()
    assert 0 < len(answered) < 10
    assert not peer.closed
    while len(answered) < 10:
        peer.transport.drain()
        peer.transport.stuck = True
        answered += await peer.replies()
        assert cold.results_out <= 1
    assert [reply.request_id for reply in answered] == list(range(10))
    assert {len(reply.data) for reply in answered} == {len(target.data)}
    peer.transport.drain()
    peer.connection.connection_lost(None)  # as the transport says once it has sent everything
    assert cold.results_out == 0


@pytest.fixture
async def bench():
    bench = Bench()
    await bench.start()
    yield bench
    await bench.stop()


@pytest.mark.parametrize("active", [True, False])
async def test_bytes_of_real_chunks_are_answered_after_the_last_word(bench, active):
    """A container whose cache was emptied, and chunks that are read when the test says so."""
    store = SegmentStore(Registry(bench.container), SeededEntropy(1))
    for name in (COLD, SEGMENT):
        await store.create_segment(name)
    data = bytes(range(256)) * 1000
    await store.append(COLD, data)
    await bench.evict(COLD)
    bench.chunks.read_at_once = lambda *_: 0
    is_ready, read_chunk = asyncio.Event(), bench.chunks.read

    async def read_later(*arguments):
        await is_ready.wait()
        return await read_chunk(*arguments)

    bench.chunks.read = read_later
    if active:
        is_ready.set()
        await store.open_target(COLD)
        is_ready.clear()
    home = FakeHome(store)
    peer = Peer(home)
    assert await peer.ask(read(0, 1000, segment=COLD), read(0), read(len(data), segment=COLD)) == []
    assert peer.connection.statistics()["reads_waiting"] == 3
    peer.connection.eof_received()
    assert await peer.replies() == []
    assert not peer.closed
    is_ready.set()
    await until(lambda: peer.closed)
    assert await peer.replies() == [got(0, data[:1000], at_tail=False, segment=COLD)]
    assert peer.lost
    assert not peer.transport.aborted
    assert running(home) == 0
    await home.supervisor.stop()


@pytest.mark.slow
@pytest.mark.parametrize("turns", range(4))
async def test_no_read_is_answered_twice_if_its_segment_is_deleted_while_they_end(peer, home, store, turns):
    """Its task has answered, and is still taken for waiting until the next turn."""
    peer.feed(*[read(0, request_id=number) for number in range(1000)])
    await peer.replies(100)
    peer.connection.eof_received()
    await store.delete_segment(SEGMENT)
    for _ in range(turns):
        await asyncio.sleep(0)
    ids = [reply.request_id for reply in await peer.replies(50)]
    assert len(ids) == len(set(ids)) > 128
    assert peer.lost
    assert running(home) == home.waiting_reads.total == 0
