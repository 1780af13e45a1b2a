"""Room for large frames: nobody starves, the sum is bounded, who never finishes does not keep it for ever."""

import asyncio
import random

import pytest

from headrace.limits import KIB, MIB
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.listener import Listener
from headrace.segmentstore.ingress.receive_memory import ReceiveMemory
from headrace.wire import commands as c
from headrace.wire.frames import HEAD_BYTES, RECEIVE_SLACK_BYTES, FrameDecoder, encode
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.world import (
    NULL,
    OTHER,
    SEGMENT,
    WRITER,
    FakeHome,
    Peer,
    acked,
    append,
    block,
)

PATIENCE_S = 20


class Borrower:
    def __init__(self, name):
        self.name = name
        self.told = 0
        self.gave_back = 0
        self.received = 0
        self.keeps = 0

    def __repr__(self):
        return self.name

    def received_bytes(self):
        return self.received

    def give_back_memory(self):
        self.gave_back += 1
        return self.keeps

    def on_memory(self):
        self.told += 1


# ---------------------------------------------------------------------------------------- the lender


def test_room_goes_round_in_the_order_in_which_it_was_asked_for():
    memory = ReceiveMemory(100)
    a, b, d, e = map(Borrower, "abde")
    assert memory.take(a, 60, 0)
    assert not memory.take(b, 60, 1)
    assert not memory.take(d, 10, 2), "there is room for it, but b was first"
    assert not memory.take(e, 70, 3)
    memory.check()
    memory.finish(a, 4)
    assert (a.gave_back, b.told, d.told, e.told) == (1, 1, 1, 0)
    memory.leave(b, 5)
    assert e.told == 1
    statistics = memory.statistics()
    assert (statistics.bytes_lent, statistics.borrowers, statistics.waiting, statistics.waits) == (
        80,
        2,
        0,
        3,
    )
    memory.check()


def test_room_stays_with_who_had_it_until_somebody_wants_it():
    memory = ReceiveMemory(100)
    a, b = map(Borrower, "ab")
    assert memory.take(a, 60, 0)
    memory.finish(a, 1)
    assert memory.take(a, 60, 2)
    memory.finish(a, 3)
    assert a.gave_back == 0
    assert memory.take(b, 40, 4)
    assert a.gave_back == 0
    memory.finish(b, 5)
    assert memory.take(a, 70, 6), "what b has left over is enough for it"
    assert (a.gave_back, b.gave_back) == (0, 1)
    memory.check()


def test_a_frame_that_turns_out_larger_gets_more_and_one_larger_than_everything_goes_alone():
    memory = ReceiveMemory(100)
    a, b = map(Borrower, "ab")
    assert memory.take(a, 60, 0)
    assert not memory.take(b, 500, 1)
    assert memory.take(a, 90, 2), "there is room for it, and b cannot have any before a is done"
    memory.finish(a, 3)
    assert b.told == 1
    assert not memory.take(a, 1, 4)
    memory.leave(b, 5)
    assert a.told == 1
    memory.check()


def test_who_needs_more_than_there_is_waits_in_front_of_those_who_have_nothing():
    memory = ReceiveMemory(100)
    a, b, d = map(Borrower, "abd")
    assert memory.take(a, 40, 0)
    assert memory.take(b, 40, 0)
    assert not memory.take(d, 30, 1)
    assert not memory.take(a, 70, 2)
    memory.check()
    assert memory.statistics().waiting == 2
    assert [each for each, _ in memory.overdue(50, 10, 10)] == [b], "a only waits for it"
    memory.finish(b, 51)
    assert (a.told, b.gave_back, d.told) == (1, 1, 1)
    assert memory.statistics().bytes_lent == 100
    assert list(memory.overdue(52, 10, 10)) == []
    memory.check()


