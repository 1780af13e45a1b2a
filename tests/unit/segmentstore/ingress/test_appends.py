"""Appends over one connection: acknowledgements, refusals, order, capacity, ends."""

import gc
import sys

import pytest

from headrace.errors import (
    ContainerOfflineError,
    ThrottledError,
    TooManyAttributesError,
    WalWriteError,
    WrongHostError,
)
from headrace.segmentstore.ingress import charges
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.wire import commands as c
from headrace.wire.frames import encode
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


async def test_a_writer_is_told_its_durable_event_number(peer, store):
    assert await peer.set_up(request_id=5) == c.AppendSetup(5, SEGMENT, WRITER, NULL)
    state = store.segments[SEGMENT].state
    state.attributes.durable[OTHER] = state.attributes.accepted[OTHER] = 41
    assert await peer.set_up(OTHER) == c.AppendSetup(1, SEGMENT, OTHER, 41)


async def test_a_sealed_segment_sets_writers_up_and_refuses_their_appends(peer, store):
    await store.seal_segment(SEGMENT)
    assert isinstance(await peer.set_up(), c.AppendSetup)
    replies = await peer.ask(append(4, request_id=11), append(5, request_id=12))
    assert replies == [c.SegmentIsSealed(11, SEGMENT, "", 4), c.SegmentIsSealed(12, SEGMENT, "", 5)]
    assert not peer.closed


async def test_a_missing_segment_cannot_be_set_up(peer):
    assert await peer.set_up(segment="no", request_id=3) == c.NoSuchSegment(3, "no", "", -1)
    assert not peer.closed


async def test_an_append_is_acknowledged_once_with_everything_the_client_checks(peer, store):
    await peer.set_up()
    assert await peer.ask(append(2, b"hello", request_id=9)) == [acked(2, NULL, 5, request_id=9)]
    assert await peer.ask(block(5, b"world", request_id=10)) == [acked(5, 2, 10, request_id=10)]
    assert store.segments[SEGMENT].data == b"helloworld"
    assert store.segments[SEGMENT].state.attributes.durable[WRITER] == 5


async def test_ten_thousand_blocks_in_one_stream_cost_few_calls_and_few_acknowledgements(peer, store):
    await peer.set_up()
    stream = b"".join(block(n, b"%06d" % n, request_id=n) for n in range(1, 10_001))
    replies = await peer.ask(stream)
    assert store.segments[SEGMENT].data == b"".join(b"%06d" % n for n in range(1, 10_001))
    assert store.append_calls <= 20
    assert len(replies) <= 20
    previous = NULL
    for reply in replies:
        assert isinstance(reply, c.DataAppended)
        assert reply.previous_event_number == previous
        assert reply.current_segment_write_offset == 6 * reply.event_number
        assert reply.request_id == reply.event_number
        previous = reply.event_number
    assert previous == 10_000
    assert store.reads_ended > 0


async def test_bytes_that_arrive_one_at_a_time_append_the_same(peer, store):
    await peer.set_up()
    stream = b"".join(block(n, b"<%d>" % n) for n in range(1, 40)) + append(40, b"end")
    peer.feed(stream, chunk=1)
    replies = await peer.replies()
    assert replies[-1].event_number == 40
    assert store.segments[SEGMENT].data == b"".join(b"<%d>" % n for n in range(1, 40)) + b"end"


async def test_writers_of_one_connection_do_not_mix(peer, store):
    store.add("b")
    await peer.set_up(WRITER)
    await peer.set_up(OTHER, "b")
    stream = b"".join(block(n, b"a") + block(n, b"b", writer=OTHER) for n in range(1, 101))
    replies = await peer.ask(stream)
    assert store.segments[SEGMENT].data == b"a" * 100
    assert store.segments["b"].data == b"b" * 100
    for writer in (WRITER, OTHER):
        numbers = [r.event_number for r in replies if r.writer_id == writer]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 100


