"""Replies about tables: bounded over all connections, fair, and never in the way of small ones."""

import asyncio
import random

import pytest

from headrace.errors import NoSuchSegmentError
from headrace.limits import KIB, MIB, READ_BYTES_MAX
from headrace.model.tables import NO_VERSION, TableEntry, TableKey
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.table_replies import AROUND_BYTES
from headrace.wire import commands as c
from headrace.wire.frames import SERVER_PAYLOAD_BYTES_MAX
from tests.effort import seeds
from tests.unit.segmentstore.ingress.world import SEGMENT, FakeHome, Peer

T = "table"
VALUE = 500_000
PATIENCE_S = 120
HUGE_S = 1000.0


class Home(FakeHome):
    def __init__(self, store, **config):
        config.setdefault("stall_s", HUGE_S)
        if "replies_max" in config:  # they have three eighths of everything
            config["connection_bytes_max"] = (config.pop("replies_max") * 8 + 2) // 3
        super().__init__(store, IngressConfig(drain_s=HUGE_S, **config))
        self.peers = []

    def peer(self, *, stuck=False):
        peer = Peer(self)
        peer.transport.stuck = stuck
        self.peers.append(peer)
        return peer

    def on_lost(self, connection):
        super().on_lost(connection)
        for peer in self.peers:
            if peer.connection is connection:
                peer.transport.unsent = 0

    @property
    def room(self):
        return self.budget.used(Lane.REPLIES)

    @property
    def requests(self):
        return self.budget.used(Lane.REQUESTS, Lane.SMALL_REQUESTS)

    @property
    def waiting(self):
        return self.budget.waiting

    def check(self):
        """Everything large that is unsent has room."""
        self.budget.check()
        unsent = sum(peer.transport.unsent for peer in self.peers)
        assert unsent <= self.room + len(self.peers) * 2 * self.config.small_reply_bytes_max
        return unsent


@pytest.fixture
async def table(store):
    """Twenty entries of half a megabyte, one of them small; what the store was asked."""
    await store.create_table(T)
    await store.table_update(T, [TableEntry(b"%02d" % n, bytes(VALUE), NO_VERSION) for n in range(20)])
    await store.table_update(T, [TableEntry(b"99", b"small", NO_VERSION)])
    store.calls.clear()
    return store


@pytest.fixture
async def open_home(store):
    homes = []

    def open_home(**config):
        homes.append(Home(store, **config))
        return homes[-1]

    yield open_home
    for home in homes:
        home.check()
        for peer in home.peers:
            peer.transport.abort()
        await settle(home)
        await home.supervisor.stop()
        assert home.room == home.requests == home.waiting == home.budget.unsent_bytes == 0
        assert all(peer.lost for peer in home.peers)


async def settle(home, turns=30):
    for _ in range(turns):
        await asyncio.sleep(0)
    for peer in home.peers:
        peer.push()


def get(request_id, *keys):
    return c.ReadTable(request_id, T, "", [TableKey(b"%02d" % key) for key in keys])


def entries(request_id, token=b""):
    return c.ReadTableEntries(request_id, T, "", 100, token)


def values(reply):
    return [len(entry.value) for entry in reply.entries]


async def ask_all(home, questions):
    """Return clients that ask and take nothing; everybody has had its turn."""
    peers = [home.peer(stuck=True) for _ in questions]
    for peer, question in zip(peers, questions, strict=True):
        peer.feed(question)
    await settle(home)
    return peers


# ----------------------------------------------------------------------------------------- the bound


async def test_replies_that_nobody_takes_are_bounded_over_all_connections(open_home, table):
    home = open_home(replies_max=5 * MIB)
    peers = await ask_all(home, [get(n, *range(4)) for n in range(10)])
    assert [peer.transport.unsent > 4 * VALUE for peer in peers] == [True, True] + [False] * 8
    assert home.check() == home.room <= 5 * MIB
    assert home.waiting == 8
    taken = []
    for peer in peers:
        peer.transport.drain()
        taken += [values(reply) for reply in await peer.replies(30)]
        await settle(home)
        home.check()
    assert taken == [[VALUE] * 4] * 10
    assert home.room == 0


async def test_what_is_put_together_counts_before_it_is_there(open_home, table):
    home = open_home(replies_max=5 * MIB)
    table.gate = asyncio.Event()
    await ask_all(home, [get(n, *range(4)) for n in range(40)])
    assert home.room <= 5 * MIB, "nothing is known yet, and little may be fetched"
    gate, table.gate = table.gate, None
    gate.set()
    await settle(home)
    assert home.check() <= home.room <= 5 * MIB


