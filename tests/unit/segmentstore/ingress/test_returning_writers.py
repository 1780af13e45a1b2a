"""Writers that lose a connection and come back while what they sent before is on its way.

What they are told decides what they send again, perhaps into another segment. On a real container, and a log
that a test holds up.
"""

import asyncio
import gc
import weakref

import pytest

from headrace.errors import WalWriteError
from headrace.segmentstore.ingress.charges import ChargedKind
from headrace.wire import commands as c
from tests.unit.segmentstore.container.container_bench import read_all, until, withhold_memory
from tests.unit.segmentstore.ingress.world import (
    NULL,
    OTHER,
    SEGMENT,
    WRITER,
    Peer,
    acked,
    append,
)


async def test_a_writer_that_comes_back_is_told_of_what_is_still_on_its_way(world):
    first = Peer(world.home)
    await first.set_up()
    world.wal.held = True
    first.feed(append(1, b"one"), append(2, b"two"))
    await first.replies()
    first.transport.abort()
    await first.replies()
    assert first.lost
    sealing = asyncio.ensure_future(world.store.seal_segment(SEGMENT))
    second = Peer(world.home)
    assert await second.ask(c.SetupAppend(5, WRITER, SEGMENT, "")) == []
    world.wal.go_on()
    assert await sealing == 6
    assert await second.replies() == [c.AppendSetup(5, SEGMENT, WRITER, 2)]
    assert await second.ask(append(3, b"three")) == [c.SegmentIsSealed(7, SEGMENT, "", 3)]
    assert await read_all(world.container, SEGMENT) == b"onetwo"


async def test_a_writer_whose_appends_may_be_lost_is_not_told_a_number(world):
    first = Peer(world.home)
    await first.set_up()
    world.wal.held = True
    first.feed(append(1, b"one"))
    await first.replies()
    second = Peer(world.home)
    assert await second.ask(c.SetupAppend(5, WRITER, SEGMENT, "")) == []
    world.container.log.fail(WalWriteError("the disk is gone"))
    assert await second.replies() == [c.WrongHost(5, SEGMENT, "", "")]
    assert first.closed
    world.wal.go_on()


@pytest.mark.parametrize("sealed", [False, True])
async def test_what_a_former_connection_held_back_is_never_taken_for_missing(world, sealed):
    """It was received, there was no room for it, and the answer to the next connection does not count it."""
    first = Peer(world.home)
    await first.set_up()
    assert await first.ask(append(1, b"one")) == [acked(1, NULL, 3)]
    give_memory = withhold_memory(world.container)
    first.feed(append(2, b"two"))
    assert await first.replies() == []
    second = Peer(world.home)
    assert await second.set_up() == c.AppendSetup(1, SEGMENT, WRITER, 1)
    give_memory()
    assert await first.replies() == [acked(2, 1, 6)]
    if sealed:
        await world.store.seal_segment(SEGMENT)
    assert await second.ask(append(2, b"two", request_id=9)) == [c.InvalidEventNumber(WRITER, 9, "", 2)]
    assert second.closed
    assert (await Peer(world.home).set_up()).last_event_number == 2


async def test_setting_up_again_on_the_same_connection_waits_for_nothing(world):
    peer = Peer(world.home)
    await peer.set_up()
    world.wal.held = True
    peer.feed(append(1, b"one"), c.SetupAppend(5, WRITER, SEGMENT, ""), append(2, b"two"))
    assert await peer.replies() == []
    world.wal.go_on()
    assert await peer.replies() == [
        acked(1, NULL, 3),
        c.AppendSetup(5, SEGMENT, WRITER, 1),
        acked(2, 1, 6),
    ]


async def test_a_connection_that_leaves_while_its_writer_waits_leaves_nothing_behind(world):
    first = Peer(world.home)
    await first.set_up()
    world.wal.held = True
    first.feed(append(1, b"one"))
    await first.replies()
    second = Peer(world.home)
    await second.ask(c.SetupAppend(5, WRITER, SEGMENT, ""))
    for peer in (first, second):
        peer.transport.abort()
        await peer.replies()
    world.wal.go_on()
    segment = world.container.find_segment(SEGMENT)
    await until(lambda: not segment.users)


@pytest.mark.parametrize("ends", ["seal", "delete"])
async def test_no_append_is_refused_for_an_end_that_is_not_durable(world, ends):
    """A writer goes on elsewhere after such a refusal, for ever; so it has to be true."""
    peer = Peer(world.home)
    await peer.set_up()
    await peer.set_up(OTHER)
    world.wal.held = True
    end = world.store.seal_segment if ends == "seal" else world.store.delete_segment
    ending = asyncio.ensure_future(end(SEGMENT))
    await asyncio.sleep(0)
    assert await peer.ask(append(1, b"one"), append(1, b"two", writer=OTHER)) == []
    world.wal.go_on()
    await ending
    expected = c.SegmentIsSealed(7, SEGMENT, "", 1) if ends == "seal" else c.NoSuchSegment(7, SEGMENT, "", -1)
    replies = []
    while len(replies) < 2:
        replies += await peer.replies()
    assert replies == [expected, expected]