async def test_the_latest_set_up_decides_where_a_writer_writes(peer, store):
    store.add("b")
    await peer.set_up()
    await peer.set_up(segment="b")
    await peer.ask(append(1, b"x"))
    assert store.segments["b"].data == b"x"
    assert store.segments[SEGMENT].data == b""


async def test_a_failed_set_up_elsewhere_does_not_leave_the_writer_on_its_former_segment(peer, store):
    await peer.set_up()
    await peer.set_up(segment="no")
    assert await peer.ask(append(1, b"x")) == []
    assert peer.closed
    assert store.segments[SEGMENT].data == b""


# ---------------------------------------------------------------------------------- refusals in order


async def test_a_refusal_waits_for_the_acknowledgements_before_it(peer, store):
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1), append(2))
    peer.feed(c.ConditionalBlockEnd(WRITER, 3, 99, b"abc", 33))
    peer.feed(append(4, request_id=44))
    assert await peer.replies() == []
    store.commit(1)
    assert await peer.replies() == [acked(2, NULL, 2), c.ConditionalCheckFailed(WRITER, 3, 33)]
    store.commit()
    assert await peer.replies() == [acked(4, 2, 3, request_id=44)]
    assert store.segments[SEGMENT].data == b"xxx"


@pytest.mark.slow
async def test_ten_thousand_refusals_wait_and_come_in_order(peer, store):
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1))
    await store.seal_segment(SEGMENT)
    peer.feed(b"".join(append(n, request_id=n) for n in range(2, 10_002)))
    assert await peer.replies() == []
    store.commit()
    replies = await peer.replies()
    assert replies[0] == acked(1, NULL, 1)
    assert replies[1:] == [c.SegmentIsSealed(n, SEGMENT, "", n) for n in range(2, 10_002)]
    assert not peer.closed


async def test_more_refusals_than_can_be_remembered_close_the_connection(store):
    peer = Peer(FakeHome(store, IngressConfig(waiting_refusals_max=10)))
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1))
    await store.seal_segment(SEGMENT)
    peer.feed(b"".join(append(n, request_id=n) for n in range(2, 30)))
    assert not peer.closed
    store.commit()
    replies = await peer.replies()
    assert len(replies) == 11
    assert peer.closed


async def test_refusals_that_wait_are_bounded_over_all_writers_and_connections(store, monkeypatch):
    """A thousand writers with an append in flight each could have 65,536 of them each."""
    monkeypatch.setattr(charges, "SHARE_OF_EACH", 2)
    home = FakeHome(store, IngressConfig(waiting_refusals_max=5, connection_bytes_max=13_400))
    bound = home.waiting_refusals
    store.durable_at_once = False
    refused = b"".join(encode(c.ConditionalBlockEnd(WRITER, n, 99, b"", n)) for n in (2, 3, 4))
    peers = [Peer(home) for _ in range(4)]
    for index, peer in enumerate(peers):
        for writer in (WRITER, OTHER):
            store.add(segment := f"s/{index}/{writer.hex()}")
            await peer.set_up(writer, segment)
            peer.feed(append(1, writer=writer), refused.replace(WRITER, writer) if index < 2 else b"")
    await peers[0].replies()
    assert [peer.connection.is_closing for peer in peers] == [True, True, False, False]
    assert bound.total == 8, "five of the first one, and three of the second, as long as there is room"
    for peer in peers[2:]:
        peer.feed(refused)
    assert [peer.connection.is_closing for peer in peers] == [True, True, True, True], (
        "two are always allowed"
    )
    assert bound.total == 12
    peers[0].transport.abort()
    await peers[0].replies()
    assert bound.total == 7
    store.commit()
    assert bound.total == 0
    for peer, count in zip(peers[1:], (3, 2, 2), strict=True):
        told = [type(reply) for reply in await peer.replies()]
        assert told.count(c.ConditionalCheckFailed) == count
    await home.supervisor.stop()