async def test_one_that_is_larger_than_the_bound_is_sent_when_it_is_alone(open_home, table):
    home = open_home(replies_max=1)
    one, other = await ask_all(home, [get(1, 0, 1), get(2, 0, 1)])
    assert home.room > 2 * VALUE
    assert not other.transport.unsent
    one.transport.drain()
    await settle(home)
    assert other.transport.unsent > 2 * VALUE


@pytest.mark.parametrize("keys", [[99], [99] * 1000, [98]])
async def test_small_replies_need_no_room(open_home, table, keys):
    home = open_home(replies_max=1 * MIB)
    await ask_all(home, [get(n, 0, 1) for n in range(5)])
    assert home.waiting
    (reply,) = await home.peer().ask(get(7, *keys))
    assert len(reply.entries) == len(keys)


async def test_pages_are_small_while_there_is_no_room_and_wait_only_for_a_large_entry(open_home, table):
    home = open_home(replies_max=5 * VALUE + 100_000)
    for number in range(100):
        await table.table_update(T, [TableEntry(b"small %02d" % number, bytes(10_000), NO_VERSION)])
    peer = home.peer()
    (page,) = await peer.ask(entries(1))
    assert values(page)[0] == VALUE
    (stuck,) = await ask_all(home, [get(2, *range(5))])
    seen, token = [], b"99"
    while len(seen) < 100:
        (page,) = await peer.ask(entries(2, token))
        assert 0 < len(page.entries) <= 64 * KIB // 10_000
        seen += page.entries
        token = page.continuation_token
    assert await peer.ask(entries(3, b"01"), get(4, 99)) == [
        c.TableRead(4, T, [table.tables[T]["entries"][b"99"]])
    ]
    assert home.waiting == 1
    stuck.transport.drain()
    (page,) = await peer.replies()
    assert values(page)[0] == VALUE
    (page,) = await peer.ask(entries(5, b"01"))
    assert READ_BYTES_MAX - VALUE < sum(values(page)) < READ_BYTES_MAX


async def test_the_changes_of_a_table_are_bounded_as_well(open_home, table):
    home = open_home(replies_max=5 * VALUE + 100_000)
    peer = home.peer()
    (delta,) = await peer.ask(c.ReadTableEntriesDelta(1, T, "", 0, 100))
    assert len(delta.entries) == 4
    await ask_all(home, [get(2, *range(5))])
    assert await peer.ask(c.ReadTableEntriesDelta(3, T, "", 0, 100)) == []
    assert home.waiting == 1


async def test_what_fits_no_frame_is_said_and_not_fetched(open_home, table):
    home = open_home()
    keys = list(range(20)) * 2
    assert len(keys) * VALUE > SERVER_PAYLOAD_BYTES_MAX
    (reply,) = await home.peer().ask(get(1, *keys))
    assert isinstance(reply, c.ErrorMessage)
    assert "request less" in reply.message
    (reply,) = await home.peer().ask(get(2, *keys[:33]))
    assert values(reply) == [VALUE] * 33


async def test_a_reply_that_grew_while_it_waited_gets_the_room_that_it_needs(open_home, table):
    home = open_home(replies_max=3 * VALUE + 100_000)
    (stuck,) = await ask_all(home, [get(1, 0, 1, 2)])
    peer = home.peer()
    assert await peer.ask(get(2, 4, 99)) == []
    await table.table_update(T, [TableEntry(b"99", bytes(VALUE), NO_VERSION)])
    table.gate = asyncio.Event()
    stuck.transport.drain()
    await settle(home)
    room = home.room
    gate, table.gate = table.gate, None
    gate.set()
    (reply,) = await peer.replies()
    assert values(reply) == [VALUE, VALUE]
    assert room == VALUE + 2 + len(b"small") + 2 + 2 * 20 + AROUND_BYTES


async def test_an_error_gives_the_room_back(open_home, table):
    home = open_home(replies_max=2 * MIB)
    (stuck,) = await ask_all(home, [get(1, 0, 1, 2)])
    peer = home.peer()
    assert await peer.ask(get(2, *range(3))) == []
    table.refusal = NoSuchSegmentError(T)
    stuck.transport.drain()
    assert await peer.replies() == [c.NoSuchSegment(2, T, "", -1)]
    assert home.room == 0


# ----------------------------------------------------------------------------------- one connection


