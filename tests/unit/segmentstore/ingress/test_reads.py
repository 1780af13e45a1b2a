"""Reads over one connection: answers, waiting at the tail, slow clients, lost clients."""

import asyncio
import gc
import tracemalloc

import pytest

from headrace.errors import ContainerOfflineError, StorageReadError, StorageReadRefusedError
from headrace.limits import KIB, MIB
from headrace.segmentstore.ingress import charges
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.read_session import read_length
from headrace.wire import commands as c
from headrace.wire.frames import encode
from tests.unit.segmentstore.ingress.world import NULL, SEGMENT, WRITER, FakeHome, Peer, acked, append


def read(offset=0, length=1000, *, segment=SEGMENT, request_id=2):
    return c.ReadSegment(segment, offset, length, "", request_id)


def got(offset, data, *, at_tail=True, end=False, segment=SEGMENT, request_id=2):
    return c.SegmentRead(segment, offset, at_tail, end, data, request_id)


def test_a_read_never_gets_more_than_it_asked_for_nor_more_than_2_mib():
    assert read_length(1) == 1
    assert read_length(7) == 7
    assert read_length(2 * MIB) == 2 * MIB
    assert read_length(8 * MIB) == 2 * MIB
    assert read_length((1 << 31) - 1) == 2 * MIB
    assert read_length(0) == 8
    assert read_length(-5) == 8


async def test_available_bytes_are_answered_at_once_with_the_offset_of_the_question(peer, store):
    store.add("s", b"0123456789")
    assert await peer.ask(read(0, 4, segment="s")) == [got(0, b"0123", at_tail=False, segment="s")]
    assert await peer.ask(read(3, 100, segment="s", request_id=-9)) == [
        got(3, b"3456789", segment="s", request_id=-9)
    ]
    assert store.results_out == 0


async def test_a_large_read_is_written_in_views_and_released(peer, store):
    data = bytes(range(256)) * 16_384
    store.add("s", data)
    (reply,) = await peer.ask(read(5, 10 * MIB, segment="s"))
    assert reply == got(5, data[5 : 5 + 2 * MIB], at_tail=False, segment="s")
    assert peer.connection._outbox.statistics().writes > 50
    assert store.results_out == 0


async def test_a_read_at_the_tail_waits_and_blocks_nothing(peer, store):
    await peer.set_up()
    assert await peer.ask(read(0)) == []
    assert await peer.ask(c.KeepAlive(), c.GetStreamSegmentInfo(8, SEGMENT, "")) == [
        c.KeepAlive(),
        c.StreamSegmentInfo(8, SEGMENT, True, False, False, 1234, 0, 0),
    ]
    replies = await peer.ask(append(1, b"abc"))
    assert replies == [acked(1, NULL, 3), got(0, b"abc")]


async def test_many_reads_of_the_same_offset_with_the_same_id_are_all_answered(peer, store):
    await peer.set_up()
    assert await peer.ask(*[read(0)] * 100, *[read(2)] * 100) == []
    replies = await peer.ask(append(1, b"abc"))
    assert replies[0] == acked(1, NULL, 3)
    assert replies[1:].count(got(0, b"abc")) == 100
    assert replies[1:].count(got(2, b"c")) == 100


async def test_a_seal_ends_waiting_reads_with_the_offset_of_the_question(peer, store):
    store.add("s", b"abc")
    assert await peer.ask(read(3, segment="s")) == []
    assert await peer.ask(c.SealSegment(9, "s", "")) == [
        c.SegmentSealed(9, "s"),
        c.SegmentIsSealed(2, "s", "", 3),
    ]
    assert await peer.ask(read(3, segment="s")) == [got(3, b"", at_tail=False, end=True, segment="s")]
    assert await peer.ask(read(1, segment="s")) == [got(1, b"bc", at_tail=False, segment="s")]


async def test_a_deletion_ends_waiting_reads_with_the_offset_of_the_question(peer, store):
    store.add("s", b"abc")
    await peer.ask(read(3, segment="s"))
    assert await peer.ask(c.DeleteSegment(9, "s", "")) == [
        c.SegmentDeleted(9, "s"),
        c.NoSuchSegment(2, "s", "", 3),
    ]