@pytest.mark.parametrize(
    ("prepare", "reply"),
    [
        ("delete", c.NoSuchSegment(7, SEGMENT, "", -1)),
        ("seal", c.SegmentIsSealed(7, SEGMENT, "", 1)),
        (WrongHostError(SEGMENT), c.WrongHost(7, SEGMENT, "", "")),
        (ContainerOfflineError("no"), c.WrongHost(7, SEGMENT, "", "")),
    ],
)
async def test_a_refused_append_is_answered_and_the_connection_stays(peer, store, prepare, reply):
    await peer.set_up()
    if prepare == "delete":
        await store.delete_segment(SEGMENT)
    elif prepare == "seal":
        await store.seal_segment(SEGMENT)
    else:
        store.offline = prepare
    for _ in range(2):
        assert await peer.ask(append(1)) == [reply]
    assert await peer.ask(c.KeepAlive()) == [c.KeepAlive()]
    assert not peer.closed


async def test_an_error_without_a_reply_closes_the_connection(peer, store):
    await peer.set_up()
    store.offline = WalWriteError("broken")
    assert await peer.ask(append(1), append(2)) == []
    assert peer.closed
    assert peer.lost


async def test_an_append_for_which_there_is_no_memory_closes_its_connection_with_the_reason(
    peer, store, caplog
):
    caplog.set_level("INFO", "headrace.segmentstore.ingress")
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1))
    store.offline = ThrottledError("there is no memory for a frame of the log now")
    peer.feed(append(2), append(3))
    assert not peer.closed
    store.commit()
    assert await peer.replies() == [acked(1, NULL, 1)]
    assert peer.closed
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "an append failed: there is no memory for a frame of the log now" in caplog.text


# ---------------------------------------------------------------------------------- conditional appends


async def test_conditional_appends_are_acknowledged_one_by_one(peer, store):
    await peer.set_up()
    frames = [c.ConditionalBlockEnd(WRITER, n, n * 3, b"abc", 100 + n) for n in range(5)]
    replies = await peer.ask(*frames)
    assert [r.request_id for r in replies] == [100, 101, 102, 103, 104]
    assert [r.current_segment_write_offset for r in replies] == [3, 6, 9, 12, 15]
    assert [r.previous_event_number for r in replies] == [NULL, 0, 1, 2, 3]


async def test_a_conditional_append_of_an_event_stores_its_header(peer, store):
    await peer.set_up()
    assert await peer.ask(c.ConditionalAppend(WRITER, 1, 0, b"ev", 5)) == [acked(1, NULL, 10, request_id=5)]
    assert store.segments[SEGMENT].data == b"\0\0\0\0\0\0\0\2ev"
    assert await peer.ask(c.ConditionalAppend(WRITER, 2, 10, b"", 6)) == [acked(2, 1, 18, request_id=6)]


async def test_a_failed_condition_leaves_the_writer_usable(peer, store):
    await peer.set_up()
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 1, 5, b"abc", 1)) == [
        c.ConditionalCheckFailed(WRITER, 1, 1)
    ]
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 2, 0, b"abc", 2)) == [acked(2, NULL, 3, request_id=2)]
    # The number of a refused append may come again: it is not stored.
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 3, 0, b"x", 3)) == [
        c.ConditionalCheckFailed(WRITER, 3, 3)
    ]
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 3, 3, b"x", 4)) == [acked(3, 2, 4, request_id=4)]


@pytest.mark.parametrize("offset", [-1, -2, NULL])
async def test_a_negative_expectation_is_a_failed_condition_and_not_none(peer, store, offset):
    await peer.set_up()
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 1, offset, b"abc", 1)) == [
        c.ConditionalCheckFailed(WRITER, 1, 1)
    ]
    assert store.segments[SEGMENT].data == b""