@pytest.mark.slow
async def test_one_client_has_one_large_reply_at_a_time(open_home, table):
    home = open_home(replies_max=100 * MIB)
    peer = home.peer(stuck=True)
    peer.feed(*[get(n, *range(4)) for n in range(50)])
    seen = await peer.replies(200)
    assert home.room <= 2 * (4 * VALUE + AROUND_BYTES)
    for _ in range(60):
        peer.transport.drain()
        peer.transport.stuck = True
        seen += await peer.replies(20)
        assert home.check() <= 2 * (4 * VALUE + AROUND_BYTES)
    assert sorted(reply.request_id for reply in seen) == list(range(50))


async def test_a_client_that_takes_nothing_has_no_small_replies_put_together(open_home, table):
    home = open_home(connection_bytes_max=1)
    await table.table_update(T, [TableEntry(b"98", bytes(50_000), NO_VERSION)])
    peer = home.peer(stuck=True)
    peer.feed(*[get(n, 98) for n in range(100)])
    seen = await peer.replies(300)
    assert peer.transport.unsent <= 300_000 + 50_100
    for _ in range(110):
        peer.transport.drain()
        peer.transport.stuck = True
        seen += await peer.replies(20)
    assert sorted(reply.request_id for reply in seen) == list(range(100))


async def test_requests_whose_replies_wait_leave_the_room_of_requests_to_others(open_home, table):
    home = open_home(replies_max=2 * MIB)
    await ask_all(home, [get(n, *range(3)) for n in range(5)])
    assert home.waiting == 4
    assert home.requests == 0
    assert home.budget.unsent_bytes > 0, "they are counted all the same"
    peer = home.peer()
    peer.feed(*[get(n, *range(3)) for n in range(1, 6)])
    await settle(home)
    assert home.waiting == 5
    assert home.requests == 0
    assert not peer.closed


# --------------------------------------------------------------------------------------- who is gone


async def test_clients_that_are_lost_leave_the_line_and_give_back_what_they_had(open_home, table):
    home = open_home(replies_max=3 * MIB)
    first, second, third, small = await ask_all(
        home, [get(1, *range(4)), get(2, *range(20)), get(3, *range(4)), get(4, 0)]
    )
    assert home.waiting == 3
    calls = len(table.calls)
    second.transport.abort()
    await settle(home)
    assert len(table.calls) == calls, "nothing is fetched for it"
    assert home.waiting == 2
    first.transport.abort()
    await settle(home)
    assert third.transport.unsent > 4 * VALUE
    assert small.transport.unsent > VALUE
    assert home.check() == home.room


async def test_a_client_that_is_lost_while_its_reply_is_put_together_gives_back_its_room(open_home, table):
    home = open_home(replies_max=3 * MIB)
    (stuck,) = await ask_all(home, [get(1, *range(4))])
    (lost,) = await ask_all(home, [get(2, *range(4))])
    table.gate = asyncio.Event()
    stuck.transport.drain()
    await settle(home)
    assert home.room > 4 * VALUE
    lost.transport.abort()
    await settle(home)
    assert home.room > 4 * VALUE, "it is still in memory"
    table.gate.set()
    await settle(home)
    assert home.room == 0


async def test_a_stop_while_replies_wait_leaves_nothing(open_home, table):
    home = open_home(replies_max=3 * MIB)
    peers = await ask_all(home, [get(n, *range(4)) for n in range(5)])
    peers[1].feed(*[get(n, *range(4)) for n in range(10)])
    await settle(home)
    await home.supervisor.stop()
    assert home.waiting == 0
    assert home.check() == home.room


# ---------------------------------------------------------------------------------- taken or not


