"""Connections whose requests need tokens: who is refused, and what ends when a token does."""

import asyncio

import pytest

from headrace.security.permission import Permission
from headrace.security.token_checker import TokenChecker
from headrace.security.tokens import TokenKey, issue, stream_claim
from headrace.testing.clock import WALL_START_MS, SimulatedClock
from headrace.wire import commands as c
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.world import NULL, OTHER, SEGMENT, WRITER, FakeHome, Peer, acked, append

KEY = TokenKey(b"k" * 64)
READ, UPDATE = Permission.READ, Permission.READ_UPDATE
OF_ANOTHER = "sc/st2/0.#epoch.0"
TRANSIENT = f"{SEGMENT}#transient.{WRITER.hex()}.0"

LIFETIME_S, LEEWAY_S = 600, 60
EXPIRED, REFUSED = 1, 0


@pytest.fixture
async def clock():
    return SimulatedClock(asyncio.get_running_loop().time)


@pytest.fixture
async def token(clock):
    """Makes fresh tokens."""

    def make(permission=UPDATE, stream="st", key=KEY):
        return issue(key, {stream_claim("sc", stream): permission}, clock.now_ms() // 1000, LIFETIME_S)

    return make


@pytest.fixture
async def home(store, clock):
    store.add(OF_ANOTHER)
    home = FakeHome(store, authorise=TokenChecker(KEY, clock, LEEWAY_S).authorise)
    yield home
    await home.supervisor.stop()


def refused(request_id, code=REFUSED):
    return c.AuthTokenCheckFailed(request_id, "", code)


async def pass_time(seconds):
    await asyncio.sleep(seconds)


def begin(token, writer=WRITER, segment=SEGMENT, request_id=1):
    return c.SetupAppend(request_id, writer, segment, token)


def ask_at_tail(token, request_id=9, segment=SEGMENT, offset=0):
    return c.ReadSegment(segment, offset, 100, token, request_id)


# ------------------------------------------------------------------------------------------ who is refused


async def test_a_writer_and_a_reader_with_their_tokens_are_served(peer, token):
    assert await peer.ask(begin(token())) == [c.AppendSetup(1, SEGMENT, WRITER, NULL)]
    assert await peer.ask(append(1)) == [acked(1, NULL, 1)]
    (reply,) = await peer.ask(c.ReadSegment(SEGMENT, 0, 100, token(READ), 2))
    assert bytes(reply.data) == b"x"


@pytest.mark.parametrize("stream", ["st2", "s", "_RGst"])
async def test_the_token_of_another_stream_is_refused(peer, token, stream):
    wrong = token(stream=stream)
    assert await peer.ask(begin(wrong)) == [refused(1)]
    assert await peer.ask(c.ReadSegment(SEGMENT, 0, 100, wrong, 2)) == [refused(2)]
    assert await peer.ask(c.GetStreamSegmentInfo(3, SEGMENT, wrong)) == [refused(3)]
    assert not peer.closed


async def test_a_token_of_another_key_or_none_is_refused(peer, token):
    for wrong in ("", "a.b.c", token(key=TokenKey(b"l" * 64))):
        assert await peer.ask(begin(wrong)) == [refused(1)]
        assert await peer.ask(ask_at_tail(wrong)) == [refused(9)]
        assert await peer.ask(c.SealSegment(3, SEGMENT, wrong)) == [refused(3)]


async def test_a_token_to_read_allows_no_change(peer, token, store):
    only_read = token(READ)
    changes = [
        begin(only_read),
        c.CreateSegment(1, "sc/st/1.#epoch.1", 0, 0, only_read),
        c.CreateTransientSegment(1, WRITER, SEGMENT, only_read),
        c.SealSegment(1, SEGMENT, only_read),
        c.TruncateSegment(1, SEGMENT, 0, only_read),
        c.DeleteSegment(1, SEGMENT, only_read),
        c.UpdateSegmentPolicy(1, SEGMENT, 0, 0, only_read),
        c.MergeSegments(1, SEGMENT, TRANSIENT, only_read),
        c.MergeSegmentsBatch(1, SEGMENT, [TRANSIENT], only_read),
        c.UpdateSegmentAttribute(1, SEGMENT, WRITER, 1, NULL, only_read),
        c.CreateTableSegment(1, SEGMENT, only_read),
        c.DeleteTableSegment(1, SEGMENT, False, only_read),
        c.UpdateTableEntries(1, SEGMENT, only_read, []),
        c.RemoveTableKeys(1, SEGMENT, only_read, []),
    ]
    for change in changes:
        assert await peer.ask(change) == [refused(1)], change
    assert store.calls == []
    (info,) = await peer.ask(c.GetStreamSegmentInfo(2, SEGMENT, only_read))
    assert info.exists
    assert await peer.ask(c.GetSegmentAttribute(3, SEGMENT, WRITER, only_read)) == [
        c.SegmentAttribute(3, NULL)
    ]


async def test_a_merge_takes_no_bytes_from_another_stream(peer, token, store):
    mine = token()
    for merge in (
        c.MergeSegments(1, SEGMENT, OF_ANOTHER, mine),
        c.MergeSegments(1, OF_ANOTHER, SEGMENT, mine),
        c.MergeSegmentsBatch(1, SEGMENT, [TRANSIENT, OF_ANOTHER], mine),
        c.MergeSegmentsBatch(1, OF_ANOTHER, [TRANSIENT], mine),
    ):
        assert await peer.ask(merge) == [refused(1)], merge
    assert store.calls == []


async def test_a_large_event_needs_the_token_of_its_stream_only(peer, token):
    mine = token()
    (created,) = await peer.ask(c.CreateTransientSegment(1, WRITER, SEGMENT, mine))
    (ready,) = await peer.ask(begin(mine, OTHER, created.segment, 2))
    assert isinstance(ready, c.AppendSetup)
    await peer.ask(c.SealSegment(3, created.segment, mine))
    (merged,) = await peer.ask(c.MergeSegments(4, SEGMENT, created.segment, mine))
    assert isinstance(merged, c.SegmentsMerged)


# ------------------------------------------------------------------------------------------ what ends


async def test_an_expired_token_is_refused_as_such(peer, token):
    old = token()
    await pass_time(LIFETIME_S + LEEWAY_S)
    assert await peer.ask(begin(old)) == [refused(1, EXPIRED)]
    assert await peer.ask(ask_at_tail(old)) == [refused(9, EXPIRED)]
    assert await peer.ask(c.SealSegment(3, SEGMENT, old)) == [refused(3, EXPIRED)]
    assert await peer.ask(begin(token())) == [c.AppendSetup(1, SEGMENT, WRITER, NULL)]


@pytest.mark.parametrize("off_s", [-60, 60])
async def test_a_clock_that_is_a_minute_off_ends_no_valid_token(peer, clock, token, off_s):
    made = token()
    clock.skew_ms = off_s * 1000
    assert await peer.ask(begin(made)) == [c.AppendSetup(1, SEGMENT, WRITER, NULL)]
    await pass_time(LIFETIME_S - 1)
    assert await peer.ask(append(1)) == [acked(1, NULL, 1)]
    assert not peer.closed


async def test_the_connection_of_a_writer_ends_with_its_token(peer, token):
    await peer.ask(begin(token()))
    await pass_time(LIFETIME_S + LEEWAY_S - 2)
    assert await peer.ask(append(1)) == [acked(1, NULL, 1)]
    await pass_time(3)
    assert await peer.replies() == []
    assert peer.lost


async def test_what_was_accepted_before_is_acknowledged(token, clock):
    store = FakeStore(durable_at_once=False)
    store.add(SEGMENT)
    peer = Peer(FakeHome(store, authorise=TokenChecker(KEY, clock, LEEWAY_S).authorise))
    await peer.ask(begin(token()))
    await pass_time(LIFETIME_S + LEEWAY_S - 1)
    peer.feed(append(1), append(2))
    await pass_time(2)
    assert not peer.lost
    store.commit()
    assert [reply.event_number for reply in await peer.replies()] == [2]
    await pass_time(1)
    assert peer.lost


async def test_a_fresh_token_extends(peer, token):
    await peer.ask(begin(token()))
    for number in range(5):
        await pass_time(LIFETIME_S)
        assert await peer.ask(begin(token(), request_id=number)) != []
        assert not peer.closed
    await pass_time(LIFETIME_S + LEEWAY_S + 1)
    await peer.replies()
    assert peer.lost


async def test_the_first_of_several_tokens_to_expire_ends_the_connection(peer, token):
    first = token()
    await pass_time(100)
    await peer.ask(begin(token(), WRITER), begin(first, OTHER))
    await pass_time(LIFETIME_S + LEEWAY_S - 99)
    await peer.replies()
    assert peer.lost


async def test_a_writer_that_was_refused_ends_nothing(peer, token):
    await peer.ask(begin(token(), WRITER, "sc/st/9.#epoch.0"))
    await peer.ask(begin(token(READ)))
    await pass_time(2 * LIFETIME_S)
    await peer.replies()
    assert not peer.closed


async def test_a_stale_token_does_not_shorten_what_a_writer_has(peer, token):
    stale = token()
    await pass_time(LIFETIME_S + LEEWAY_S)
    await peer.ask(begin(token()))
    assert await peer.ask(begin(stale, request_id=2)) == [refused(2, EXPIRED)]
    assert await peer.ask(append(1)) == [acked(1, NULL, 1)]
    await pass_time(LIFETIME_S)
    assert not peer.closed


async def test_a_token_without_expiry_never_ends(peer):
    own = issue(KEY, {"*": UPDATE}, WALL_START_MS // 1000, None)
    await peer.ask(begin(own), ask_at_tail(own))
    await pass_time(100_000)
    assert [type(reply) for reply in await peer.ask(append(1))] == [c.DataAppended, c.SegmentRead]


async def test_a_read_at_the_tail_is_refused_when_its_token_ends(peer, token):
    """Its connection stays: others read there, with tokens of their own."""
    await peer.ask(ask_at_tail(token(READ), 1))
    await pass_time(300)
    await peer.ask(ask_at_tail(token(READ), 2), ask_at_tail(token(READ, "st2"), 3, OF_ANOTHER))
    await pass_time(LIFETIME_S + LEEWAY_S - 299)
    assert await peer.replies() == [refused(1, EXPIRED)]
    assert peer.connection.statistics()["reads_waiting"] == 2
    await pass_time(300)
    assert await peer.replies() == [refused(2, EXPIRED), refused(3, EXPIRED)]
    assert peer.connection.statistics()["reads_waiting"] == 0
    assert not peer.closed


async def test_a_read_that_was_answered_in_time_is_not_refused_later(peer, token, store):
    await peer.ask(ask_at_tail(token(READ), 1))
    await peer.ask(begin(token()), append(1))
    await pass_time(LIFETIME_S)
    await peer.ask(begin(token()))
    await pass_time(LEEWAY_S + 1)
    assert refused(1, EXPIRED) not in await peer.replies()
    assert not peer.closed


async def test_a_read_from_storage_is_answered_although_its_token_ends(peer, token, store):
    store.add(SEGMENT, b"stored")
    store.cold.add(SEGMENT)
    await peer.ask(ask_at_tail(token(READ)))
    await pass_time(LIFETIME_S + LEEWAY_S + 1)
    assert await peer.replies() == []
    store.storage.set()
    (reply,) = await peer.replies()
    assert bytes(reply.data) == b"stored"


@pytest.mark.slow
async def test_very_many_reads_are_refused_bit_by_bit(peer, token):
    mine = token(READ)
    for first in range(0, 3000, 50):
        await peer.ask(*(ask_at_tail(mine, first + number) for number in range(50)))
    await pass_time(LIFETIME_S + LEEWAY_S + 1)
    assert sorted(reply.request_id for reply in await peer.replies(100)) == list(range(3000))


async def test_a_lost_connection_leaves_no_timer(peer, token):
    await peer.ask(begin(token()), ask_at_tail(token(READ)))
    peer.connection.connection_lost(None)
    await pass_time(2 * LIFETIME_S)
    assert await peer.replies() == []