@pytest.mark.parametrize("offset", [77, -1])
async def test_the_end_of_a_segment_takes_precedence_over_the_offset(peer, store, offset):
    await peer.set_up()
    await store.seal_segment(SEGMENT)
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 1, offset, b"abc", 1)) == [
        c.SegmentIsSealed(1, SEGMENT, "", 1)
    ]
    await store.delete_segment(SEGMENT)
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 2, offset, b"abc", 2)) == [
        c.NoSuchSegment(2, SEGMENT, "", -1)
    ]
    assert not peer.closed


@pytest.mark.parametrize("offset", [77, -1])
async def test_a_writer_conflict_takes_precedence_over_the_offset(peer, store, offset):
    await peer.set_up()
    store.segments[SEGMENT].state.attributes.accepted[WRITER] = 9
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 10, offset, b"abc", 1)) == [
        c.InvalidEventNumber(WRITER, 1, "", 10)
    ]
    assert peer.closed


async def test_an_empty_append_is_stored_and_acknowledged(peer, store):
    await peer.set_up()
    assert await peer.ask(append(1, b"")) == [acked(1, NULL, 0)]
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 2, 0, b"", 3)) == [acked(2, 1, 0, request_id=3)]


# ---------------------------------------------------------------------------------- exactly once


async def test_two_connections_of_one_writer_conflict_and_the_loser_learns_where_it_is(home, store):
    first, second = Peer(home), Peer(home)
    await first.set_up()
    await second.set_up()
    await first.ask(append(1, b"a"), append(2, b"b"))
    assert await second.ask(append(1, b"a", request_id=3)) == [c.InvalidEventNumber(WRITER, 3, "", 1)]
    assert second.closed
    third = Peer(home)
    assert (await third.set_up()).last_event_number == 2
    assert await third.ask(append(3, b"c")) == [acked(3, 2, 3)]
    assert store.segments[SEGMENT].data == b"abc"


async def test_an_append_that_is_refused_for_good_is_never_covered_by_a_later_acknowledgement(peer, store):
    await peer.set_up()
    store.offline = TooManyAttributesError(SEGMENT, 4)
    replies = await peer.ask(append(1, request_id=8), append(2, request_id=9))
    assert [type(reply) for reply in replies] == [c.ErrorMessage]
    assert "holds 4 attributes" in replies[0].message
    assert peer.closed
    assert not store.segments[SEGMENT].data


async def test_a_writer_that_a_segment_has_no_room_for_is_refused_before_it_sends_anything(peer, store):
    """Neither it nor its neighbours lose their connection, so it waits longer and longer, as clients do."""
    await peer.set_up(OTHER)
    store.writers_refused = TooManyAttributesError(SEGMENT, 4)
    reply = await peer.set_up(request_id=4)
    assert isinstance(reply, c.ErrorMessage)
    assert reply.request_id == 4
    assert await peer.ask(append(1, b"x", writer=OTHER)) == [acked(1, NULL, 1, writer=OTHER)]
    assert not peer.closed


async def test_a_conflict_is_told_after_the_acknowledgements_before_it(home, store):
    store.durable_at_once = False
    peer = Peer(home)
    await peer.set_up()
    peer.feed(append(1))
    store.segments[SEGMENT].state.attributes.accepted[WRITER] = 50
    peer.feed(append(2, request_id=8), append(3, request_id=9))
    assert await peer.replies() == []
    assert not peer.closed
    assert not peer.transport.reading
    store.commit()
    assert await peer.replies() == [acked(1, NULL, 1), c.InvalidEventNumber(WRITER, 8, "", 2)]
    assert peer.closed


@pytest.mark.parametrize("conditional", [False, True])
async def test_a_repeated_number_is_not_stored_twice_and_ends_the_connection(peer, store, conditional):
    await peer.set_up()
    await peer.ask(append(1, b"a"), append(2, b"b"))
    again = c.ConditionalBlockEnd(WRITER, 2, 2, b"b", 6) if conditional else append(2, b"b", request_id=6)
    assert await peer.ask(again) == [c.InvalidEventNumber(WRITER, 6, "", 2)]
    assert peer.closed
    assert store.segments[SEGMENT].data == b"ab"