async def test_refused_reads_name_the_segment_and_the_offset(peer, store):
    store.add("s", b"0123456789").state.start_offset = 4
    await store.seal_segment("s")
    assert await peer.ask(read(3, segment="s")) == [c.SegmentIsTruncated(2, "s", 4, "", 3)]
    assert await peer.ask(read(5, segment="no")) == [c.NoSuchSegment(2, "no", "", 5)]
    for offset in (-1, 11):
        (reply,) = await peer.ask(read(offset, segment="s"))
        assert reply == c.ErrorMessage(2, "s", reply.message, 0)
    store.offline = ContainerOfflineError("away")
    assert await peer.ask(read(5, segment="s")) == [c.WrongHost(2, "s", "", "")]
    assert not peer.closed


async def test_a_read_that_failed_without_a_reply_closes_the_connection(peer, store):
    store.offline = StorageReadError("later")
    assert await peer.ask(read(5)) == []
    assert peer.closed


async def test_a_read_that_the_store_refuses_is_answered_with_the_reason(peer, store):
    store.offline = StorageReadRefusedError("reading x: no permission (403)", reason="no permission")
    (reply,) = await peer.ask(read(5, segment="s"))
    assert reply == c.ErrorMessage(2, "s", "reading x: no permission (403)", -1)
    assert not peer.closed


def lines_of(caplog):
    return [line.getMessage() for line in caplog.records if "cannot be read" in line.getMessage()]


async def test_what_cannot_be_read_is_one_warning_a_minute_for_each_segment_and_reason(peer, store, caplog):
    for number in range(500):
        # The text differs with each attempt, as that of a store does.
        store.offline = StorageReadRefusedError(f"attempt {number}: no", reason=f"reason {number % 2}")
        await peer.ask(read(5, segment="s"), read(5, segment="t"))
    said = lines_of(caplog)
    assert len(said) == 4
    assert said[0] == "segment s cannot be read from long-term storage: attempt 0: no"
    assert {line.levelname for line in caplog.records if "cannot be read" in line.getMessage()} == {"WARNING"}
    await asyncio.sleep(61)
    await peer.ask(read(5, segment="s"))
    (line,) = lines_of(caplog)[4:]
    assert line.endswith("attempt 499: no (and 996 such failures since the last line)")


async def test_a_store_that_does_not_answer_is_a_warning_too(home, store, caplog):
    store.offline = StorageReadError("no answer in 12 s")
    for _ in range(3):
        await Peer(home).ask(read(5))
    assert lines_of(caplog) == [f"segment {SEGMENT} cannot be read from long-term storage: no answer in 12 s"]


async def test_a_waiting_read_that_fails_by_a_mistake_closes_the_connection(peer, store):
    async def read(*_, **__):
        raise ZeroDivisionError

    store.read = read
    peer.feed(c.ReadSegment(SEGMENT, 0, 10, "", 1))
    assert await peer.replies() == []
    assert peer.closed


