"""That a segment is gone is final for whoever hears it: nobody hears it before it is durable, or of a former
owner, who cannot know.
"""

import asyncio

import pytest

from headrace.errors import WalWriteError
from headrace.model.names import transaction_segment_name
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.store import SegmentStore
from headrace.wire import commands as c
from tests.unit.segmentstore.container.test_fenced_owner import Registry, bench_of_two, start_beside
from tests.unit.segmentstore.ingress.world import NULL, OTHER, SEGMENT, WRITER, FakeHome, Peer, acked, append

TRANSACTION = transaction_segment_name(SEGMENT, 5)

QUESTIONS = {
    "setup": lambda segment: c.SetupAppend(5, WRITER, segment, ""),
    "read": lambda segment: c.ReadSegment(segment, 0, 100, "", 5),
    "info": lambda segment: c.GetStreamSegmentInfo(5, segment, ""),
    "attribute": lambda segment: c.GetSegmentAttribute(5, segment, WRITER, ""),
}


async def begin_to_end(world, way):
    """Begin to delete the segment, or to merge a transaction into it; return what ends, and how."""
    ending = SEGMENT
    if way == "merge":
        ending = TRANSACTION
        await world.store.create_segment(ending)
    first = Peer(world.home)
    await first.set_up(segment=ending)
    assert await first.ask(append(1, b"one")) == [acked(1, NULL, 3)]
    if way == "merge":
        await world.store.seal_segment(ending)
    world.wal.held = True
    change = (
        world.store.merge_segments(SEGMENT, ending) if way == "merge" else world.store.delete_segment(ending)
    )
    task = asyncio.ensure_future(change)
    for _ in range(10):
        await asyncio.sleep(0)
    return ending, task


@pytest.mark.slow
@pytest.mark.parametrize("way", ["delete", "merge"])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_nobody_hears_of_an_end_that_the_log_loses(world, question, way):
    ending, task = await begin_to_end(world, way)
    peer = Peer(world.home)
    assert await peer.ask(QUESTIONS[question](ending)) == []
    world.container.log.fail(WalWriteError("the disk is gone"))
    with pytest.raises(WalWriteError):
        await task
    assert await peer.replies() in ([c.WrongHost(5, ending, "", "")], [])
    world.wal.go_on()
    world.wal._in_flight.clear()
    world.bench.container = None
    container = await world.bench.start()
    assert (await container.resolve(ending)).durable_length == 3


@pytest.mark.slow
@pytest.mark.parametrize("way", ["delete", "merge"])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_everybody_hears_of_it_once_it_is_durable(world, question, way):
    ending, task = await begin_to_end(world, way)
    peer = Peer(world.home)
    assert await peer.ask(QUESTIONS[question](ending)) == []
    world.wal.go_on()
    await task
    (reply,) = await peer.replies()
    assert isinstance(reply, c.NoSuchSegment)
    assert (reply.request_id, reply.segment) == (5, ending)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_nobody_waits_for_the_log_with_a_name_that_no_segment_can_have(world, question):
    """Thousands of such reads may wait on one connection, and each name may have 64 KiB."""
    peer = Peer(world.home)
    await peer.set_up(OTHER)
    world.wal.held = True
    peer.feed(append(1, b"one", writer=OTHER))
    (reply,) = await peer.ask(QUESTIONS[question]("x" * 60_000))
    assert isinstance(reply, c.NoSuchSegment)
    assert not world.home.waiting_reads.total


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_former_owner_does_not_deny_a_segment_of_its_successor(question):
    bench = bench_of_two()
    former = await bench.start()
    successor = await start_beside(bench)
    await SegmentStore(Registry(successor), SeededEntropy(2)).create_segment(SEGMENT)
    home = FakeHome(SegmentStore(Registry(former), SeededEntropy(1)))
    peer = Peer(home)
    assert await peer.ask(QUESTIONS[question](SEGMENT)) == [c.WrongHost(5, SEGMENT, "", "")]
    await home.supervisor.stop()
    await former.stop()
    await successor.stop()
