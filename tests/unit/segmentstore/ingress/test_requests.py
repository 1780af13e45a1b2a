"""Everything that is neither append nor read: replies, errors, bounds, order, transients, tokens."""

import asyncio
import dataclasses
import gc
import tracemalloc
import weakref

import pytest

from headrace.errors import (
    AccessDeniedError,
    ContainerOfflineError,
    InvalidArgumentError,
    ThrottledError,
    TokenExpiredError,
    UnsupportedError,
    WalWriteError,
)
from headrace.limits import KIB, MERGE_SOURCES_MAX, MIB, WIRE_FRAME_BYTES_MAX
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.security.permission import Permission
from headrace.segmentstore.ingress import segment_session, transient_segments
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.transient_segments import TransientSegments
from headrace.wire import commands as c
from headrace.wire.catalogue import BY_COMMAND, LAYOUTS, LIVES, TYPE_IDS
from headrace.wire.fields import MergedSegment
from headrace.wire.frames import HEAD, RECEIVE_BUFFER_BYTES, encode
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

ATTRIBUTE = b"attribute-id-016"
OTHER_WRITER = b"other-writer-016"
LARGE = 900_000
KEY = TableKey


async def test_hello_is_answered_and_an_incompatible_client_is_closed_after_it(home):
    peer = Peer(home)
    assert await peer.ask(c.Hello(15, 5)) == [c.Hello(17, 5)]
    assert not peer.closed
    assert await peer.ask(c.Hello(4, 1), c.KeepAlive()) == [c.Hello(17, 5)]
    assert peer.closed


async def test_nothing_is_sent_unasked(peer, store):
    assert await peer.replies(50) == []


async def test_a_client_may_go_on_right_behind_its_hello(peer):
    stream = encode(c.Hello(16, 5)) + encode(c.SetupAppend(1, WRITER, SEGMENT, "")) + append(1)
    assert await peer.ask(stream) == [
        c.Hello(17, 5),
        c.AppendSetup(1, SEGMENT, WRITER, NULL),
        acked(1, NULL, 1),
    ]


async def test_every_keep_alive_is_echoed(peer):
    peer.feed(*[c.KeepAlive()] * 1000)
    assert await peer.replies(50) == [c.KeepAlive()] * 1000


READS = [c.ReadSegment(SEGMENT, 0, 1, "", n) for n in range(5000)]
FLOODS = {
    "keep alive": [c.KeepAlive()] * 5000,
    "reads": READS,
    "appends": [
        append(n, writer=writer, request_id=n) for n in range(1, 2501) for writer in (WRITER, OTHER_WRITER)
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOODS)
async def test_one_client_does_not_have_the_loop_for_itself(home, store, kind):
    store.add(SEGMENT, b"x")
    peer = Peer(home)
    for writer in (WRITER, OTHER_WRITER):
        await peer.set_up(writer)
    answered = len(peer.transport.written)
    asyncio.get_running_loop().call_soon(lambda: seen.append(peer.connection._totals.appends))
    seen = []
    peer.feed(*FLOODS[kind])
    await asyncio.sleep(0)
    replies = await peer.replies(1)
    assert seen[0] <= 128
    assert len(replies) <= 256, "others have had a turn by now"
    assert answered == 0
    for _ in range(10):
        replies += await peer.replies(50)
    if kind == "reads":
        assert [reply.request_id for reply in replies] == list(range(5000))
    elif kind == "appends":
        assert store.segments[SEGMENT].data == b"x" * 5001
    else:
        assert replies == FLOODS[kind]


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [False, True])
async def test_others_have_a_turn_between_thousands_of_tiny_appends_of_one_writer(home, store, sealed):
    """Thousands arrive in one read, and refused ones are answered one by one."""
    peer = Peer(home)
    await peer.set_up()
    large = bytes(2 * MIB)
    assert await peer.ask(append(1, large)) == [acked(1, NULL, len(large))]
    if sealed:
        await store.seal_segment(SEGMENT)
    count, totals = 20_000, home.totals
    peer.feed(b"".join(append(number, b"") for number in range(2, count + 2)))
    most, before = totals.appends - 1, totals.appends
    for _ in range(count):
        peer.push()
        most, before = max(most, totals.appends - before), totals.appends
        if before > count:
            break
        await asyncio.sleep(0)
    assert most <= 2048
    replies = await peer.replies()
    if sealed:
        assert [reply.offset for reply in replies] == list(range(2, count + 2))
    else:
        assert replies[-1].event_number == count + 1
        assert len(replies) < 100