async def until(home, condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
            await settle(home, 3)


async def test_who_takes_nothing_is_closed_when_others_wait_and_not_before(open_home, table):
    home = open_home(replies_max=2 * MIB, stall_s=0.02)
    (stuck,) = await ask_all(home, [get(1, *range(3))])
    await asyncio.sleep(0.1)
    assert not stuck.closed, "nobody wants its room"
    (small,) = await home.peer().ask(get(2, 99))
    assert small.entries
    await asyncio.sleep(0.1)
    assert not stuck.closed
    other = home.peer()
    other.feed(get(3, *range(4)))
    await until(home, lambda: stuck.lost)
    (reply,) = await other.replies()
    assert values(reply) == [VALUE] * 4
    assert home.totals.connections_stalled == 1
    assert stuck.transport.aborted


async def test_who_takes_a_little_at_a_time_is_closed_as_well(open_home, table):
    home = open_home(replies_max=2 * MIB, stall_s=0.05)
    slow, other = await ask_all(home, [get(1, *range(3)), get(2, *range(3))])

    def takes_a_byte():
        slow.transport.unsent -= slow.transport.unsent > 0
        return other.transport.unsent > 3 * VALUE

    await until(home, takes_a_byte)
    assert slow.lost


@pytest.mark.slow
async def test_many_who_take_nothing_keep_others_out_for_no_longer_than_their_turns(open_home, table):
    home = open_home(replies_max=4 * MIB, stall_s=0.05)
    stuck = await ask_all(home, [get(n, *range(7)) for n in range(12)])
    good = home.peer()
    good.feed(get(99, *range(7)))
    replies = []
    while not replies:
        await until(home, lambda: True)
        replies = await good.replies()
        home.check()
    assert values(replies[0]) == [VALUE] * 7
    assert all(peer.lost for peer in stuck)


async def test_who_only_waits_for_room_that_it_has_itself_is_not_closed(open_home, table):
    home = open_home(replies_max=VALUE + AROUND_BYTES, stall_s=0.02)
    (slow,) = await ask_all(home, [get(1, 0)])
    slow.feed(get(2, 1))
    await settle(home)
    assert home.waiting == 1
    await asyncio.sleep(0.2)
    assert not slow.closed
    await ask_all(home, [get(3, 0)])
    await until(home, lambda: slow.closed)


async def test_room_comes_back_when_the_last_byte_of_a_reply_has_left(open_home, table):
    home = open_home()
    peer = home.peer(stuck=True)
    peer.feed(get(1, 0))
    await settle(home)
    room = home.room
    peer.feed(get(2, 99))
    await settle(home)
    peer.transport.unsent -= room - 1  # all but the last byte of it, and the other reply
    await peer.ask(get(3, 99))
    assert home.room == room
    peer.transport.unsent -= 1
    await peer.ask(get(4, 99))
    assert peer.transport.unsent
    assert home.room == 0


# ------------------------------------------------------------------------------------------ together


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40))
async def test_whatever_happens_replies_are_bounded_and_everything_is_answered(seed, open_home, table):
    draw = random.Random(seed)
    bytes_max = draw.choice((1, VALUE, 3 * MIB, 128 * MIB))
    home = open_home(replies_max=bytes_max, small_reply_bytes_max=draw.choice((1, 64 * KIB)))
    asked, answered = {}, {}
    alive = []
    for number in range(150):
        while len(alive) < draw.choice((1, 3, 8)):
            alive.append(home.peer(stuck=draw.random() < 0.5))
            asked[alive[-1]], answered[alive[-1]] = set(), set()
        peer = draw.choice(alive)
        kind = draw.randrange(10)
        if kind < 6:
            question = draw.choice(
                (
                    get(number, 99),
                    get(number, *range(draw.randrange(1, 8))),
                    entries(number, b"%02d" % draw.randrange(20)),
                    c.ReadTableKeys(number, T, "", 100),
                    c.ReadTableEntriesDelta(number, T, "", 0, draw.randrange(1, 10)),
                    c.ReadSegment(SEGMENT, 0, 100, "", number),
                )
            )
            if not isinstance(question, c.ReadSegment):
                asked[peer].add(number)
            peer.feed(question)
        elif kind < 9:
            peer.transport.drain()
            peer.transport.stuck = draw.random() < 0.5
        else:
            peer.transport.abort()
            alive.remove(peer)
        if draw.random() < 0.2:
            gate, table.gate = table.gate, None if table.gate else asyncio.Event()
            if gate:
                gate.set()
        await settle(home, draw.choice((0, 1, 5, 20)))
        largest = 7 * (VALUE + 22) + AROUND_BYTES
        assert home.room <= max(bytes_max, largest)
        home.check()
    if table.gate:
        table.gate.set()
    for _ in range(40):
        for peer in home.peers:
            peer.transport.drain()
        for peer in [*alive]:
            answered[peer].update(reply.request_id for reply in await peer.replies(10))
    for peer in alive:
        assert asked[peer] <= answered[peer]
        assert not peer.closed
    assert home.waiting == 0
    assert home.room == 0


async def test_a_client_that_takes_its_replies_may_ask_for_many_at_once(open_home, table):
    """What waits for its turn on a connection is no sign of a client that takes nothing."""
    home = open_home(connection_bytes_max=800)
    peer = home.peer()
    table_get = table.table_get

    async def get_later(*arguments):
        found = await table_get(*arguments)  # it is known at once if it is too large
        for _ in range(20):
            await asyncio.sleep(0)
        return found

    table.table_get = get_later
    replies = await peer.ask(*[get(number, 0, 1) for number in range(30)])
    while more := await peer.replies(30):
        replies += more
    assert not peer.closed
    assert sorted(reply.request_id for reply in replies) == list(range(30))