async def test_numbers_up_to_what_set_up_told_are_not_stored_again(peer, store):
    state = store.segments[SEGMENT].state
    state.attributes.durable[WRITER] = state.attributes.accepted[WRITER] = 10
    assert (await peer.set_up()).last_event_number == 10
    assert await peer.ask(append(7, b"old", request_id=6)) == [c.InvalidEventNumber(WRITER, 6, "", 7)]
    assert peer.closed
    assert store.segments[SEGMENT].data == b""


async def test_a_second_set_up_is_answered_behind_the_acknowledgements(peer, store):
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1), append(3))
    peer.feed(c.SetupAppend(9, WRITER, SEGMENT, ""))
    peer.feed(append(4, request_id=40))
    assert await peer.replies() == []
    store.commit()
    assert await peer.replies() == [
        acked(3, NULL, 2),
        c.AppendSetup(9, SEGMENT, WRITER, 3),
        acked(4, 3, 3, request_id=40),
    ]


async def test_event_numbers_start_over_with_a_set_up(peer, store):
    await peer.set_up()
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 50, 99, b"x", 1)) == [
        c.ConditionalCheckFailed(WRITER, 50, 1)
    ]
    await peer.set_up()
    assert await peer.ask(append(1)) == [acked(1, NULL, 1)]


# ---------------------------------------------------------------------------------- violations

VIOLATIONS = {
    "no set-up": append(1, writer=OTHER),
    "no set-up, block": block(1, writer=OTHER),
    "no set-up, conditional": encode(c.ConditionalBlockEnd(OTHER, 1, 0, b"x", 1)),
    "no events": append(6, events=0),
    "negative events": append(6, events=-5),
    "number goes back": append(4),
    "negative number": append(-1),
    "number goes back, conditional": encode(c.ConditionalBlockEnd(WRITER, 4, 0, b"x", 1)),
    "block without end": encode(c.AppendBlock(WRITER, b"x")) + encode(c.KeepAlive()),
    "block after block": encode(c.AppendBlock(WRITER, b"x")) * 2,
    "block before set-up": encode(c.AppendBlock(WRITER, b"x"))
    + encode(c.SetupAppend(1, WRITER, SEGMENT, "")),
    "end of another writer": encode(c.AppendBlock(WRITER, b"x")) + append(6, b"", writer=OTHER),
    "partial event outside": encode(c.PartialEvent(b"x")),
    "unknown command": b"\0\0\x30\x39\0\0\0\0",
    "reply": encode(c.SegmentSealed(1, "s")),
    "hostile length": b"\0\0\0\x03\x7f\xff\xff\xff",
    "negative length": b"\0\0\0\x03\xff\xff\xff\xff",
    "short payload": b"\0\0\0\x01\0\0\0\x03abc",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLATIONS)
@pytest.mark.parametrize("chunk", [1 << 30, 1])
async def test_a_violation_closes_without_a_reply_but_after_those_that_are_owed(peer, store, name, chunk):
    await peer.set_up()
    peer.feed(append(5, b"good"), encode(c.KeepAlive()), VIOLATIONS[name], append(7, b"bad"), chunk=chunk)
    replies = await peer.replies()
    assert sorted(replies, key=repr) == [acked(5, NULL, 4), c.KeepAlive()]
    assert peer.closed
    assert peer.lost
    assert store.segments[SEGMENT].data == b"good"
    assert peer.home.totals.violations == 1


async def test_padding_outside_of_a_block_is_ignored(peer):
    await peer.set_up()
    assert await peer.ask(c.Padding(bytes(30)), append(1), c.Padding(b"")) == [acked(1, NULL, 1)]
    assert not peer.closed


# ---------------------------------------------------------------------------------- capacity