@pytest.mark.parametrize("count", [20, 100])
async def test_what_arrived_before_the_client_said_no_more_is_answered(home, count):
    peer = Peer(home)
    peer.feed(*[c.CreateSegment(n, f"s/{n}", 0, 0, "") for n in range(count)])
    peer.connection.eof_received()
    replies = await peer.replies(2 * count + 20)
    assert replies == [c.SegmentCreated(n, f"s/{n}") for n in range(count)]
    assert peer.closed


async def ask_for_large_values(home, store, count):
    """Return a peer that takes nothing, after all of its requests have waited for the same thing."""
    peer, is_ready = Peer(home), asyncio.Event()
    await peer.ask(c.CreateTableSegment(1, SEGMENT + "t", ""))
    await store.table_update(SEGMENT + "t", [TableEntry(b"key", bytes(LARGE), NO_VERSION)])
    table_get = store.table_get

    async def wait(segment, keys, bytes_max):
        await is_ready.wait()
        return await table_get(segment, keys, bytes_max)

    store.table_get = wait
    peer.transport.stuck = True
    peer.feed(*[c.ReadTable(n, SEGMENT + "t", "", [KEY(b"key", NO_VERSION)]) for n in range(count)])
    assert await peer.replies(2 * count) == []
    assert peer.connection.statistics()["requests_running"] == count
    is_ready.set()
    return peer


@pytest.mark.slow
async def test_large_replies_wait_until_the_client_takes_them(home, store):
    peer = await ask_for_large_values(home, store, 100)
    replies = []
    for _ in range(120):
        replies += await peer.replies(20)
        assert peer.transport.unsent <= 3 * LARGE
        peer.transport.drain()
        peer.transport.stuck = True
    assert sorted(reply.request_id for reply in replies) == list(range(100))
    assert peer.connection.statistics()["requests_running"] == 0


async def test_large_replies_that_wait_end_with_their_connection(home, store):
    peer = await ask_for_large_values(home, store, 100)
    await peer.replies(20)
    assert peer.connection.statistics()["requests_running"] > 90
    peer.transport.abort()
    for _ in range(500):
        await asyncio.sleep(0)
    assert peer.connection.statistics()["requests_running"] == 0


async def test_the_life_of_a_segment(peer, store):
    conversation = [
        (c.CreateSegment(1, "s", 100, 2, "", 4096), c.SegmentCreated(1, "s")),
        (c.CreateSegment(2, "s", 0, 0, "", -5), c.SegmentAlreadyExists(2, "s")),
        (c.GetStreamSegmentInfo(3, "s", ""), c.StreamSegmentInfo(3, "s", True, False, False, 1234, 0, 0)),
        (c.GetStreamSegmentInfo(4, "no", ""), c.NoSuchSegment(4, "no", "", -1)),
        (c.LocateOffset(5, "s", 77, ""), c.OffsetLocated(5, "s", 0)),
        (c.UpdateSegmentPolicy(6, "s", 10, 1, ""), c.SegmentPolicyUpdated(6, "s")),
        (c.GetSegmentAttribute(7, "s", ATTRIBUTE, ""), c.SegmentAttribute(7, NULL)),
        (c.UpdateSegmentAttribute(8, "s", ATTRIBUTE, 5, NULL, ""), c.SegmentAttributeUpdated(8, True)),
        (c.UpdateSegmentAttribute(9, "s", ATTRIBUTE, 6, 7, ""), c.SegmentAttributeUpdated(9, False)),
        (c.GetSegmentAttribute(10, "s", ATTRIBUTE, ""), c.SegmentAttribute(10, 5)),
        (c.TruncateSegment(11, "s", 1, ""), c.SegmentIsTruncated(11, "s", 0, "", 1)),
        (c.TruncateSegment(12, "s", 0, ""), c.SegmentTruncated(12, "s")),
        (c.SealSegment(13, "s", ""), c.SegmentSealed(13, "s")),
        (c.SealSegment(14, "s", ""), c.SegmentIsSealed(14, "s", "", -1)),
        (c.UpdateSegmentPolicy(15, "s", 10, 1, ""), c.SegmentIsSealed(15, "s", "", -1)),
        (c.UpdateSegmentAttribute(16, "s", ATTRIBUTE, 6, 5, ""), c.SegmentIsSealed(16, "s", "", -1)),
        (c.DeleteSegment(17, "s", ""), c.SegmentDeleted(17, "s")),
        (c.DeleteSegment(18, "s", ""), c.NoSuchSegment(18, "s", "", -1)),
        (c.TruncateSegment(19, "s", 5, ""), c.NoSuchSegment(19, "s", "", 5)),
        (c.SealSegment(20, "s", ""), c.NoSuchSegment(20, "s", "", -1)),
    ]
    for request, reply in conversation:
        assert await peer.ask(request) == [reply]
    assert ("create_segment", "s", 2, 100, 4096) in store.calls
    assert ("create_segment", "s", 0, 0, 0) in store.calls
    assert ("update_policy", "s", 1, 10) in store.calls