async def test_an_append_behind_a_seal_that_failed_closes_the_connection(world):
    peer = Peer(world.home)
    await peer.set_up()
    world.wal.held = True
    sealing = asyncio.ensure_future(world.store.seal_segment(SEGMENT))
    await asyncio.sleep(0)
    assert await peer.ask(append(1, b"one")) == []
    world.container.log.fail(WalWriteError("the disk is gone"))
    with pytest.raises(WalWriteError):
        await sealing
    replies = await peer.replies()
    assert replies in ([], [c.WrongHost(7, SEGMENT, "", "")])
    world.wal.go_on()
    world.wals[-1]._in_flight.clear()
    world.bench.container = None
    container = await world.bench.start()
    assert not (await container.resolve(SEGMENT)).sealed


async def test_writers_that_give_up_while_the_log_stands_leave_nothing_behind(world):
    first = Peer(world.home)
    await first.set_up()
    world.wal.held = True
    first.feed(append(1, b"one"))
    await first.replies()
    for _ in range(5):
        peer = Peer(world.home)
        assert await peer.ask(c.SetupAppend(5, WRITER, SEGMENT, "")) == []
        peer.transport.abort()
        await peer.replies()
    assert world.container.find_segment(SEGMENT).users == 1
    assert not world.home.supervisor.statistics().running
    world.wal.go_on()


async def test_a_writer_too_many_of_a_connection_leaves_no_target_behind(world):
    world.home.writers = ChargedKind(world.home.budget, each_max=1)
    first = Peer(world.home)
    await first.set_up()
    world.wal.held = True
    first.feed(append(1, b"one"))
    await first.replies()
    second = Peer(world.home)
    await second.set_up(OTHER)
    assert await second.ask(c.SetupAppend(5, WRITER, SEGMENT, "")) == []
    world.wal.go_on()
    (refused,) = await second.replies()
    assert refused == c.ErrorMessage(5, SEGMENT, refused.message, -1)
    assert not second.closed
    assert world.container.find_segment(SEGMENT).users == 2
    for peer in (first, second):
        peer.transport.abort()
        await peer.replies()
    assert world.container.find_segment(SEGMENT).users == 0


async def test_connections_lost_while_they_wait_for_room_are_forgotten(world):
    withhold_memory(world.container)  # storage stands: no append finds room
    gone = []
    for _ in range(20):
        peer = Peer(world.home)
        await peer.set_up()
        peer.feed(append(1, b"one"))
        assert await peer.replies() == []
        peer.transport.abort()
        await peer.replies()
        assert peer.lost
        gone.append(weakref.ref(peer.connection))
        world.home.lost.clear()
        del peer
    gc.collect()
    assert sum(ref() is not None for ref in gone) <= 1


async def test_a_writer_that_moves_to_another_segment_is_answered_behind_what_it_is_owed(world):
    """Acknowledgements name no segment: what comes behind AppendSetup counts for the segment named there."""
    other = SEGMENT.replace(".0", ".1")
    await world.store.create_segment(other)
    peer = Peer(world.home)
    await peer.set_up()
    world.wal.held = True
    peer.feed(append(3, b"one"), c.SetupAppend(5, WRITER, other, ""), append(3, b"two"))
    replies = await peer.replies()
    world.wal.go_on()
    while len(replies) < 3:
        replies += await peer.replies()
    assert replies == [
        acked(3, NULL, 3),
        c.AppendSetup(5, other, WRITER, NULL),
        acked(3, NULL, 3),
    ]


async def test_a_writer_that_moves_to_a_segment_that_is_gone_is_refused_behind_what_it_is_owed(world):
    peer = Peer(world.home)
    await peer.set_up()
    world.wal.held = True
    gone = SEGMENT.replace(".0", ".1")
    assert await peer.ask(append(3, b"one"), c.SetupAppend(5, WRITER, gone, "")) == []
    world.wal.go_on()
    replies = []
    while len(replies) < 2:
        replies += await peer.replies()
    assert replies == [acked(3, NULL, 3), c.NoSuchSegment(5, gone, "", -1)]


async def test_a_connection_that_leaves_while_its_writer_moves_leaves_nothing_behind(world):
    other = SEGMENT.replace(".0", ".1")
    await world.store.create_segment(other)
    peer = Peer(world.home)
    await peer.set_up()
    world.wal.held = True
    assert await peer.ask(append(3, b"one"), c.SetupAppend(5, WRITER, other, "")) == []
    peer.transport.abort()
    await peer.replies()
    assert not world.home.supervisor.statistics().running
    world.wal.go_on()
    for name in (SEGMENT, other):
        await until(lambda name=name: not world.container.find_segment(name).users)