async def test_without_room_nothing_is_parsed_and_nothing_is_lost(peer, store):
    await peer.set_up()
    store.capacity = 10
    stream = b"".join(append(n, b"%05d" % n) for n in range(1, 6))
    peer.feed(stream + encode(c.KeepAlive()), chunk=60)
    await peer.replies()
    assert not peer.transport.reading
    stored = len(store.segments[SEGMENT].data)
    assert stored <= 10
    assert len(store.capacity_waiters) == 1
    store.give_capacity(5)
    await peer.replies()
    assert not peer.transport.reading
    store.give_capacity(10_000)
    replies = await peer.replies()
    assert peer.transport.reading
    assert c.KeepAlive() in replies
    acknowledged = [reply for reply in replies if isinstance(reply, c.DataAppended)]
    assert acknowledged[-1].event_number == 5
    assert store.segments[SEGMENT].data == b"".join(b"%05d" % n for n in range(1, 6))


async def test_conditional_appends_wait_for_room_too(peer, store):
    await peer.set_up()
    store.capacity = 0
    assert await peer.ask(c.ConditionalBlockEnd(WRITER, 1, 0, b"abc", 2), append(2, b"d")) == []
    assert not peer.transport.reading
    store.give_capacity(100)
    assert await peer.replies() == [acked(1, NULL, 3, request_id=2), acked(2, 1, 4)]
    assert peer.transport.reading


async def test_a_connection_lost_while_it_waits_for_room_appends_nothing_later(peer, store):
    await peer.set_up()
    store.capacity = 0
    await peer.ask(append(1, b"abc"))
    peer.connection.connection_lost(None)
    store.give_capacity(100)
    await peer.replies()
    assert store.segments[SEGMENT].data == b""


# ---------------------------------------------------------------------------------- ends


async def test_a_failed_container_closes_the_connections_that_have_appends_in_flight(home, store):
    store.durable_at_once = False
    busy, idle = Peer(home), Peer(home)
    await busy.set_up()
    await idle.set_up(OTHER)
    busy.feed(append(1), c.ConditionalBlockEnd(WRITER, 2, 99, b"", 1))
    store.fail(WalWriteError("disk"))
    assert await busy.replies() == []
    assert busy.closed
    assert busy.lost
    assert not idle.closed


async def test_appends_accepted_before_a_disconnect_become_durable_and_are_answered_to_nobody(peer, store):
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1, b"abc"))
    peer.connection.connection_lost(None)
    store.commit()
    await peer.replies()
    assert store.segments[SEGMENT].state.attributes.durable[WRITER] == 1
    assert store.segments[SEGMENT].state.durable_length == 3


async def test_a_violation_waits_for_acknowledgements_in_flight(peer, store):
    store.durable_at_once = False
    await peer.set_up()
    peer.feed(append(1), b"\xff" * 8)
    assert await peer.replies() == []
    assert not peer.closed
    assert not peer.transport.reading
    store.commit()
    assert await peer.replies() == [acked(1, NULL, 1)]
    assert peer.closed


async def test_an_append_larger_than_the_buffer_is_stored_whole(peer, store):
    await peer.set_up()
    data = bytes(range(256)) * 4096 * 4
    peer.feed(block(1, data, request_id=5), append(2, b"tail"), chunk=70_000)
    replies = await peer.replies()
    assert replies[-1].current_segment_write_offset == len(data) + 4
    assert store.segments[SEGMENT].data == data + b"tail"


@pytest.mark.slow
async def test_an_append_that_arrives_in_two_parts_with_a_read_between_is_stored_whole(peer, store):
    await peer.set_up()
    frames = block(1, b"part") + block(2, b"next")
    for cut in range(1, len(frames)):
        other = Peer(peer.home)
        store.add(f"cut{cut}")
        await other.set_up(segment=f"cut{cut}")
        other.feed(frames[:cut])
        await other.replies(2)
        other.feed(frames[cut:])
        await other.replies(2)
        assert store.segments[f"cut{cut}"].data == b"partnext"