async def test_merges(peer, store):
    store.add("t", b"target")
    for name in ("a", "b", "d"):
        store.add(name, name.encode() * 3)
    update = AttributeUpdate(ATTRIBUTE, UpdateKind.REPLACE_IF_EQUALS, 4, 3)
    conversation = [
        (c.MergeSegments(1, "t", "a", "", [update]), c.SegmentAttributeUpdated(1, False)),
        (c.MergeSegments(2, "t", "a", ""), c.SegmentsMerged(2, "t", "a", 9)),
        (c.MergeSegments(3, "t", "no", ""), c.NoSuchSegment(3, "no", "", -1)),
        (
            c.MergeSegmentsBatch(4, "t", ["b", "no", "d"], ""),
            c.SegmentsBatchMerged(
                4, "t", [MergedSegment("b", 12), MergedSegment("no", 12), MergedSegment("d", 15)]
            ),
        ),
        (c.MergeSegmentsBatch(5, "no", ["t"], ""), c.NoSuchSegment(5, "no", "", -1)),
    ]
    for request, reply in conversation:
        assert await peer.ask(request) == [reply]
    await store.seal_segment("t")
    store.add("late", b"x")
    assert await peer.ask(c.MergeSegments(6, "t", "late", "")) == [c.SegmentIsSealed(6, "late", "", -1)]
    assert store.segments["t"].data == b"targetaaabbbddd"


async def test_the_life_of_a_table(peer, store):
    put = c.UpdateTableEntries
    conversation = [
        (c.CreateTableSegment(1, "t", "", False, 0, 0), c.SegmentCreated(1, "t")),
        (c.CreateTableSegment(2, "t", ""), c.SegmentAlreadyExists(2, "t")),
        (put(3, "t", "", [TableEntry(b"k1", b"v1", NOT_EXISTS)]), c.TableEntriesUpdated(3, [0])),
        (put(4, "t", "", [TableEntry(b"k1", b"v1", NOT_EXISTS)]), c.TableKeyBadVersion(4, "t", "")),
        (put(5, "t", "", [TableEntry(b"k9", b"v1", 5)]), c.TableKeyDoesNotExist(5, "t", "")),
        (put(6, "t", "", [TableEntry(b"k9", b"v1")], 20), c.SegmentIsTruncated(6, "t", 21, "", 20)),
        (
            put(7, "t", "", [TableEntry(b"k2", b"", NO_VERSION)], 21),
            c.TableEntriesUpdated(7, [21]),
        ),
        (
            c.ReadTable(8, "t", "", [KEY(b"zz"), KEY(b"k1"), KEY(b"zz")]),
            c.TableRead(
                8,
                "t",
                [
                    TableEntry(b"zz", b"", NOT_EXISTS),
                    TableEntry(b"k1", b"v1", 0),
                    TableEntry(b"zz", b"", NOT_EXISTS),
                ],
            ),
        ),
        (c.ReadTableKeys(9, "t", "", 1), c.TableKeysRead(9, "t", [KEY(b"k1", 0)], b"k1")),
        (c.ReadTableKeys(10, "t", "", 1, b"k2"), c.TableKeysRead(10, "t", [], b"")),
        (
            c.ReadTableEntries(11, "t", "", 5, b"k1", b"ignored", b"f", b"t"),
            c.TableEntriesRead(11, "t", [TableEntry(b"k2", b"", 21)], b"k2"),
        ),
        (
            c.ReadTableEntriesDelta(12, "t", "", 5, 10),
            c.TableEntriesDeltaRead(12, "t", [TableEntry(b"k2", b"", 21)], False, True, 40),
        ),
        (c.GetTableSegmentInfo(13, "t", ""), c.TableSegmentInfo(13, "t", 0, 40, 2, 0)),
        (c.DeleteTableSegment(14, "t", True, ""), c.TableSegmentNotEmpty(14, "t", "")),
        (c.RemoveTableKeys(15, "t", "", [KEY(b"k1", 7)]), c.TableKeyBadVersion(15, "t", "")),
        (c.RemoveTableKeys(16, "t", "", [KEY(b"k1"), KEY(b"no")]), c.TableKeysRemoved(16, "t")),
        (c.DeleteTableSegment(17, "t", False, ""), c.SegmentDeleted(17, "t")),
        (c.DeleteTableSegment(18, "t", False, ""), c.NoSuchSegment(18, "t", "", -1)),
        (c.ReadTable(19, "t", "", []), c.NoSuchSegment(19, "t", "", -1)),
        (put(20, "t", "", [], 6), c.NoSuchSegment(20, "t", "", 6)),
    ]
    for request, reply in conversation:
        assert await peer.ask(request) == [reply]
    assert ("table_entries", "t", b"k1", 5, b"f", b"t") in store.calls


