"""That a condition did not hold is final for who hears it, as the end of a segment is: nobody hears it of a
length that the log may lose, or of a former owner. Until it is known who owns the log, it waits.
"""

import asyncio

import pytest

from headrace.errors import WalWriteError
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.store import SegmentStore
from headrace.wire import commands as c
from tests.unit.segmentstore.container.test_fenced_owner import Registry, bench_of_two, start_beside
from tests.unit.segmentstore.ingress.world import NULL, OTHER, SEGMENT, WRITER, FakeHome, Peer, acked, append


async def ask_behind_an_append(world):
    """Have a conditional append wait for the one that makes its condition fail; return the peers of both."""
    first, second = Peer(world.home), Peer(world.home)
    await first.set_up()
    await second.set_up(OTHER)
    world.wal.held = True
    first.feed(append(1, b"one"))
    await first.replies()
    assert await second.ask(c.ConditionalBlockEnd(OTHER, 1, 0, b"x", 5)) == []
    return first, second


async def test_a_condition_fails_once_what_it_fails_of_is_durable(world):
    first, second = await ask_behind_an_append(world)
    first.feed(append(2, b"two"))
    world.wal.go_on()
    assert await first.replies(50) == [acked(1, NULL, 3), acked(2, 1, 6)]
    assert await second.replies() == [c.ConditionalCheckFailed(OTHER, 1, 5)]
    assert await second.ask(c.ConditionalBlockEnd(OTHER, 2, 6, b"x", 6)) == [
        acked(2, NULL, 7, request_id=6, writer=OTHER)
    ]


async def test_a_condition_does_not_fail_of_an_append_that_the_log_loses(world):
    """The segment has the expected length, then and now: it was told that somebody else had written."""
    _, second = await ask_behind_an_append(world)
    world.container.log.fail(WalWriteError("the disk is gone"))
    assert await second.replies() in ([c.WrongHost(5, SEGMENT, "", "")], [])
    world.wal.go_on()
    world.wal._in_flight.clear()
    world.bench.container = None
    world.container = await world.bench.start()
    assert (await world.container.resolve(SEGMENT)).durable_length == 0


async def test_a_length_that_no_segment_has_waits_for_nothing(world):
    _, second = await ask_behind_an_append(world)
    third = Peer(world.home)
    await third.set_up(bytes(16))
    replies = await third.ask(
        c.ConditionalBlockEnd(bytes(16), 1, 4, b"x", 5), c.ConditionalBlockEnd(bytes(16), 2, -1, b"x", 6)
    )
    assert replies == [c.ConditionalCheckFailed(bytes(16), 1, 5), c.ConditionalCheckFailed(bytes(16), 2, 6)]
    second.transport.abort()
    await second.replies()


async def test_a_former_owner_does_not_say_that_its_successors_segment_is_short():
    bench = bench_of_two()
    former = await bench.start()
    store = SegmentStore(Registry(former), SeededEntropy(1))
    await store.create_segment(SEGMENT)
    home = FakeHome(store)
    peer = Peer(home)
    await peer.set_up()
    successor = await start_beside(bench)
    await SegmentStore(Registry(successor), SeededEntropy(2)).append(SEGMENT, b"abc")
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 1, 3, b"def", 5)) == [c.WrongHost(5, SEGMENT, "", "")]
    await home.supervisor.stop()
    await former.stop()
    await successor.stop()


async def ask_beyond_the_end(world):
    """Have a conditional append wait for the answer who owns the log, with others behind it."""
    peer, other = Peer(world.home), Peer(world.home)
    await peer.set_up()
    await other.set_up(OTHER)
    world.wal.answers = asyncio.Event()
    peer.feed(
        append(1, b"one"), c.ConditionalBlockEnd(WRITER, 2, 6, b"two", 5), append(3, b"three", request_id=6)
    )
    assert await peer.replies() == [acked(1, NULL, 3)]
    return peer, other


async def test_a_refusal_that_waits_for_an_answer_keeps_its_place_among_the_acknowledgements(world):
    peer, other = await ask_beyond_the_end(world)
    assert await other.ask(append(1, b"x", writer=OTHER)) == [
        acked(1, NULL, 4, writer=OTHER)
    ]  # nobody else waits for it
    world.wal.answers.set()
    assert await peer.replies() == [c.ConditionalCheckFailed(WRITER, 2, 5), acked(3, 1, 9, request_id=6)]


async def test_an_append_that_waits_for_an_answer_is_taken_if_its_condition_has_come_true(world):
    peer, other = await ask_beyond_the_end(world)
    assert await other.ask(append(1, b"xyz", writer=OTHER)) == [acked(1, NULL, 6, writer=OTHER)]
    world.wal.answers.set()
    assert await peer.replies() == [acked(2, 1, 9, request_id=5), acked(3, 2, 14, request_id=6)]


@pytest.mark.parametrize("end", ["stop", "fail"])
async def test_a_container_that_ends_while_it_is_asked_does_not_say_that_the_segment_is_short(world, end):
    """A log that was closed meanwhile does not know any more who owns it."""
    peer, _ = await ask_beyond_the_end(world)
    if end == "fail":
        world.container.log.fail(WalWriteError("the disk is gone"))
        await world.bench.stopping
    await world.container.stop()
    world.wal.answers.set()
    assert (await peer.replies())[0] == c.WrongHost(5, SEGMENT, "", "")


async def test_a_client_that_leaves_while_its_append_waits_for_an_answer_leaves_nothing_behind(world):
    peer, other = await ask_beyond_the_end(world)
    peer.transport.abort()
    await peer.replies()
    world.wal.answers.set()
    assert peer.lost
    assert await other.ask(append(1, b"x", writer=OTHER)) == [acked(1, NULL, 4, writer=OTHER)]