def test_when_all_who_have_room_need_more_one_after_the_other_gets_it():
    memory = ReceiveMemory(100)
    a, b, d = map(Borrower, "abd")
    for each in (a, b, d):
        assert memory.take(each, 30, 0)
    assert not memory.take(a, 500, 1)
    assert not memory.take(b, 400, 2)
    assert not memory.take(d, 300, 3)
    assert (a.told, b.told, d.told) == (1, 0, 0), "nobody else could go on either"
    assert memory.statistics().bytes_lent == 560
    memory.check()
    memory.finish(a, 4)
    assert (a.gave_back, b.told, d.told) == (1, 1, 0)
    memory.leave(b, 5)
    assert d.told == 1
    memory.finish(d, 6)
    assert memory.statistics().waiting == 0
    memory.check()


def test_what_followed_a_frame_and_is_kept_counts_until_it_was_taken():
    memory = ReceiveMemory(100)
    a, b = map(Borrower, "ab")
    assert memory.take(a, 90, 0)
    memory.finish(a, 1)
    a.keeps = 80
    assert not memory.take(b, 60, 2)
    assert memory.statistics().bytes_lent == 80
    memory.check()
    a.keeps = 0
    memory.finish(a, 3)
    assert b.told == 1
    assert memory.statistics().bytes_lent == 60
    memory.check()


def test_who_keeps_what_followed_its_frame_and_needs_more_gets_it():
    memory = ReceiveMemory(100)
    a, b = map(Borrower, "ab")
    assert memory.take(a, 90, 0)
    memory.finish(a, 1)
    a.keeps = 80
    assert memory.take(a, 500, 2), "it is alone"
    memory.finish(a, 3)
    assert memory.take(b, 500, 4) is False
    assert memory.take(a, 600, 5), "nobody else could go on either"
    memory.check()
    a.keeps = 0
    memory.finish(a, 6)
    assert b.told == 1
    memory.check()


def test_only_who_keeps_others_waiting_is_overdue():
    memory = ReceiveMemory(100)
    a, b, d = map(Borrower, "abd")

    def overdue(now):
        a.received += 1
        b.received += 1
        return [borrower for borrower, _ in memory.overdue(now, 10, 3)]

    assert memory.take(a, 60, 0)
    assert memory.take(b, 20, 5)
    assert overdue(100) == []
    assert not memory.take(d, 60, 8)
    assert overdue(9) == []
    assert overdue(10) == [a]
    assert overdue(15) == [a, b]
    memory.finish(a, 16)
    assert overdue(20) == []
    assert d.told == 1


def test_who_sends_nothing_is_overdue_earlier():
    memory = ReceiveMemory(100)
    a, b, d = map(Borrower, "abd")
    assert memory.take(a, 60, 0)
    assert memory.take(b, 20, 0)
    assert not memory.take(d, 60, 8)
    for now in range(8, 11):
        a.received += 1
        assert list(memory.overdue(now, 100, 3)) == [], "nothing was known of b before"
    a.received += 1
    assert list(memory.overdue(11, 100, 3)) == [(b, 11)]
    assert list(memory.overdue(13, 100, 3)) == [(b, 13)]
    assert list(memory.overdue(14, 100, 3)) == [(a, 14), (b, 14)]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_room_is_bounded_and_everybody_gets_some(seed):
    draw = random.Random(seed)
    bytes_max = draw.choice((1, 100, 1000))
    memory = ReceiveMemory(bytes_max)
    everybody = [Borrower(str(n)) for n in range(draw.choice((2, 5, 30)))]
    asked, inside, growing = {}, {}, {}
    grown = set()  # nobody needs more a second time for the same frame

    def settle():
        for line in (asked, growing):
            for borrower in list(line):
                if borrower.told:
                    borrower.told = 0
                    inside[borrower] = line.pop(borrower)
        grown.intersection_update([*inside, *growing])
        memory.check()
        lent = memory.statistics().bytes_lent
        assert lent <= bytes_max + 350 or memory.statistics().borrowers <= 1
        assert lent >= sum(inside.values())

    for now in range(1500):
        borrower = draw.choice(everybody)
        if borrower in inside:
            if draw.random() < 0.3 and borrower not in grown:
                grown.add(borrower)
                size = inside[borrower] + draw.randrange(50)
                if memory.take(borrower, size, now):
                    inside[borrower] = size
                else:
                    del inside[borrower]
                    growing[borrower] = size
            else:
                del inside[borrower]
                borrower.keeps = draw.choice((0, 0, 0, 10))
                if draw.random() < 0.7:
                    memory.finish(borrower, now)
                else:
                    memory.leave(borrower, now)
        elif borrower not in asked and borrower not in growing:
            size = draw.randrange(1, 300)
            if memory.take(borrower, size, now):
                inside[borrower] = size
            else:
                asked[borrower] = size
        elif draw.random() < 0.1:
            asked.pop(borrower, None)
            growing.pop(borrower, None)
            memory.leave(borrower, now)
        settle()
    for borrower in everybody:
        borrower.keeps = 0
    for borrower in everybody:
        if borrower not in inside and borrower not in asked and borrower not in growing:
            memory.finish(borrower, 2000)  # what it kept was taken
            settle()
    while inside:
        borrower = next(iter(inside))
        del inside[borrower]
        memory.finish(borrower, 2000)
        settle()
    assert not asked
    assert not growing, "everybody had a turn"