@pytest.mark.parametrize("offset", [-2, -100, NULL])
async def test_an_impossible_table_condition_is_refused_and_not_ignored(peer, store, offset):
    await store.create_table("t")
    for request in (
        c.UpdateTableEntries(1, "t", "", [TableEntry(b"k", b"v")], offset),
        c.RemoveTableKeys(1, "t", "", [KEY(b"k")], offset),
    ):
        (reply,) = await peer.ask(request)
        assert reply == c.ErrorMessage(1, "t", reply.message, 0)
    assert store.tables["t"]["entries"] == {}


async def test_requests_of_peers_that_leave_the_end_of_a_command_out_are_understood(peer, store):
    def cut(command, size):
        frame = encode(command)[:-size]
        return frame[:4] + (len(frame) - 8).to_bytes(4, "big") + frame[8:]

    assert await peer.ask(cut(c.CreateSegment(1, "s", 0, 0, ""), 8)) == [c.SegmentCreated(1, "s")]
    assert await peer.ask(cut(c.CreateTableSegment(2, "t", ""), 13)) == [c.SegmentCreated(2, "t")]
    assert await peer.ask(cut(c.ReadTableKeys(3, "t", "", 5), 12)) == [c.TableKeysRead(3, "t", [], b"")]
    assert await peer.ask(cut(c.MergeSegments(4, SEGMENT, "s", ""), 4)) == [
        c.SegmentsMerged(4, SEGMENT, "s", 0)
    ]


async def test_administration_is_not_offered(peer):
    assert await peer.ask(c.FlushToStorage(1, "", 5), c.ListStorageChunks("s", "", 6)) == [
        c.OperationUnsupported(5, "flushToStorage", ""),
        c.OperationUnsupported(6, "listStorageChunks", ""),
    ]
    assert not peer.closed


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (ContainerOfflineError("away"), c.WrongHost(3, SEGMENT, "", "")),
        (UnsupportedError("no"), c.OperationUnsupported(3, "sealSegment", "")),
        (InvalidArgumentError("a\0b\U0001f600"), c.ErrorMessage(3, SEGMENT, "a?b?", 0)),
        (AccessDeniedError("no"), c.AuthTokenCheckFailed(3, "", 0)),
        (TokenExpiredError("no"), c.AuthTokenCheckFailed(3, "", 1)),
    ],
)
async def test_a_refused_request_is_answered_and_the_connection_stays(peer, store, error, reply):
    store.refusal = error
    assert await peer.ask(c.SealSegment(3, SEGMENT, "")) == [reply]
    assert not peer.closed


@pytest.mark.parametrize(
    "error", [WalWriteError("x"), ThrottledError("x"), RuntimeError("bug"), KeyError("bug")]
)
async def test_a_failure_without_a_reply_closes_after_the_replies_that_are_owed(peer, store, error):
    await peer.set_up()
    store.durable_at_once = False
    store.refusal = error
    peer.feed(append(1), c.KeepAlive(), c.SealSegment(3, SEGMENT, ""))
    assert await peer.replies() == [c.KeepAlive()]
    assert not peer.closed
    store.commit()
    assert await peer.replies() == [acked(1, NULL, 1)]
    assert peer.closed


async def test_a_reply_that_fits_no_frame_is_an_error_and_not_silence(peer, store):
    await store.create_table("t")
    store.tables["t"]["entries"] = {b"%d" % n: TableEntry(b"%d" % n, bytes(1_000_000), n) for n in range(20)}
    (reply,) = await peer.ask(c.ReadTable(5, "t", "", [KEY(b"%d" % n) for n in range(20)]))
    assert reply == c.ErrorMessage(5, "t", reply.message, 0)
    assert not peer.closed


# ---------------------------------------------------------------------------------- order and bounds


async def test_requests_start_in_the_order_they_arrive(peer, store):
    await peer.set_up()
    stream = (
        append(1, b"before")
        + encode(c.SealSegment(5, SEGMENT, ""))
        + append(2, b"behind")
        + encode(c.CreateSegment(6, "new", 0, 0, ""))
        + encode(c.SetupAppend(7, OTHER, "new", ""))
        + append(1, b"first", writer=OTHER)
    )
    replies = await peer.ask(stream)
    assert store.segments[SEGMENT].data == b"before"
    assert c.SegmentIsSealed(7, SEGMENT, "", 2) in replies
    assert store.segments["new"].data == b"first"
    assert len(replies) == 6


