"""Clients that keep memory from others: they are closed in time, nobody else is, and nobody starves."""

import asyncio
import functools

import pytest

from headrace.limits import KIB, MIB
from headrace.model.tables import NO_VERSION, TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.testing.loop import SimulatedLoop
from headrace.wire import commands as c
from headrace.wire.frames import encode
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.test_requests import ask_for_large_answers
from tests.unit.segmentstore.ingress.world import (
    NULL,
    OTHER,
    SEGMENT,
    FakeHome,
    Peer,
    acked,
    block,
)

STALL_S = 30.0
STEP_S = 10
LARGE = bytes(500 * KIB)


def simulated(test):
    """Run a test on virtual time."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        loop = SimulatedLoop(SeededEntropy(test.__name__), limit_s=100_000)
        loop.run_until_complete(test(*args, **kwargs))
        assert not loop.failures

    return run


def open_home(**config):
    """Return a home in which one large frame has room, and no other beside it."""
    store = FakeStore()
    store.add(SEGMENT)
    config = {"receive_buffer_bytes": 16 * KIB, "connection_bytes_max": 16, "stall_s": STALL_S} | config
    return FakeHome(store, IngressConfig(**config))


async def pass_time(seconds, *peers):
    for _ in range(round(seconds)):
        await asyncio.sleep(1)
        for peer in peers:
            peer.push()


async def two_writers(home):
    first, second = Peer(home), Peer(home)
    await first.set_up()
    await second.set_up(OTHER)
    return first, second


@pytest.mark.parametrize("drips", [False, True])
@simulated
async def test_who_does_not_send_its_frame_is_closed_once_others_have_waited(drips):
    home = open_home()
    first, second = await two_writers(home)
    whole = block(1, LARGE)
    first.feed(whole[: 100 * KIB])
    await pass_time(300)
    assert not first.closed, "nobody wants its room"
    second.feed(block(1, LARGE, writer=OTHER))
    assert not second.transport.reading
    for sent in range(100 * KIB, 100 * KIB + 60):
        if second.transport.reading:
            break
        if drips and not first.closed:
            first.feed(whole[sent : sent + 1])
        await pass_time(1)
    assert first.closed
    assert await second.replies() == [acked(1, NULL, len(LARGE), writer=OTHER)]
    assert home.totals.connections_stalled == 1
    await home.supervisor.stop()


@simulated
async def test_who_sends_its_frame_in_time_is_not_closed():
    home = open_home()
    first, second = await two_writers(home)
    whole = block(1, LARGE)
    first.feed(whole[: 100 * KIB])
    second.feed(block(1, LARGE, writer=OTHER))
    for at in range(100 * KIB, len(whole), 20 * KIB):
        await pass_time(1)
        first.feed(whole[at : at + 20 * KIB])
    assert await first.replies() == [acked(1, NULL, len(LARGE))]
    assert await second.replies() == [acked(1, NULL, 2 * len(LARGE), writer=OTHER)]
    await home.supervisor.stop()


@pytest.mark.slow
@simulated
async def test_a_head_is_a_promise_that_takes_no_room():
    home = open_home()
    promises = [Peer(home) for _ in range(50)]
    for peer in promises:
        peer.feed(block(1, bytes(8 * MIB))[:3000])
    good = Peer(home)
    await good.set_up()
    assert await good.ask(block(1, LARGE)) == [acked(1, NULL, len(LARGE))]
    assert home.budget.waits == 0
    await home.supervisor.stop()


@simulated
async def test_whose_frame_we_do_not_take_has_four_times_as_long():
    home = open_home()
    first, second = await two_writers(home)
    home.store.capacity = 0
    first.feed(block(1, LARGE))
    second.feed(block(1, LARGE, writer=OTHER))
    await pass_time(3.5 * STALL_S)
    assert not first.closed
    home.store.give_capacity(10 * MIB)
    assert len(await first.replies()) == 1
    assert len(await second.replies()) == 1
    home.store.give_capacity(0)
    first.feed(block(2, LARGE))
    second.feed(block(2, LARGE, writer=OTHER))
    await pass_time(4.5 * STALL_S)
    assert first.closed, "a container that stands does not keep the room from others for ever"
    home.store.give_capacity(10 * MIB)
    assert len(await second.replies()) == 1
    assert await first.replies() == []
    await home.supervisor.stop()


@simulated
async def test_a_request_that_runs_is_not_up_to_its_client():
    home = open_home()
    store = home.store
    await store.create_table("t")
    store.gate = asyncio.Event()
    first, second = Peer(home), Peer(home)
    for number, peer in enumerate((first, second)):
        peer.feed(c.UpdateTableEntries(number, "t", "", [TableEntry(b"k", LARGE)]))
    await pass_time(10 * STALL_S)
    store.gate.set()
    assert [reply.request_id for reply in await first.replies()] == [0]
    assert [reply.request_id for reply in await second.replies()] == [1]
    await home.supervisor.stop()


@simulated
async def test_clients_that_take_no_replies_keep_requests_out_for_a_while_and_no_longer():
    """All bytes of requests and charges are theirs, until another client has waited for some."""
    home = open_home(connection_bytes_max=2_000_000)
    peers = []
    for _ in range(4):
        home.store.tables.clear()
        peers.append(await ask_for_large_answers(home.store, home, 5))
    assert home.budget.used(Lane.REQUESTS)
    other = Peer(home)
    other.feed(c.UpdateTableEntries(5, "t", "", [TableEntry(b"k", bytes(600_000), NO_VERSION)]))
    await pass_time(3 * STALL_S, other)
    assert [reply.request_id for reply in await other.replies()] == [5]
    assert any(peer.lost for peer in peers)
    for peer in peers:
        peer.transport.abort()
    await pass_time(10)
    assert home.budget.used(*Lane) == home.budget.unsent_bytes == home.budget.waiting == 0
    await home.supervisor.stop()


# ------------------------------------------------------------------------------------------ crowds


class Hostile:
    """A client that keeps what it has for as long as it may, and comes back when it is closed."""

    def __init__(self, home, number):
        self.home = home
        self.kind = number % 8
        self.number = number
        self.gone_s = 0
        self.begin()

    def begin(self):
        self.gone_s = 0
        self.peer = peer = Peer(self.home)
        self.rest = b""
        peer.transport.stuck = True
        writer = self.number.to_bytes(16, "big")
        match self.kind:
            case 0 | 1:  # most of a frame, and then nothing, or a byte at a time
                whole = block(1, bytes(MIB), writer=writer)
                peer.feed(c.SetupAppend(1, writer, SEGMENT, ""), whole[: 100 * KIB])
                self.rest = whole[100 * KIB :] if self.kind else b""
            case 2:
                entries = [TableEntry(b"new", bytes(MIB), NO_VERSION)]
                peer.feed(encode(c.UpdateTableEntries(1, "t", "", entries))[: 100 * KIB])
            case 3 | 4:  # replies are never taken, or a byte at a time
                keys = [TableKey(b"%d" % n) for n in range(6)]
                peer.feed(*[c.ReadTable(n, "t", "", keys) for n in range(20)])
            case 5:
                peer.feed(*[c.ReadSegment("large", 0, 2 * MIB, "", n) for n in range(20)])
            case 6:
                peer.feed(*[c.ReadSegment(SEGMENT, 1 << 40, 2 * MIB, "", n) for n in range(70)])
            case _:
                names = [bytes([n]) * 8 + writer[8:] for n in range(70)]
                peer.feed(*[c.SetupAppend(1, name, SEGMENT, "") for name in names])

    def step(self):
        peer = self.peer
        if peer.lost:
            self.gone_s += STEP_S
            if self.gone_s >= STALL_S:
                self.begin()
        elif not peer.closed:
            peer.feed(self.rest[:1])
            self.rest = self.rest[1:]
            if self.kind == 4 and peer.transport.unsent:
                peer.transport.unsent -= 1
            else:
                peer.push()


class Good:
    """A client that does what it says, and how long it waited at most."""

    def __init__(self, home, crowd):
        self.peer = Peer(home)
        self.crowd = crowd
        self.check = lambda: None
        self.number = 0

    async def until_answered(self, *frames):
        """Ask, and return how many seconds it takes until there is a reply."""
        self.peer.feed(*frames)
        for seconds in range(20_000):
            if await self.peer.replies(3):
                return seconds
            assert not self.peer.closed
            await asyncio.sleep(1)
            if seconds % STEP_S == 0:
                for hostile in self.crowd:
                    hostile.step()
                self.check()
        raise AssertionError("it is never answered")

    async def append(self, size):
        self.number += 1
        return await self.until_answered(block(self.number, bytes(size)))


@pytest.mark.slow
@simulated
async def test_among_many_hostile_clients_the_memory_is_bounded_and_nobody_starves():
    home = open_home(connection_bytes_max=16 * MIB)
    store = home.store
    store.add("large", bytes(6 * MIB))
    await store.create_table("t")
    await store.table_update("t", [TableEntry(b"%d" % n, bytes(400_000), NO_VERSION) for n in range(6)])
    await store.table_update("t", [TableEntry(b"small", b"value", NO_VERSION)])
    crowd = []
    good = Good(home, crowd)
    await good.peer.set_up()
    crowd += [Hostile(home, number) for number in range(96)]

    def check():
        peers = [good.peer, *[hostile.peer for hostile in crowd]]
        held = sum(peer.transport.unsent + peer.connection.statistics()["buffer_bytes"] for peer in peers)
        each = 16 * KIB + 64 * KIB + 6 * KIB  # a buffer, one small answer, one that is joined
        assert held <= 16 * MIB + len(Lane) * 17 * MIB // 16 + 3 * MIB + len(peers) * each
        home.budget.check()

    good.check = check
    for _ in range(2):
        assert await good.append(100) == 0
        assert await good.until_answered(c.GetStreamSegmentInfo(1, SEGMENT, "")) == 0
        assert await good.until_answered(c.ReadTable(1, "t", "", [TableKey(b"small")])) == 0
        assert await good.until_answered(c.ReadSegment("large", 0, 2 * MIB, "", 1)) == 0
        # 24 frames of a megabyte are in front, of which at least one has room at a time.
        assert await good.append(MIB) <= 15 * STALL_S
        entries = [TableEntry(b"mine", bytes(900_000), NO_VERSION)]
        assert await good.until_answered(c.UpdateTableEntries(1, "t", "", entries)) <= 15 * STALL_S
        keys = [TableKey(b"%d" % n) for n in range(6)]
        assert await good.until_answered(c.ReadTable(1, "t", "", keys)) <= 15 * STALL_S
    assert home.totals.connections_stalled > 50
    for hostile in crowd:
        hostile.peer.transport.abort()
    await pass_time(10)
    assert home.budget.waiting == 0
    good.peer.transport.abort()
    await pass_time(10)
    assert home.budget.used(*Lane) == home.budget.unsent_bytes == 0
    await home.supervisor.stop()
