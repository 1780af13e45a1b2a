"""Random lives of connections on a store that stands, fails and comes back: when all clients are gone nothing
of the memory that they share is taken any more.
"""

import asyncio

import pytest

from headrace.errors import ContainerOfflineError, ThrottledError
from headrace.model.tables import NO_VERSION, TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.testing.loop import SimulatedLoop
from headrace.wire import commands as c
from headrace.wire.frames import HEAD, encode
from tests.effort import seeds
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.world import SEGMENT, FakeHome, Peer, append, block

SEGMENTS = [SEGMENT, "s/b/0", "s/c/0"]


class CountingStore(FakeStore):
    """Remembers all targets that it ever had."""

    def __init__(self, *, durable_at_once):
        super().__init__(durable_at_once=durable_at_once)
        self.targets = []

    def add(self, segment, data=b"", **attributes):
        self.targets.append(super().add(segment, data, **attributes))
        return self.targets[-1]

    def restart(self):
        """Open all segments anew, as they are durable."""
        self.offline = None
        for name, old in list(self.segments.items()):
            state = self.add(name, bytes(old.data[: old.state.durable_length])).state
            state.attributes = SegmentAttributes(old.state.attributes.durable)
            state.sealed = state.accepted_sealed = old.state.sealed

    def heal(self):
        if self.gate is not None:
            self.gate.set()
        self.gate = self.refusal = self.offline = None
        self.inactive.clear()
        self.storage.set()
        self.give_capacity(None)
        self.commit()