async def test_a_slow_request_blocks_no_other(peer, store):
    await peer.set_up()
    store.gate = asyncio.Event()
    assert await peer.ask(c.SealSegment(5, SEGMENT, "")) == []
    assert await peer.ask(append(1), c.KeepAlive()) == [c.KeepAlive(), acked(1, NULL, 1)]
    store.gate.set()
    assert await peer.replies() == [c.SegmentSealed(5, SEGMENT)]


async def test_running_requests_are_bounded_and_all_are_answered(store):
    home = FakeHome(store, IngressConfig(requests_max=4))
    peer = Peer(home)
    store.gate = asyncio.Event()
    peer.feed(*[c.GetStreamSegmentInfo(n, SEGMENT, "") for n in range(1000)], chunk=500)
    await peer.replies()
    assert len(home.supervisor.statistics().running) == 4
    assert not peer.transport.reading
    store.gate.set()
    answered = []
    while len(answered) < 1000:
        fresh = await peer.replies(200)
        assert fresh
        answered += fresh
    assert sorted(reply.request_id for reply in answered) == list(range(1000))
    assert peer.transport.reading


def request_bytes(home):
    return home.budget.used(Lane.REQUESTS, Lane.SMALL_REQUESTS)


async def test_bytes_of_running_requests_are_bounded_over_all_connections(store):
    home = FakeHome(store, IngressConfig(connection_bytes_max=300_000))
    await store.create_table("t")
    store.gate = asyncio.Event()
    peers = [Peer(home) for _ in range(5)]
    for number, peer in enumerate(peers):
        peer.feed(c.UpdateTableEntries(number, "t", "", [TableEntry(b"k", bytes(60_000))]))
        await peer.replies()
    assert request_bytes(home) < 300_000 * 3 // 8
    assert home.budget.waiting == 4
    peers[1].connection.connection_lost(None)
    store.gate.set()
    for number, peer in enumerate(peers):
        if number != 1:
            (reply,) = await peer.replies(30)
            assert reply.request_id == number
    assert request_bytes(home) == home.budget.waiting == 0


async def test_small_requests_and_appends_go_on_beside_large_ones_that_stand(store):
    home = FakeHome(store, IngressConfig(connection_bytes_max=4 * MIB, receive_buffer_bytes=64 * KIB))
    await store.create_table("t")
    store.gate = asyncio.Event()
    standing = [Peer(home) for _ in range(10)]
    for number, peer in enumerate(standing):
        peer.feed(c.UpdateTableEntries(number, "t", "", [TableEntry(b"k", bytes(500_000))]))
        await peer.replies()
    assert home.budget.waiting
    gate, store.gate = store.gate, None
    small, large = Peer(home), Peer(home)
    (reply,) = await small.ask(c.GetStreamSegmentInfo(5, SEGMENT, ""))
    assert reply.request_id == 5
    await large.set_up()
    assert await large.ask(block(1, bytes(MIB))) == [acked(1, NULL, MIB)]
    gate.set()
    for number, peer in enumerate(standing):
        (reply,) = await peer.replies(30)
        assert reply.request_id == number
    await home.supervisor.stop()


def _many_keys(request_id):
    keys = [TableKey(bytes([number % 256]), NO_VERSION) for number in range(10_000)]
    return encode(c.RemoveTableKeys(request_id, "t", "", keys))


@pytest.mark.slow
async def test_requests_of_very_many_small_keys_are_bounded_by_what_they_take_in_memory(store):
    """Only their bytes on the wire were counted: 256 MiB of them took 1.9 GiB."""
    bytes_max = 2 * MIB
    home = FakeHome(store, IngressConfig(connection_bytes_max=2 * bytes_max))
    peers = [Peer(home) for _ in range(5)]
    await store.create_table("t")
    frames = [_many_keys(number) for number in range(20)]
    store.gate = asyncio.Event()
    tracemalloc.start()
    for number, frame in enumerate(frames):
        peers[number % len(peers)].feed(frame)
    for peer in peers:
        await peer.replies()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    waiting = sum(peer.connection.statistics()["buffer_bytes"] + len(peer.unfed) for peer in peers)
    assert held - waiting < bytes_max + MIB
    store.gate.set()
    replies = [reply for peer in peers for reply in await peer.replies(300)]
    assert sorted(reply.request_id for reply in replies) == list(range(len(frames)))
    assert request_bytes(home) == 0
    await home.supervisor.stop()