# ------------------------------------------------------------------------------------- the decoder


def test_behind_a_large_frame_little_is_received_so_that_its_room_can_be_given_back():
    decoder = FrameDecoder.for_server(1024)
    large, small = encode(c.AppendBlock(WRITER, bytes(MIB))), encode(c.KeepAlive())
    stream = large + small * 100_000
    frame, sent = None, 0
    while frame is None:
        room = decoder.get_buffer()
        room[:] = stream[sent : sent + len(room)]
        sent += len(room)
        decoder.buffer_updated(len(room))
        frame = decoder.next_frame()
    payload = frame[1]
    assert decoder.pending_bytes <= RECEIVE_SLACK_BYTES
    left = decoder.pending_bytes
    decoder.give_back()
    assert len(decoder.buffer) <= max(1024, left)
    assert bytes(payload) == large[HEAD_BYTES:], "it still is what it was"
    assert len(list(decoder.commands())) == left // len(small)
    decoder.check()


def test_once_room_was_wanted_back_little_is_received_behind_every_large_frame():
    decoder = FrameDecoder.for_server(1024)
    sizes = [300, 4000, 1000, 1000, 300, 2000, 1000]
    stream = b"".join(encode(c.AppendBlock(WRITER, bytes(size * KIB))) for size in sizes)
    taken, sent = 0, 0
    while taken < len(sizes):
        room = decoder.get_buffer()
        size = min(len(room), len(stream) - sent)
        assert size
        room[:size] = stream[sent : sent + size]
        sent += size
        decoder.buffer_updated(size)
        while decoder.next_frame() is not None:
            taken += 1
            assert decoder.pending_bytes <= RECEIVE_SLACK_BYTES
            if taken == 1:
                decoder.give_back()
        assert decoder.taken_bytes == sent - decoder.pending_bytes


def test_frames_that_nobody_takes_do_not_make_the_rest_arrive_byte_by_byte():
    decoder = FrameDecoder.for_server(1024)
    decoder.feed(encode(c.AppendBlock(WRITER, bytes(300 * KIB))) * 2)
    reads = 0
    stream = encode(c.AppendBlock(WRITER, bytes(8 * KIB))) * 100
    while stream:
        room = decoder.get_buffer()
        size = min(len(room), len(stream))
        decoder.buffer_updated(size)
        stream = stream[size:]
        reads += 1
    assert reads < 100


def test_giving_back_what_is_needed_changes_nothing():
    decoder = FrameDecoder.for_server(1024)
    decoder.feed(bytes(encode(c.AppendBlock(WRITER, bytes(4096)))[:3000]))
    decoder.next_frame()
    decoder.give_back()
    assert decoder.pending_bytes == 3000
    decoder.check()


# -------------------------------------------------------------------------------------- connections