class Life:
    """Clients that say anything, and a store that does."""

    def __init__(self, seed):
        self.draw = draw = SeededEntropy(seed).randbelow
        self.store = store = CountingStore(durable_at_once=bool(draw(2)))
        for name in SEGMENTS:
            store.add(name, bytes(draw(100_000)))
        for table, size in (("small", 3000), ("large", 200_000)):
            entries = {b"%d" % n: TableEntry(b"%d" % n, bytes(draw(size)), n) for n in range(12)}
            store.tables[table] = {"entries": entries, "length": 12, "key_length": 0}
        self.home = FakeHome(
            store,
            IngressConfig(
                receive_buffer_bytes=self.one_of(64, 4096, 262_144),
                connection_bytes_max=self.one_of(1, 5000, 100_000, 1 << 21, 1 << 26),
                small_reply_bytes_max=self.one_of(1, 1000, 65_536),
                write_buffer_bytes_max=self.one_of(0, 1000, 1 << 20),
                requests_max=self.one_of(1, 3, 128),
                waiting_reads_max=self.one_of(2, 50),
                waiting_refusals_max=self.one_of(2, 1000),
                writers_max=self.one_of(2, 1000),
                transients_max=self.one_of(1, 5),
                stall_s=0.5,
                drain_s=0.5,
            ),
        )
        self.peers = []
        self.numbers = {}

    def one_of(self, *values):
        return values[self.draw(len(values))]

    @property
    def living(self):
        return [peer for peer in self.peers if not peer.lost]

    def draw_bytes(self, peer):
        """Return what a client may send, legal or not."""
        draw = self.draw
        number, segment, writer = draw(1000), self.one_of(*SEGMENTS, "none"), bytes([draw(4)]) * 16
        table = self.one_of("small", "large")
        setup = encode(c.SetupAppend(number, writer, segment, "token" * draw(9)))
        match draw(20):
            case 0 | 1:
                return setup
            case 2 | 3 | 4 | 5:
                event = self.numbers[peer, writer] = self.numbers.get((peer, writer), 0) + 1 + draw(3)
                data = bytes(draw(self.one_of(10, 1000, 20_000, 200_000)))
                return setup * (draw(3) == 0) + self.one_of(append, block)(event, data, writer=writer)
            case 6:
                event = self.numbers[peer, writer] = self.numbers.get((peer, writer), 0) + 1
                return encode(c.ConditionalBlockEnd(writer, event, draw(99_000), bytes(draw(500)), number))
            case 7 | 8 | 9:
                offset = self.one_of(draw(120_000), 100_000 + draw(500_000))
                return encode(c.ReadSegment(segment, offset, draw(300_000), "x" * draw(100), number))
            case 10:
                return encode(c.GetStreamSegmentInfo(number, segment, "y" * draw(3000)))
            case 11:
                change = self.one_of(c.SealSegment, c.DeleteSegment)
                return encode(change(number, segment, "")) if draw(4) == 0 else b""
            case 12:
                return encode(c.CreateTransientSegment(number, writer, segment, ""))
            case 13:
                return encode(c.CreateSegment(number, segment, 0, 0, ""))
            case 14:
                entries = [TableEntry(b"n%d" % draw(9), bytes(draw(20_000)), NO_VERSION)]
                return encode(c.UpdateTableEntries(number, table, "", entries, -1))
            case 15:
                keys = [TableKey(b"%d" % draw(20), -1) for _ in range(1 + draw(6))]
                return encode(c.ReadTable(number, table, "", keys))
            case 16 | 17:
                return encode(c.ReadTableEntries(number, table, "", 1 + draw(40), b"", b"", b"", b""))
            case 18:
                return encode(c.KeepAlive()) * draw(99)
            case _:
                bad = self.one_of(HEAD.pack(11, 0), HEAD.pack(999, 3) + b"abc", encode(c.PartialEvent(b"zz")))
                return bad if draw(9) == 0 else encode(c.Hello(self.one_of(16, 16, 16, 3), 2))

    def step(self):
        draw, store = self.draw, self.store
        living = self.living
        if not living or (len(living) < 6 and draw(10) == 0):
            self.peers.append(Peer(self.home))
            self.peers[-1].transport.stuck = draw(4) == 0
            return
        peer = living[draw(len(living))]
        transport = peer.transport
        match draw(30):
            case 0:
                transport.stuck = True
            case 1 | 2:
                transport.drain()
            case 3:
                transport.abort()
            case 4 if not transport.closing:
                peer.connection.eof_received()
            case 5 if store.gate is None:
                store.gate = asyncio.Event()
            case 5:
                store.gate.set()
                store.gate = None
            case 6:
                store.refusal = self.one_of(None, None, ThrottledError("x"), ContainerOfflineError("x"))
            case 7 if store.offline is not None:
                store.restart()
            case 7 if draw(3) == 0:
                store.fail(ContainerOfflineError("ended"))
                store.wake()
            case 8 if store.capacity is None:
                store.capacity = draw(1000)
            case 8:
                store.give_capacity(None)
            case 9:
                self.one_of(store.inactive.add, store.inactive.discard)(self.one_of(*SEGMENTS))
                store.wake()
            case 10:
                store.cold.add(self.one_of(*SEGMENTS))
            case 11:
                store.commit(1 + draw(4))
            case _ if not transport.closing:
                data = b"".join(self.draw_bytes(peer) for _ in range(1 + draw(6)))
                peer.feed(
                    data[: draw(len(data) + 1)] if draw(6) == 0 else data, chunk=self.one_of(1 << 30, 999)
                )

    def check(self):
        self.home.budget.check()
        for peer in self.living:
            peer.push()
            peer.connection.check()

    async def live(self):
        for _ in range(60 + self.draw(200)):
            self.step()
            for _ in range(self.draw(6)):
                await asyncio.sleep(0)
                self.check()
            if self.draw(5) == 0:
                await asyncio.sleep(self.one_of(0.01, 0.2, 0.7))
        in_order = self.draw(2)
        for peer in self.living:
            if in_order:
                peer.connection.close_after_replies("the end")
            else:
                peer.transport.abort()
        await asyncio.sleep(self.one_of(0, 0.1, 2))
        if not self.living:
            assert self.store.capacity_waiters == [], "a store that stands would gather them"
        self.store.heal()
        for _ in range(20):
            await asyncio.sleep(0.5)
            self.store.commit()
        self.look()

    def look(self):
        home, store = self.home, self.store
        assert not self.living
        assert (home.budget.used(*Lane), home.budget.waiting) == (0, 0)
        assert home.budget.unsent_bytes == home.budget.objects_bytes == 0
        assert (home.waiting_reads.total, home.waiting_refusals.total, home.writers.total) == (0, 0, 0)
        assert sum(target.users for target in store.targets) == 0
        assert (store.results_out, store.capacity_waiters) == (0, [])
        assert not home.supervisor.statistics().running


@pytest.mark.parametrize("seed", seeds(60))
def test_nothing_is_taken_when_all_clients_are_gone(seed):
    loop = SimulatedLoop(SeededEntropy(f"loop {seed}"))

    async def live():
        await Life(f"life {seed}").live()

    loop.run_until_complete(live())
    assert not loop.failures