@pytest.mark.slow
async def test_large_frames_of_very_many_keys_take_what_they_decode_to_before_they_are_decoded(store):
    home = FakeHome(store, IngressConfig(connection_bytes_max=8 * MIB, receive_buffer_bytes=16 * KIB))
    await store.create_table("t")
    store.gate = asyncio.Event()
    peers = [Peer(home) for _ in range(5)]
    for number, peer in enumerate(peers):
        peer.feed(_many_keys(number))
        await peer.replies()
        home.budget.check()
    assert request_bytes(home) <= 3 * MIB
    running = [peer.connection.statistics()["requests_running"] for peer in peers]
    assert 1 <= sum(running) < 5
    store.gate.set()
    replies = [reply for peer in peers for reply in await peer.replies(300)]
    assert sorted(reply.request_id for reply in replies) == list(range(5))
    assert request_bytes(home) == 0
    await home.supervisor.stop()


class Others:
    """Somebody who has a lease for ever."""

    def moved_bytes(self, lease):
        return 0

    def on_overdue(self, lease, age_s):
        raise AssertionError("it is not up to a client")


def take_all(home, lane):
    """Let others have all room of a lane; return what gives it back."""
    lease = home.budget.begin(lane, Others(), home.config.connection_bytes_max, lambda: None)
    assert not lease.waits, "one always fits"
    return lambda: home.budget.end(lease)


async def test_a_list_that_cannot_be_is_refused_before_it_waits_for_room(home):
    give_back = take_all(home, Lane.REQUESTS)
    frame = bytearray(_many_keys(1))
    frame[8 + 8 + 3 + 2 : 8 + 8 + 3 + 6] = (1 << 30).to_bytes(4, "big")
    peer = Peer(home)
    assert await peer.ask(bytes(frame)) == []
    assert peer.lost
    give_back()