async def test_waiting_reads_of_a_lost_connection_are_gone_at_once(peer, home, store):
    await peer.ask(*[read(0)] * 50)
    assert len(home.supervisor.statistics().running) == 50
    peer.connection.connection_lost(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert home.supervisor.statistics().running == []


@pytest.mark.slow
async def test_a_waiting_read_does_not_keep_its_token(peer):
    questions = [encode(c.ReadSegment(SEGMENT, 0, 100, "t" * 65_000, n)) for n in range(100)]
    gc.collect()
    tracemalloc.start()
    for question in questions:
        peer.feed(question)
    for _ in range(20):
        await peer.replies()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peer.connection.statistics()["reads_waiting"] == 100
    assert held / 100 < 10 * KIB


async def test_too_many_waiting_reads_close_the_connection(store):
    peer = Peer(FakeHome(store, IngressConfig(waiting_reads_max=5)))
    assert await peer.ask(*[read(0)] * 5) == []
    assert not peer.closed
    assert await peer.ask(read(0)) == []
    assert peer.closed
    await peer.home.supervisor.stop()


async def test_reads_that_wait_are_bounded_over_all_connections_and_few_are_always_allowed(
    store, monkeypatch
):
    monkeypatch.setattr(charges, "SHARE_OF_EACH", 2)
    bytes_max = 20 * charges.READ_BYTES * 8 // 3 - 100  # three eighths of it for such things
    home = FakeHome(store, IngressConfig(waiting_reads_max=50, connection_bytes_max=bytes_max))
    greedy, modest, late = Peer(home), Peer(home), Peer(home)
    assert await modest.ask(read(0)) == []
    assert await greedy.ask(*[read(0)] * 19) == []
    assert home.waiting_reads.total == 20
    assert await modest.ask(read(0)) == []
    assert await late.ask(read(0), read(0)) == []
    assert not greedy.closed
    assert await late.ask(read(0)) == []
    assert late.closed
    assert not modest.closed
    assert await greedy.ask(read(0)) == []
    assert greedy.closed
    for peer in (greedy, late):
        await peer.replies()
    assert home.waiting_reads.total == 2
    assert await modest.ask(*[read(0)] * 10) == []
    assert not modest.closed, "there is room again"
    modest.transport.abort()
    await modest.replies()
    assert home.waiting_reads.total == 0
    await home.supervisor.stop()


@pytest.mark.slow
async def test_no_read_is_taken_from_a_client_that_does_not_take_its_replies(peer, store):
    data = bytes(6 * MIB)
    store.add("s", data)
    peer.transport.stuck = True
    peer.feed(*[read(0, 2 * MIB, segment="s")] * 20, chunk=100)
    for _ in range(10):
        await asyncio.sleep(0)
        peer.push(100)
    assert store.results_out == 1  # pinned until sent
    assert peer.transport.unsent < 3 * MIB
    assert not peer.transport.reading
    assert peer.unfed
    answered = 0
    while answered < 20:
        replies = await peer.replies()
        answered += len(replies)
        assert store.results_out <= 1
        peer.transport.drain()
        peer.transport.stuck = True
    assert answered == 20
    peer.transport.drain()
    assert store.results_out == 0


@pytest.mark.slow
async def test_waiting_reads_hold_no_bytes_for_a_client_that_does_not_take_its_replies(store, home):
    target = store.add("s", bytes(2 * MIB))
    peer = Peer(home)
    offset = 2 * MIB
    assert await peer.ask(*[read(offset, 2 * MIB, segment="s")] * 30) == []
    peer.transport.stuck = True
    target.data += bytes(2 * MIB)
    target.state.accepted_length = target.state.durable_length = 4 * MIB
    store.wake()
    answered = len(await peer.replies())
    assert store.results_out == 1
    assert peer.transport.unsent < 3 * MIB
    fetched = store.results_taken
    while answered < 30:
        peer.transport.drain()
        peer.transport.stuck = True
        answered += len(await peer.replies())
        assert store.results_out <= 1
        assert peer.transport.unsent < 3 * MIB
    assert store.results_taken - fetched <= 30  # one fetch per answer, not one per answer and waiting read
    peer.transport.drain()
    assert store.results_out == 0


async def test_a_read_whose_bytes_are_gone_when_its_turn_comes_keeps_nobody_waiting(peer, store):
    """The segment was deleted meanwhile, and its name used again."""
    targets = [store.add(name, b"") for name in ("s", "t")]
    questions = [read(0, 2 * MIB, segment=name, request_id=n) for n, name in enumerate("sst")]
    assert await peer.ask(*questions) == []
    peer.transport.stuck = True
    for target in targets:
        target.data += bytes(2 * MIB)
        target.state.accepted_length = target.state.durable_length = 2 * MIB
    store.wake()
    assert [reply.request_id for reply in await peer.replies()] == [0]
    again = store.add("s", b"")
    peer.transport.drain()
    assert [reply.request_id for reply in await peer.replies()] == [2]
    assert peer.connection.statistics()["reads_waiting"] == 1
    again.data += b"abc"
    again.state.accepted_length = again.state.durable_length = 3
    store.wake()
    assert await peer.replies() == [got(0, b"abc", segment="s", request_id=1)]
    assert peer.connection.statistics()["reads_waiting"] == store.results_out == 0


def unsent(home):
    return home.budget.unsent_bytes


@pytest.mark.slow
async def test_many_slow_clients_together_hold_little(store):
    """Each is within its own bound; what counts is the sum."""
    home = FakeHome(store, IngressConfig(write_buffer_bytes_max=4 * MIB, connection_bytes_max=27 * MIB))
    store.add("s", bytes(6 * MIB))
    slow = [Peer(home) for _ in range(20)]
    for peer in slow:
        peer.transport.stuck = True
        peer.feed(*[read(0, 2 * MIB, segment="s")] * 3)
        for _ in range(4):
            await asyncio.sleep(0)
            peer.push()
    total = sum(peer.transport.unsent for peer in slow)
    assert 10 * MIB < total < 10 * MIB + 6 * MIB + 20 * 70 * KIB
    assert total - KIB < unsent(home) <= total, "trailers are counted later"
    # Who takes what it is sent is served all the same, in pieces.
    quick = Peer(home)
    assert await quick.ask(read(5, MIB, segment="s")) == [got(5, bytes(64 * KIB), at_tail=False, segment="s")]
    answered = 0
    while answered < 60:
        for peer in slow:
            answered += len(await peer.replies())
            peer.transport.drain()
            peer.transport.stuck = True
    assert answered == 60
    for peer in slow:
        peer.transport.drain()
    assert unsent(home) == 0
    (reply,) = await quick.ask(read(5, MIB, segment="s"))
    assert len(reply.data) == MIB
    await home.supervisor.stop()


async def test_reads_that_waited_are_answered_in_small_pieces_when_too_much_is_unsent(store):
    home = FakeHome(store, IngressConfig(connection_bytes_max=8 * MIB))
    target = store.add("s", b"")
    peers = [Peer(home) for _ in range(20)]
    for peer in peers:
        peer.transport.stuck = True
        assert await peer.ask(read(0, 2 * MIB, segment="s")) == []
    target.data += bytes(2 * MIB)
    target.state.accepted_length = target.state.durable_length = 2 * MIB
    store.wake()
    replies = [(await peer.replies())[0] for peer in peers]
    assert unsent(home) <= 4 * MIB + 2 * MIB + 20 * 70 * KIB
    assert {len(reply.data) for reply in replies} == {2 * MIB, 64 * KIB}
    assert {reply.at_tail for reply in replies if len(reply.data) < 2 * MIB} == {False}
    for peer in peers:
        peer.transport.drain()
    assert store.results_out == 0
    await home.supervisor.stop()


async def test_what_a_lost_client_did_not_take_counts_no_more(store):
    home = FakeHome(store)
    store.add("s", bytes(6 * MIB))
    peer = Peer(home)
    peer.transport.stuck = True
    await peer.ask(read(0, 2 * MIB, segment="s"))
    assert unsent(home) > 2 * MIB
    peer.connection.connection_lost(None)
    assert unsent(home) == 0
    await home.supervisor.stop()


async def test_a_lost_client_gives_its_views_back(peer, store):
    store.add("s", bytes(2 * MIB))
    peer.transport.stuck = True
    await peer.ask(read(0, 2 * MIB, segment="s"))
    assert store.results_out == 1
    peer.connection.connection_lost(None)
    assert store.results_out == 0


async def test_a_read_behind_appends_of_the_same_bytes_sees_what_is_durable(peer, store):
    await peer.set_up(WRITER)
    replies = await peer.ask(encode(read(0)) + append(1, b"abc") + encode(read(0, request_id=3)))
    assert replies[0] == acked(1, NULL, 3)
    assert sorted(replies[1:], key=lambda reply: reply.request_id) == [
        got(0, b"abc"),
        got(0, b"abc", request_id=3),
    ]


async def test_small_answers_to_a_client_that_does_not_take_them_are_bounded_within_one_turn(store, home):
    """Thousands of questions in one buffer, and thousands of waiting reads that one append ends."""
    target = store.add("s", bytes(MIB))
    peer = Peer(home)
    peer.transport.stuck = True
    peer.feed(*[read(0, 32 * KIB, segment="s")] * 300)
    for _ in range(10):
        await asyncio.sleep(0)
        peer.push()
    assert peer.transport.unsent < 3 * MIB // 2
    assert peer.unfed or peer.connection.statistics()["blocked"] == ["outbox"]

    waiting = Peer(home)
    assert await waiting.ask(*[read(MIB, 32 * KIB, segment="s")] * 300) == []
    waiting.transport.stuck = True
    target.data += bytes(32 * KIB)
    target.state.accepted_length = target.state.durable_length = MIB + 32 * KIB
    store.wake()
    for _ in range(10):
        await asyncio.sleep(0)
    assert waiting.transport.unsent < 3 * MIB // 2
    answered = 0
    while answered < 300:
        waiting.transport.drain()
        answered += len(await waiting.replies())
    assert answered == 300
