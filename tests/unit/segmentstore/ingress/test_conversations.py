"""Random conversations of several clients with one store, every reply checked by the client's own machine.

What may never happen, in any order of arrival, chunking, durability and lack of room: a reply nobody asked
for, an acknowledgement out of order or across a conditional append, an append stored twice, torn, refused but
stored or acknowledged but lost.
"""

import asyncio
import random
import re
import struct

import pytest

from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.testing.client_session import ClientSession
from headrace.wire import commands as c
from headrace.wire.frames import encode
from tests.effort import seeds
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.world import FakeHome, Peer

SEGMENTS = ("a", "b")


class Writer:
    def __init__(self, writer_id):
        self.writer_id = writer_id
        self.segment = None
        self.number = 0
        self.ready = False
        self.sent = {}
        self.acked = set()
        self.refused = set()


class Client:
    """One connection, its writers and the machine that checks what comes back."""

    def __init__(self, home, source, index):
        self.source = source
        self.peer = Peer(home)
        self.session = ClientSession()
        self.writers = [Writer(bytes([index, n]) * 8) for n in range(2)]
        self.stream = encode(self.session.start())
        self.request_id = index << 32
        self.reads = 0

    def send(self, command, frames=None):
        self.session.on_sent(command)
        self.stream += encode(command) if frames is None else frames

    def next_id(self):
        self.request_id += 1
        return self.request_id

    def deliver(self):
        size = self.source.choice([1, 7, 60, 500, 5000, len(self.stream)])
        self.peer.feed(
            self.stream[:size], chunk=self.source.choice([1, 13, 1 << 20]) if size < 200 else 1 << 20
        )
        self.stream = self.stream[size:]

    async def take(self, turns=3):
        for reply in await self.peer.replies(turns):
            self.session.on_reply(reply)
            self.on_reply(reply)

    def on_reply(self, reply):
        by_id = {writer.writer_id: writer for writer in self.writers}
        match reply:
            case c.AppendSetup():
                by_id[reply.writer_id].ready = True
            case c.DataAppended():
                writer = by_id[reply.writer_id]
                writer.acked |= {n for n in writer.sent if n <= reply.event_number} - writer.refused
            case c.ConditionalCheckFailed():
                by_id[reply.writer_id].refused.add(reply.event_number)
            case c.SegmentIsSealed():
                for writer in self.writers:
                    if writer.sent.get(reply.offset) == reply.request_id:
                        writer.refused.add(reply.offset)
            case c.SegmentRead():
                assert reply.data or reply.end_of_segment

    # ---- actions

    def set_up(self):
        writer = self.source.choice(self.writers)
        if writer.segment is None:
            writer.segment = self.source.choice(SEGMENTS)
            self.send(c.SetupAppend(self.next_id(), writer.writer_id, writer.segment, ""))

    def payload(self, writer):
        filler = b"." * self.source.choice([0, 1, 50, 3000])
        return b"<%s:%d%s>" % (writer.writer_id.hex().encode(), writer.number, filler)

    def append(self):
        writer = self.source.choice(self.writers)
        if not writer.ready:
            return
        for _ in range(self.source.choice([1, 1, 2, 20])):
            writer.number += self.source.randint(1, 3)
            data, request_id = self.payload(writer), self.next_id()
            writer.sent[writer.number] = request_id
            end = c.AppendBlockEnd(writer.writer_id, len(data), b"", 1, writer.number, request_id)
            match self.source.randrange(4):
                case 0:
                    frames = encode(c.AppendBlockEnd(writer.writer_id, 7, data, 1, writer.number, request_id))
                case 1:
                    frames = encode(c.AppendBlock(writer.writer_id, data)) + encode(end)
                case 2:
                    filler = struct.pack(">ii", -1, 5) + bytes(5)
                    frames = encode(c.AppendBlock(writer.writer_id, data + filler)) + encode(end)
                case _:
                    cut = self.source.randint(1, len(data))
                    filler = struct.pack(">ii", -2, cut) + data[:cut]
                    end = c.AppendBlockEnd(writer.writer_id, 0, data[cut:], 1, writer.number, request_id)
                    frames = encode(c.AppendBlock(writer.writer_id, filler)) + encode(end)
            self.send(end, frames)

    def append_conditionally(self, store):
        writer = self.source.choice(self.writers)
        if not writer.ready:
            return
        writer.number += self.source.randint(1, 3)
        request_id = self.next_id()
        writer.sent[writer.number] = request_id
        length = store.segments[writer.segment].state.accepted_length
        offset = self.source.choice([length, length, 0, length + 1, -1])
        self.send(
            c.ConditionalBlockEnd(writer.writer_id, writer.number, offset, self.payload(writer), request_id)
        )

    def read(self):
        self.send(
            c.ReadSegment(
                self.source.choice(SEGMENTS), self.source.randint(0, 3000), 1000, "", self.next_id()
            )
        )

    def ask(self):
        segment = self.source.choice(SEGMENTS)
        self.send(
            self.source.choice(
                [
                    c.KeepAlive(),
                    c.GetStreamSegmentInfo(self.next_id(), segment, ""),
                    c.GetSegmentAttribute(self.next_id(), segment, bytes(16), ""),
                    c.TruncateSegment(self.next_id(), segment, 0, ""),
                ]
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(60))
async def test_a_random_conversation_keeps_every_promise(seed):
    source = random.Random(seed)
    store = FakeStore(durable_at_once=False)
    for segment in SEGMENTS:
        store.add(segment)
    home = FakeHome(store, IngressConfig(requests_max=source.choice([1, 3, 128])))
    clients = [Client(home, source, n) for n in range(3)]
    seal_at = source.choice([60, 120, 1000])
    for step in range(150):
        client = source.choice(clients)
        match source.randrange(10):
            case 0:
                client.set_up()
            case 1 | 2 | 3:
                client.append()
            case 4:
                client.append_conditionally(store)
            case 5:
                client.read()
            case 6:
                client.ask()
            case 7:
                store.commit(source.choice([1, 2, None]))
            case 8:
                store.give_capacity(source.choice([0, 100, 4000, None]))
            case _:
                await client.take()
        if step == seal_at:
            await store.seal_segment(source.choice(SEGMENTS))
        for _ in range(source.randrange(3)):
            source.choice(clients).deliver()

    await finish(store, clients)
    for client in clients:
        assert client.session.idle
        assert not client.peer.closed
    check_content(store, clients)
    await home.supervisor.stop()
    home.budget.check()


async def finish(store, clients):
    """Deliver everything, make it durable, seal, and let every read end."""
    for _ in range(3):
        store.give_capacity(None)
        for client in clients:
            client.peer.feed(client.stream)
            client.stream = b""
            await client.take(30)
        store.commit()
    for segment in SEGMENTS:
        if not store.segments[segment].state.sealed:
            await store.seal_segment(segment)
    for _ in range(3):
        for client in clients:
            await client.take(30)
    # Reads beyond the end of an open segment wait; beyond the end of a sealed one they are refused.
    await asyncio.sleep(0)


def check_content(store, clients):
    stored = {segment: store.segments[segment].data for segment in SEGMENTS}
    for client in clients:
        for writer in client.writers:
            assert writer.acked.isdisjoint(writer.refused)
            assert writer.acked | writer.refused == set(writer.sent)
            pattern = re.compile(rb"<%s:(\d+)\.*>" % writer.writer_id.hex().encode())
            for segment in SEGMENTS:
                numbers = [int(match) for match in pattern.findall(stored[segment])]
                expected = sorted(writer.acked) if segment == writer.segment else []
                assert numbers == expected
            if writer.acked:
                attributes = store.segments[writer.segment].state.attributes.durable
                assert attributes.get(writer.writer_id, ATTRIBUTE_NULL) == max(writer.acked)
    for data in stored.values():
        assert re.fullmatch(rb"(<[0-9a-f]{32}:\d+\.*>)*", data)  # nothing torn, nothing else