async def test_a_request_that_waits_is_decoded_when_it_has_room_and_not_before(store, home, monkeypatch):
    type_id = TYPE_IDS[c.UpdateTableEntries]
    layout, decoded = LAYOUTS[type_id], []

    class Counting:
        write = staticmethod(layout.write)
        decoded_bytes = staticmethod(layout.decoded_bytes)

        def read(self, payload):
            decoded.append(len(payload))
            return layout.read(payload)

    monkeypatch.setitem(LAYOUTS, type_id, Counting())
    await store.create_table("t")
    give_back = take_all(home, Lane.SMALL_REQUESTS)
    peers = [Peer(home) for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.feed(c.UpdateTableEntries(number, "t", "", [TableEntry(b"k", bytes(10_000))]))
        assert peer.connection.statistics()["blocked"] == ["admission"]
    assert await peers[0].replies() == []
    assert decoded == []
    give_back()
    for peer in peers:
        assert len(await peer.replies()) == 1
    assert len(decoded) == 3


async def test_connections_lost_while_they_wait_for_admission_are_forgotten(store, home):
    give_back = take_all(home, Lane.SMALL_REQUESTS)
    gone = []
    for _ in range(10):
        peer = Peer(home)
        peer.feed(c.GetStreamSegmentInfo(1, SEGMENT, ""))
        assert peer.connection.statistics()["blocked"] == ["admission"]
        peer.transport.abort()
        await peer.replies()
        gone.append(weakref.ref(peer.connection))
        home.lost.clear()
    del peer
    gc.collect()
    assert not any(reference() for reference in gone)
    assert home.budget.waiting == 0
    give_back()
    assert request_bytes(home) == 0


async def ask_for_large_answers(store, home, count):
    """Return a client that takes no replies but the first, all of 1.2 MB to questions of 200 KB."""
    await store.create_table("t")
    keys = [TableKey(bytes([n]) * 1000, NO_VERSION) for n in range(200)]
    await store.table_update("t", [TableEntry(key.key, bytes(5000), NO_VERSION) for key in keys])
    slow = Peer(home)
    slow.transport.stuck = True
    store.gate = asyncio.Event()
    for request_id in range(count):
        slow.feed(c.ReadTable(request_id, "t", "", keys))
        await slow.replies()
    store.gate.set()
    for _ in range(5):
        await slow.replies()
    store.gate = None
    return slow


async def test_a_client_that_takes_no_replies_does_not_keep_the_requests_of_others_out(store):
    home = FakeHome(store, IngressConfig(connection_bytes_max=8_000_000))
    slow = await ask_for_large_answers(store, home, 6)
    assert request_bytes(home) == 0
    assert slow.connection.statistics()["requests_running"] == 5
    assert home.budget.unsent_bytes > 900_000, "what they ask is counted all the same"
    other = Peer(home)
    entries = [TableEntry(b"k", bytes(900_000), NO_VERSION)]
    (reply,) = await other.ask(c.UpdateTableEntries(5, "t", "", entries))
    assert reply.request_id == 5
    answered = set()
    for _ in range(8):  # it gets them all, when it takes them
        slow.transport.drain()
        slow.transport.stuck = True
        answered.update(reply.request_id for reply in await slow.replies())
    assert answered == {1, 2, 3, 4, 5}
    slow.transport.drain()
    await slow.replies()
    assert request_bytes(home) == home.budget.unsent_bytes == home.budget.objects_bytes == 0
    home.budget.check()
    await home.supervisor.stop()


async def test_what_was_admitted_and_cannot_be_decoded_counts_no_more(home):
    peer = Peer(home)
    peer.feed(HEAD.pack(TYPE_IDS[c.GetStreamSegmentInfo], 5) + bytes(5))
    await peer.replies()
    assert peer.closed
    assert request_bytes(home) == 0


async def test_one_request_larger_than_the_bound_is_still_served(store):
    home = FakeHome(store, IngressConfig(connection_bytes_max=100))
    await store.create_table("t")
    peer = Peer(home)
    entries = [TableEntry(b"k", bytes(60_000))]
    replies = await peer.ask(*[c.UpdateTableEntries(n, "t", "", entries) for n in range(3)])
    assert [reply.request_id for reply in replies] == [0, 1, 2]


async def test_a_disconnected_client_does_not_undo_what_it_asked_for(peer, store):
    store.gate = asyncio.Event()
    peer.feed(c.CreateSegment(1, "s", 0, 0, ""))
    await peer.replies()
    peer.connection.connection_lost(None)
    store.gate.set()
    await peer.replies()
    assert "s" in store.segments


# ---------------------------------------------------------------------------------- transients


async def test_a_large_event_goes_through_a_transient_segment(peer, store):
    (created,) = await peer.ask(c.CreateTransientSegment(1, WRITER, SEGMENT, ""))
    name = created.segment
    assert name.startswith(f"{SEGMENT}#transient.{WRITER.hex()}.")
    assert await peer.set_up(segment=name) == c.AppendSetup(1, name, WRITER, NULL)
    slices = [c.ConditionalBlockEnd(WRITER, n, n * 3, b"abc", 10 + n) for n in range(3)]
    assert [reply.request_id for reply in await peer.ask(*slices)] == [10, 11, 12]
    assert await peer.ask(c.MergeSegments(20, SEGMENT, name, "")) == [c.SegmentsMerged(20, SEGMENT, name, 9)]
    assert peer.connection.transients.count == 0
    assert store.segments[SEGMENT].data == b"abcabcabc"


async def test_transients_are_bounded(store):
    peer = Peer(FakeHome(store, IngressConfig(transients_max=2)))
    requests = [c.CreateTransientSegment(n, WRITER, SEGMENT, "") for n in range(3)]
    replies = await peer.ask(*requests)
    assert [reply.request_id for reply in replies] == [0, 1]
    assert peer.closed


async def test_transients_that_a_batch_merged_count_no_more(store):
    peer = Peer(FakeHome(store, IngressConfig(transients_max=2)))
    for number in range(3):
        requests = [c.CreateTransientSegment(n, WRITER, SEGMENT, "") for n in range(2)]
        names = [reply.segment for reply in await peer.ask(*requests)]
        (merged,) = await peer.ask(c.MergeSegmentsBatch(10 + number, SEGMENT, names, ""))
        assert isinstance(merged, c.SegmentsBatchMerged)
    assert peer.connection.transients.count == 0


async def test_a_batch_whose_answer_fits_no_frame_merges_nothing(home, store):
    """It was merged, and answered with the same refusal. A request has 8 bytes less per source."""
    peer = Peer(home)
    store.add("source", b"x")
    names = ["source", *(f"{number:04}".ljust(16_000, "n") for number in range(1047))]
    fill = WIRE_FRAME_BYTES_MAX - 1000 - len(encode(c.MergeSegmentsBatch(5, SEGMENT, names, "")))
    request = encode(c.MergeSegmentsBatch(5, SEGMENT, [*names, "m" * fill], ""))
    peer.feed(request)
    replies = await peer.replies(200)
    assert [type(reply) for reply in replies] == [c.ErrorMessage]
    assert "source" in store.segments


async def test_a_batch_of_too_many_merges_is_refused_before_its_answer_is_put_together(peer, monkeypatch):
    encoded = []
    monkeypatch.setattr(segment_session, "encode", encoded.append)
    names = [f"n{number}" for number in range(MERGE_SOURCES_MAX + 1)]
    (refusal,) = await peer.ask(c.MergeSegmentsBatch(5, SEGMENT, names, ""))
    assert isinstance(refusal, c.ErrorMessage)
    assert str(MERGE_SOURCES_MAX) in refusal.message
    assert encoded == []


async def test_a_transient_whose_deletion_finds_no_room_is_deleted_later(store, monkeypatch):
    monkeypatch.setattr(transient_segments, "_RETRY_S", 0.0)
    transients = TransientSegments(store, 10)
    names = [await transients.create(SEGMENT, WRITER) for _ in range(2)]
    delete, refused = store.delete_segment, []

    async def refuse_each_once(name):
        if name not in refused:
            refused.append(name)
            raise ThrottledError("too many requests wait")
        await delete(name)

    monkeypatch.setattr(store, "delete_segment", refuse_each_once)
    assert transients.close()
    await transients.delete_all()
    assert refused == names
    assert list(store.segments) == [SEGMENT]


async def test_a_transient_created_while_its_connection_was_lost_is_removed(peer, store):
    store.gate = asyncio.Event()
    peer.feed(c.CreateTransientSegment(1, WRITER, SEGMENT, ""))
    await peer.replies()
    assert peer.connection.transients.close() is False
    store.gate.set()
    await peer.replies()
    assert list(store.segments) == [SEGMENT]


# ---------------------------------------------------------------------------------- tokens


ONLY_READ = {
    c.ReadSegment,
    c.GetStreamSegmentInfo,
    c.LocateOffset,
    c.GetSegmentAttribute,
    c.GetTableSegmentInfo,
    c.ReadTable,
    c.ReadTableKeys,
    c.ReadTableEntries,
    c.ReadTableEntriesDelta,
}


async def test_every_request_about_a_segment_passes_the_hook(store):
    asked = []

    def refuse(token, segment, permission):
        asked.append((token, segment, permission))
        raise TokenExpiredError("expired")

    peer = Peer(FakeHome(store, authorise=refuse))
    await peer.ask(c.Hello(16, 5))
    values = {"delegation_token": "the.token.here", "segment": "s", "request_id": 4, "writer_id": WRITER}
    values |= {
        "parent_segment": "s",
        "target": "s",
        "source": "x",
        "target_segment_id": "s",
        "source_segment_ids": [],
    }
    values |= {"segments": ["a", "b"], "marker": b"", "question": b"{}"}
    values |= {"attribute_id": WRITER, "keys": [], "table_entries": [], "must_be_empty": False}
    checked = 0
    for life in LIVES:
        fields = dataclasses.fields(life.command)
        names = {field.name for field in fields}
        skipped = {c.FlushToStorage, c.ListStorageChunks}
        if not life.is_request or "delegation_token" not in names or life.command in skipped:
            continue
        required = [
            field.name
            for field in fields
            if field.default is field.default_factory is dataclasses.MISSING or field.name == "request_id"
        ]
        command = life.command(**{name: values.get(name, 0) for name in required})
        asked.clear()
        (reply,) = await peer.ask(command)
        assert reply == c.AuthTokenCheckFailed(4, "", 1), life
        expected = Permission.READ if life.command in ONLY_READ else Permission.READ_UPDATE
        name = "*" if issubclass(life.command, c.InternalRequest) else "s"
        assert asked == [("the.token.here", name, expected)]
        checked += 1
    assert checked == 28
    assert not peer.closed
    assert store.calls == []


def test_the_first_reply_of_the_catalogue_is_the_one_for_success():
    assert BY_COMMAND[c.SealSegment].replies[0] is c.SegmentSealed


@pytest.mark.slow
async def test_requests_that_arrive_faster_than_they_are_taken_wait_in_the_socket(peer, store):
    """One is taken in a turn of the loop, and a turn may receive ten thousand."""
    question = encode(c.GetStreamSegmentInfo(1, SEGMENT, ""))
    count = 3 * RECEIVE_BUFFER_BYTES // len(question)
    peer.feed(*[encode(c.GetStreamSegmentInfo(number, SEGMENT, "")) for number in range(count)])
    assert peer.unfed
    assert not peer.transport.reading
    replies, most = [], 0
    while len(replies) < count:
        replies += await peer.replies(turns=200)
        most = max(most, peer.connection.statistics()["buffer_bytes"])
    assert [reply.request_id for reply in replies] == list(range(count))
    assert most <= RECEIVE_BUFFER_BYTES
    assert peer.transport.reading