@pytest.fixture
async def tight(store):
    """A home whose connections have little buffer, and room for one frame of half a mebibyte at a time."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=600 * KIB))
    yield home
    await home.supervisor.stop()
    home.receive_memory.check()


LARGE = bytes(500 * KIB)


async def test_a_large_frame_waits_until_another_was_taken(tight):
    first, second = Peer(tight), Peer(tight)
    await first.set_up()
    await second.set_up(OTHER)
    whole = block(1, LARGE)
    first.feed(whole[:2000])
    second.feed(block(1, LARGE, writer=OTHER) + encode(c.KeepAlive()))
    assert await second.replies() == []
    assert not second.transport.reading
    assert len(second.connection._decoder.buffer) < 300 * KIB
    assert second.connection.statistics()["blocked"] == ["memory"]
    first.feed(whole[2000:])
    assert await first.replies() == [acked(1, NULL, len(LARGE))]
    assert await second.replies() == [c.KeepAlive(), acked(1, NULL, 2 * len(LARGE), writer=OTHER)]
    assert second.transport.reading
    assert len(first.connection._decoder.buffer) <= 1024
    assert tight.totals.memory_waits == 1


async def test_who_sends_large_frames_without_a_pause_lets_others_have_a_turn(tight):
    first, second = Peer(tight), Peer(tight)
    await first.set_up()
    await second.set_up(OTHER)
    whole = b"".join(block(number, LARGE) for number in range(1, 11))
    at = len(LARGE) // 2
    first.feed(whole[:at])
    second.feed(block(1, LARGE, writer=OTHER))
    assert await second.replies() == []
    turn = None
    for number in range(1, 11):  # the next frame has always begun when the one before is there
        first.feed(whole[at : at + len(LARGE)])
        at += len(LARGE)
        await first.replies()
        if turn is None and await second.replies():
            turn = number
    assert turn == 1
    first.feed(whole[at:])
    await first.replies()
    await second.replies()
    assert not first.closed
    assert not first.unfed
    assert tight.totals.memory_waits == 2
    assert tight.store.segments[SEGMENT].state.durable_length == 11 * len(LARGE)


async def test_a_connection_keeps_its_room_while_nobody_else_wants_it(tight):
    first, second = Peer(tight), Peer(tight)
    await first.set_up()
    await second.set_up(OTHER)
    for number in (1, 2):
        first.feed(block(number, LARGE))
    assert len(await first.replies()) == 2
    assert tight.receive_memory.statistics().borrowers == 1
    assert len(first.connection._decoder.buffer) > len(LARGE)
    second.feed(block(1, LARGE, writer=OTHER))
    assert len(await second.replies()) == 1
    assert len(first.connection._decoder.buffer) <= 1024
    assert tight.totals.memory_waits == 0


@pytest.mark.parametrize("who", ["first", "second"])
async def test_who_is_lost_neither_keeps_room_nor_is_given_any(tight, who):
    first, second, third = Peer(tight), Peer(tight), Peer(tight)
    await third.set_up()
    for peer in (first, second):
        peer.feed(block(1, LARGE)[:2000])
    third.feed(block(1, LARGE))
    assert not third.transport.reading
    lost = {"first": first, "second": second}[who]
    lost.connection.connection_lost(None)
    if who == "second":
        assert await third.replies() == []
        first.connection.connection_lost(None)
    else:
        await second.replies()
        assert second.transport.reading
        second.connection.connection_lost(None)
    assert await third.replies() == [acked(1, NULL, len(LARGE))]


async def test_a_frame_larger_than_all_room_is_taken_alone(store):
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=1))
    peers = [Peer(home), Peer(home)]
    for peer in peers:
        await peer.set_up(WRITER if peer is peers[0] else OTHER)
    peers[0].feed(block(1, LARGE))
    peers[1].feed(block(1, LARGE, writer=OTHER))
    assert len(await peers[0].replies()) == 1
    assert len(await peers[1].replies()) == 1
    await home.supervisor.stop()


async def test_an_append_whose_end_is_large_too_does_not_wait_for_itself(store):
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=1))
    first, second = Peer(home), Peer(home)
    await first.set_up()
    partial = encode(c.PartialEvent(bytes(100)))
    whole = encode(c.AppendBlock(WRITER, LARGE + partial)) + encode(
        c.AppendBlockEnd(WRITER, len(LARGE), LARGE, 1, 5, 7)
    )
    first.feed(whole[: len(LARGE) + 500])
    second.feed(block(1, LARGE, writer=OTHER)[:2000])
    assert not second.transport.reading
    first.feed(whole[len(LARGE) + 500 :])
    assert await first.replies() == [acked(5, NULL, 2 * len(LARGE) + 100)]
    await second.replies()
    assert second.transport.reading
    await home.supervisor.stop()


async def test_ends_of_append_blocks_do_not_take_room_beyond_the_bound(store):
    """Blocks just above the buffer all find room. Their ends of 4 MiB take it one after the other."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=2 * MIB))
    writers = [bytes([n]) * 16 for n in range(25)]
    peers = [Peer(home) for _ in writers]
    for peer, writer in zip(peers, writers, strict=True):
        await peer.set_up(writer)
        data = bytes(2 * KIB) + encode(c.PartialEvent(bytes(8)))
        block_and_end = encode(c.AppendBlock(writer, data)) + encode(
            c.AppendBlockEnd(writer, 2 * KIB, bytes(4 * MIB), 1, 1, 7)
        )
        peer.feed(block_and_end[: 2 * KIB])
        peer.unfed += block_and_end[2 * KIB :]
    assert home.receive_memory.statistics().waiting == 0
    for peer in peers:
        peer.push()
    acknowledged = 0
    while acknowledged < len(peers):
        buffers = sum(len(peer.connection._decoder.buffer) for peer in peers)
        assert buffers <= 2 * MIB + 5 * MIB
        home.receive_memory.check()
        for peer in peers:
            acknowledged += len(await peer.replies(2))
    assert home.totals.memory_waits == len(peers)
    await home.supervisor.stop()