async def test_no_acknowledgement_covers_appends_on_both_sides_of_a_refusal(peer, store):
    store.durable_at_once = False
    await peer.set_up()
    stream = (
        append(1)
        + encode(c.ConditionalBlockEnd(WRITER, 2, 99, b"no", 20))
        + append(3)
        + append(4, request_id=40)
    )
    peer.feed(stream)  # one read
    store.commit()
    assert await peer.replies() == [
        acked(1, NULL, 1),
        c.ConditionalCheckFailed(WRITER, 2, 20),
        acked(4, 1, 3, request_id=40),
    ]


async def test_what_a_lost_client_sent_is_freed_at_once_and_not_when_the_collector_comes(peer, store):
    await peer.set_up()
    half = block(1, b"x" * 500_000)[:-100]
    peer.feed(half)
    received = peer.connection.get_buffer(-1).obj
    assert len(received) >= len(half)
    gc.disable()
    try:
        peer.transport.abort()
        await peer.replies()
        assert peer.lost
        assert sys.getrefcount(received) == 2, "nobody refers to it but this test"
    finally:
        gc.enable()
    assert peer.connection.statistics()["buffer_bytes"] <= 64
    assert store.segments[SEGMENT].data == b""


async def test_writers_are_bounded_over_all_connections_and_few_are_always_allowed(store, monkeypatch):
    monkeypatch.setattr(charges, "SHARE_OF_EACH", 2)
    home = FakeHome(store, IngressConfig(connection_bytes_max=9 * charges.WRITER_BYTES * 8 // 3 + 100))
    greedy, modest = Peer(home), Peer(home)
    names = [bytes(15) + bytes([n]) for n in range(100, 120)]
    for name in names[:10]:
        assert type(await greedy.set_up(name)) is c.AppendSetup
    for name in (names[0], names[10], names[0]):
        assert type(await modest.set_up(name)) is c.AppendSetup, "once more is no further one"
    assert type(await greedy.set_up(names[0])) is c.AppendSetup
    assert home.writers.total == 12
    (refused,) = await modest.ask(c.SetupAppend(9, names[12], SEGMENT, ""))
    assert refused == c.ErrorMessage(9, SEGMENT, refused.message, -1)
    assert await modest.ask(append(1, b"abc", writer=names[10])) == [acked(1, NULL, 3, writer=names[10])]
    assert await modest.ask(append(1, writer=names[12])) == [], "as any writer that was not set up"
    assert modest.closed
    assert not greedy.closed
    await modest.replies()
    assert home.writers.total == 10
    assert home.totals.writers_refused == 1
    assert store.segments[SEGMENT].users == 10
    (reply,) = await greedy.ask(c.SetupAppend(9, names[3], "sc/st/77.#epoch.0", ""))
    assert type(reply) is c.NoSuchSegment
    assert home.writers.total == 9
    greedy.transport.abort()
    await greedy.replies()
    assert home.writers.total == 0
    await home.supervisor.stop()


async def test_a_writer_too_many_of_a_connection_is_refused_and_the_others_go_on(store):
    writers_max = 300
    home = FakeHome(store, IngressConfig(writers_max=writers_max))
    peer = Peer(home)
    writers = [n.to_bytes(16, "big") for n in range(1, writers_max + 2)]
    setups = b"".join(encode(c.SetupAppend(n, writer, SEGMENT, "")) for n, writer in enumerate(writers))
    peer.feed(setups)
    replies = await peer.replies(100)
    assert len(replies) == writers_max + 1
    assert replies[-1] == c.ErrorMessage(writers_max, SEGMENT, replies[-1].message, -1)
    assert await peer.ask(append(1, b"abc", writer=writers[0])) == [acked(1, NULL, 3, writer=writers[0])]
    (reply,) = await peer.ask(c.SetupAppend(5, writers[1], SEGMENT, ""))
    assert type(reply) is c.AppendSetup, "one that is there is no further one"
