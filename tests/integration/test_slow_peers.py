"""Peers that read slowly: what they get is what was written, however long a transport keeps it.

From 3.12 on asyncio's transports keep the buffers that they are given until the socket has taken them, as
those of uvloop do: they copy nothing. Whatever is lent to a transport must not change before. Here the
socket is full for as long as a test wants, and meanwhile everything that could change a buffer happens.
"""

import asyncio
import random
import socket

import pytest

from headrace.limits import KIB, MIB
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime import loops
from headrace.runtime.context import system_runtime
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode

pytestmark = pytest.mark.cluster

CONTENT = random.Random(1).randbytes(24 * MIB)
OLD, NEW = "demo/old/0.#epoch.0", "demo/new/0.#epoch.0"
PATIENCE_S = 120


class SlowPeer:
    """Asks for much, and takes it in small pieces when the test lets it."""

    def __init__(self, chance):
        self.chance = chance
        self.decoder = FrameDecoder.for_client()
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        self.socket.setblocking(False)
        self.asked = {}
        self.taken = 0

    async def ask(self, port, reads):
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.socket, ("127.0.0.1", port))
        frames = []
        for number, (segment, offset, length) in enumerate(reads, 1):
            self.asked[number] = (segment, offset, length)
            frames.append(encode(c.ReadSegment(segment, offset, length, "", number)))
        await loop.sock_sendall(self.socket, b"".join(frames))

    async def take(self):
        """Take a little, and compare whatever is complete."""
        data = await asyncio.get_running_loop().sock_recv(self.socket, self.chance.randrange(1, 64 * KIB))
        assert data, f"closed before {len(self.asked)} replies"
        self.decoder.feed(data)
        for reply in self.decoder.commands():
            segment, offset, length = self.asked.pop(reply.request_id)
            assert isinstance(reply, c.SegmentRead)
            assert (reply.segment, reply.offset) == (segment, offset)
            assert 0 < len(reply.data) <= length
            assert reply.data == CONTENT[offset : offset + len(reply.data)], f"{segment} at {offset}"
            self.taken += len(reply.data)


class Neighbour:
    """A client beside the slow ones that makes the server use its memory anew: it appends and reads."""

    def __init__(self, client, chance):
        self.client, self.chance = client, chance
        self.lengths = dict.fromkeys((OLD, NEW), 0)

    async def begin(self, segment):
        created = await self.client.call(c.CreateSegment(1, segment, 0, 0, ""), PATIENCE_S)
        assert isinstance(created, c.SegmentCreated)
        writer_id = self._writer_id(segment)
        ready = await self.client.call(c.SetupAppend(2, writer_id, segment, ""), PATIENCE_S)
        assert isinstance(ready, c.AppendSetup)

    async def append(self, segment, size):
        begin = self.lengths[segment]
        end = self.lengths[segment] = begin + size
        request = c.AppendBlockEnd(self._writer_id(segment), size, CONTENT[begin:end], 1, end, 3)
        assert isinstance(await self.client.call(request, PATIENCE_S), c.DataAppended)

    async def read(self, segment, offset, length):
        reply = await self.client.call(c.ReadSegment(segment, offset, length, "", 4), PATIENCE_S)
        assert isinstance(reply, c.SegmentRead)
        assert reply.data == CONTENT[offset : offset + len(reply.data)]

    async def read_somewhere(self, segment):
        length = self.chance.choice([20, 300, 1000]) * KIB
        await self.read(segment, self.chance.randrange(self.lengths[segment] - length), length)

    def _writer_id(self, segment):
        return segment.encode()[:16]


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_replies_do_not_change_while_a_slow_peer_takes_them(tmp_path, kind):
    loops.run(replies_to_slow_peers(tmp_path), kind=kind)


async def replies_to_slow_peers(tmp_path):
    """Replies from the cache, from files, and from lent memory; then all of that is evicted and used anew."""
    config = StandaloneConfig(
        data_dir=str(tmp_path),
        cache_bytes=20 * MIB,
        cache_soft_bytes=20 * MIB,
        container=ContainerConfig(storage_writer=StorageWriterConfig(flush_bytes=1 * MIB, flush_age_s=0.0)),
    )
    plane = WiredStore(config, system_runtime(), 1)
    await plane.start()
    port = await plane.listen("127.0.0.1", 0)
    chance = random.Random(2)
    client = await WireClient.connect("127.0.0.1", port)
    neighbour = Neighbour(client, chance)
    peers = [SlowPeer(chance) for _ in range(8)]
    try:
        for segment in (OLD, NEW):
            await neighbour.begin(segment)
        while neighbour.lengths[OLD] < len(CONTENT):
            await neighbour.append(OLD, 1 * MIB)  # of which the cache keeps less than it is asked for below
        while neighbour.lengths[NEW] < 4 * MIB:
            await neighbour.append(NEW, chance.randrange(1, 200 * KIB))
        for peer in peers:
            reads = []
            for _ in range(12):
                segment = chance.choice([OLD, NEW])
                length = chance.choice([40, 300, 1000, 1000]) * KIB
                reads.append((segment, chance.randrange(neighbour.lengths[segment] - length), length))
            await peer.ask(port, reads)
        while plane.statistics()["listener"].unsent_bytes < 2 * MIB:
            await neighbour.read_somewhere(OLD)
        held = plane.statistics()["cache"]
        while plane.statistics()["cache"].evicted_bytes - held.evicted_bytes < 40 * MIB:
            await churn(neighbour)
        while hungry := [peer for peer in peers if peer.asked]:
            for peer in hungry:
                await peer.take()
            if chance.random() < 0.1:
                await churn(neighbour)
        assert sum(peer.taken for peer in peers) > 10 * MIB
    finally:
        client.close()
        for peer in peers:
            peer.socket.close()
        await plane.stop()


async def churn(neighbour):
    """Have memory given away and used for other bytes."""
    room = len(CONTENT) - neighbour.lengths[NEW]
    if room:
        await neighbour.append(NEW, min(room, neighbour.chance.randrange(1, 1 * MIB)))
    await neighbour.read_somewhere(OLD)
    await neighbour.read_somewhere(NEW)