async def test_who_does_not_finish_a_frame_is_closed_when_others_have_waited_for_long(store):
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=1, frame_patience_s=0))
    first, second = Peer(home), Peer(home)
    await second.set_up()
    first.feed(block(1, LARGE)[:2000])
    second.feed(block(1, LARGE))
    async with asyncio.timeout(PATIENCE_S):
        while not (replies := await second.replies()):
            pass
    assert replies == [acked(1, NULL, len(LARGE))]
    assert first.closed
    assert home.totals.frames_overdue == 1
    await home.supervisor.stop()


async def test_room_that_is_taken_back_is_not_kept_as_a_buffer(store):
    """Small frames that fill the buffer of a large one are counted until they are taken."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=64 * KIB, receive_bytes_max=600 * KIB))
    large = encode(c.Padding(LARGE))
    keep_alives = encode(c.KeepAlive()) * (450 * KIB // 8)
    peers = [Peer(home) for _ in range(6)]

    def check():
        home.receive_memory.check()
        lent = home.receive_memory.statistics().bytes_lent
        assert lent <= 600 * KIB
        assert sum(len(peer.connection._decoder.buffer) for peer in peers) <= lent + len(peers) * 64 * KIB

    for peer in peers:
        peer.feed(large)  # takes room back from the one before
        await peer.replies()
        peer.feed(keep_alives)  # all in one read, if its frame was taken
        check()
    assert home.receive_memory.statistics().waiting == 5
    peers[0].connection.on_overdue(50)
    assert not peers[0].closed, "it is us who have not taken it yet"
    answered = 0
    async with asyncio.timeout(PATIENCE_S):
        while answered < len(peers) * (450 * KIB // 8):
            for peer in peers:
                answered += len(await peer.replies())
            check()
    assert not any(peer.closed for peer in peers)
    assert home.receive_memory.statistics().waiting == 0
    await home.supervisor.stop()


async def test_room_of_a_frame_that_was_taken_is_free_although_its_client_takes_no_replies(store):
    store.add("s", bytes(3 * MIB))
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=1))
    first, second = Peer(home), Peer(home)
    await first.set_up()
    await second.set_up(OTHER)
    whole = block(1, LARGE)
    first.feed(whole[:-1])
    second.feed(block(1, LARGE, writer=OTHER)[:-1])
    assert second.connection.statistics()["blocked"] == ["memory"]
    first.transport.stuck = True
    first.feed(whole[-1:], c.ReadSegment("s", 0, 2 * MIB, "", 1), c.KeepAlive())
    await first.replies()
    assert first.connection.statistics()["blocked"] == ["outbox"]
    second.feed(block(1, LARGE, writer=OTHER)[-1:])
    assert await second.replies() == [acked(1, NULL, 2 * len(LARGE), writer=OTHER)]
    await home.supervisor.stop()


async def test_who_is_not_read_from_because_of_us_is_not_closed(store):
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, receive_bytes_max=1, frame_patience_s=0))
    first, second = Peer(home), Peer(home)
    await first.set_up()
    await second.set_up(OTHER)
    store.capacity = 0
    first.feed(block(1, LARGE))
    second.feed(block(1, LARGE, writer=OTHER))
    assert await first.replies() == []
    store.give_capacity(10 * MIB)
    assert len(await first.replies()) == 1
    assert len(await second.replies()) == 1
    assert home.totals.frames_overdue == 0
    await home.supervisor.stop()


async def test_a_container_that_stands_does_not_keep_the_room_from_others_for_ever(store):
    config = IngressConfig(
        receive_buffer_bytes=1024,
        receive_bytes_max=1,
        frame_patience_s=0,
        frame_stall_s=0,
        taking_patience_s=0,
        drain_s=0,
    )
    home = FakeHome(store, config)
    first, second = Peer(home), Peer(home)
    await first.set_up()
    await second.set_up(OTHER)
    store.capacity = 0
    first.feed(block(1, LARGE))
    second.feed(block(1, LARGE, writer=OTHER))
    async with asyncio.timeout(PATIENCE_S):
        while not (first.closed and second.connection.statistics()["blocked"] == ["capacity"]):
            await second.replies()
    store.give_capacity(10 * MIB)
    assert len(await second.replies()) == 1
    assert await first.replies() == []
    await home.supervisor.stop()


async def test_many_who_send_most_of_a_frame_do_not_fill_the_memory_nor_keep_others_out():
    store = FakeStore()
    store.add(SEGMENT)
    listener = Listener(
        store,
        IngressConfig(
            drain_s=0.1, receive_buffer_bytes=64 * KIB, receive_bytes_max=2 * MIB, frame_patience_s=0.1
        ),
    )
    port = await listener.start("127.0.0.1", 0)
    stalled = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
    for _, writer in stalled:
        writer.write(block(1, bytes(MIB))[: 900 * KIB])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode(c.SetupAppend(1, OTHER, SEGMENT, "")) + append(1, b"small", writer=OTHER))
    writer.write(block(2, bytes(MIB), writer=OTHER))
    decoder, replies = FrameDecoder.for_client(), []
    async with asyncio.timeout(PATIENCE_S):
        while len(replies) < 3:
            decoder.feed(await reader.read(4096))
            replies += decoder.commands()
            buffers = sum(each["buffer_bytes"] for each in listener.connections)
            assert buffers <= 13 * 64 * KIB + 3 * MIB
    assert replies[1:] == [
        acked(1, NULL, 5, writer=OTHER),
        acked(2, 1, 5 + MIB, writer=OTHER),
    ]
    assert listener.statistics().memory_waits > 0
    assert listener.statistics().frames_overdue > 0
    for _, each in [*stalled, (reader, writer)]:
        each.close()
    await asyncio.wait_for(listener.stop(), PATIENCE_S)
    assert listener.statistics().receive_bytes_lent == 0


async def test_beyond_a_number_connections_have_smaller_buffers():
    store = FakeStore()
    listener = Listener(store, IngressConfig(receive_buffer_bytes=64 * KIB, receive_bytes_max=128 * KIB))
    port = await listener.start("127.0.0.1", 0)
    clients = []
    for _ in range(4):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode(c.Hello(17, 5)))
        await reader.readexactly(16)
        clients.append(writer)
    sizes = [each._buffer_bytes for each in listener._connections]
    assert sizes == [64 * KIB, 64 * KIB, 16 * KIB, 16 * KIB]
    for writer in clients:
        writer.close()
    await asyncio.wait_for(listener.stop(), PATIENCE_S)
