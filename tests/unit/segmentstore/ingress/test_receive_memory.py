"""Room for large frames: nobody starves, the sum is bounded, who never finishes does not keep it for ever."""

import asyncio

import pytest

from headrace.limits import KIB, MIB
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.listener import Listener
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

PATIENCE_S = 120
FRAMES_2_MIB = 2 * MIB * 8 // 3  # frames have three eighths of everything


def buffer_bytes(peer):
    return peer.connection.statistics()["buffer_bytes"]


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
    decoder.shrink()
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
                decoder.shrink()
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
    decoder.shrink()
    assert decoder.pending_bytes == 3000
    decoder.check()


# -------------------------------------------------------------------------------------- connections


@pytest.fixture
async def tight(store):
    """A home whose connections have little buffer, and room for one frame of half a mebibyte at a time."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, connection_bytes_max=1600 * KIB))
    yield home
    await home.supervisor.stop()
    home.budget.check()


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
    assert buffer_bytes(second) < 300 * KIB
    assert second.connection.statistics()["blocked"] == ["memory"]
    first.feed(whole[2000:])
    assert await first.replies() == [acked(1, NULL, len(LARGE))]
    assert await second.replies() == [c.KeepAlive(), acked(1, NULL, 2 * len(LARGE), writer=OTHER)]
    assert second.transport.reading
    assert buffer_bytes(first) <= 1024
    assert tight.budget.waits == 1


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
    assert tight.budget.waits == 2
    assert tight.store.segments[SEGMENT].state.durable_length == 11 * len(LARGE)


async def test_a_connection_keeps_its_room_while_nobody_else_wants_it(tight):
    first, second = Peer(tight), Peer(tight)
    await first.set_up()
    await second.set_up(OTHER)
    for number in (1, 2):
        first.feed(block(number, LARGE))
    assert len(await first.replies()) == 2
    assert tight.budget.used(Lane.FRAMES) > len(LARGE)
    assert buffer_bytes(first) > len(LARGE)
    second.feed(block(1, LARGE, writer=OTHER))
    assert len(await second.replies()) == 1
    assert buffer_bytes(first) <= 1024
    assert tight.budget.waits == 0


async def test_a_request_that_waits_is_not_lost_with_the_room_that_its_connection_gives_back(store):
    """It was: the buffer became a small one while the frame of the request was out of it, to be put back."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, connection_bytes_max=1))
    first, second = Peer(home), Peer(home)
    await first.set_up()
    store.gate = asyncio.Event()
    second.feed(c.SealSegment(5, "s", ""))
    assert len(await first.ask(block(1, LARGE))) == 1
    first.feed(c.GetStreamSegmentInfo(6, SEGMENT, ""))
    assert first.connection.statistics()["blocked"] == ["admission"]
    await first.replies()
    assert buffer_bytes(first) <= 1024
    store.gate.set()
    await second.replies()
    (reply,) = await first.replies()
    assert reply.request_id == 6
    await home.supervisor.stop()


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
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, connection_bytes_max=1))
    peers = [Peer(home), Peer(home)]
    for peer in peers:
        await peer.set_up(WRITER if peer is peers[0] else OTHER)
    peers[0].feed(block(1, LARGE))
    peers[1].feed(block(1, LARGE, writer=OTHER))
    assert len(await peers[0].replies()) == 1
    assert len(await peers[1].replies()) == 1
    await home.supervisor.stop()


async def test_an_append_whose_end_is_large_too_does_not_wait_for_itself(store):
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, connection_bytes_max=1))
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


@pytest.mark.slow
async def test_ends_of_append_blocks_do_not_take_room_beyond_the_bound(store):
    """Blocks just above the buffer all find room. Their ends of 4 MiB take it one after the other."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, connection_bytes_max=FRAMES_2_MIB))
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
    assert home.budget.waiting == 0
    for peer in peers:
        peer.push()
    acknowledged = 0
    while acknowledged < len(peers):
        buffers = sum(buffer_bytes(peer) for peer in peers)
        assert buffers <= 2 * MIB + 5 * MIB
        home.budget.check()
        for peer in peers:
            acknowledged += len(await peer.replies(2))
    assert home.budget.waits == len(peers)
    await home.supervisor.stop()


@pytest.mark.slow
async def test_room_that_is_taken_back_is_not_kept_as_a_buffer(store):
    """Of the small frames that follow a large one no more arrive than a usual buffer can have."""
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=64 * KIB, connection_bytes_max=1600 * KIB))
    large = encode(c.Padding(LARGE))
    keep_alives = encode(c.KeepAlive()) * (450 * KIB // 8)
    peers = [Peer(home) for _ in range(4)]

    def check():
        home.budget.check()
        lent = home.budget.used(Lane.FRAMES)
        assert lent <= 600 * KIB
        assert sum(buffer_bytes(peer) for peer in peers) <= lent + len(peers) * 64 * KIB

    for peer in peers:
        peer.feed(large)  # takes room back from the one before
        await peer.replies()
        peer.feed(keep_alives)  # all in one read, if its frame was taken
        check()
    assert home.budget.waits == 0, "what follows a large frame keeps nobody waiting"
    answered = 0
    async with asyncio.timeout(PATIENCE_S):
        while answered < len(peers) * (450 * KIB // 8):
            for peer in peers:
                answered += len(await peer.replies())
            check()
    assert not any(peer.closed for peer in peers)
    assert home.budget.waiting == 0
    await home.supervisor.stop()


async def test_room_of_a_frame_that_was_taken_is_free_although_its_client_takes_no_replies(store):
    store.add("s", bytes(3 * MIB))
    home = FakeHome(store, IngressConfig(receive_buffer_bytes=1024, connection_bytes_max=1))
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


@pytest.mark.real_loop
@pytest.mark.slow
async def test_many_who_send_most_of_a_frame_do_not_fill_the_memory_nor_keep_others_out():
    store = FakeStore()
    store.add(SEGMENT)
    listener = Listener(
        store,
        IngressConfig(
            drain_s=0.1, receive_buffer_bytes=64 * KIB, connection_bytes_max=FRAMES_2_MIB, stall_s=6
        ),
    )
    port = await listener.start("127.0.0.1", 0)
    stalled = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
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
            assert buffers <= 4 * 64 * KIB + 2 * MIB
    assert replies[1:] == [
        acked(1, NULL, 5, writer=OTHER),
        acked(2, 1, 5 + MIB, writer=OTHER),
    ]
    assert listener.statistics().memory_waits > 0
    assert listener.statistics().connections_stalled > 0
    for _, each in [*stalled, (reader, writer)]:
        each.close()
    await asyncio.wait_for(listener.stop(), PATIENCE_S)
    assert listener.statistics().receive_bytes_lent == 0


@pytest.mark.real_loop
async def test_beyond_a_number_connections_have_smaller_buffers():
    store = FakeStore()
    listener = Listener(store, IngressConfig(receive_buffer_bytes=64 * KIB, connection_bytes_max=256 * KIB))
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
