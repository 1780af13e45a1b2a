"""A server that reads slowly gets what was written, whatever becomes of the memory that it was written from.

Transports of asyncio (from 3.12 on) and of uvloop keep the buffers that they are given until the socket has
taken them. Events may come from memory that its owner uses again as soon as a call returns, and from the
receive buffers of a reader, which takes them for other replies once nobody refers to them.
"""

import asyncio
import random
import socket

import pytest
from fake_server import FakeSystem

from headrace.client import connect
from headrace.client.framing.event_frames import frame_list
from headrace.limits import KIB, MIB
from headrace.runtime import loops

pytestmark = pytest.mark.timeout(60)  # a server that gets other bytes would be asked again and again

LOOPS = pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
TURNS = 4
"""Of the loop between two pieces that a slow server takes."""


class SlowWay:
    """What clients reach in place of the store: it brings their bytes there slowly, the replies at once."""

    def __init__(self, store):
        self.store = store
        self.target = ("127.0.0.1", store.port)
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)  # its connections', too
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.listener.setblocking(False)
        self.sockets = [self.listener]
        self.tasks = set()

    async def __aenter__(self):
        self.store.port = self.listener.getsockname()[1]
        self._spawn(self._accept())
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for each in self.sockets:
            each.close()

    def _spawn(self, work):
        self.tasks.add(asyncio.get_running_loop().create_task(work))

    async def _accept(self):
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self.listener)
            server = socket.socket()
            server.setblocking(False)
            self.sockets += [client, server]
            await loop.sock_connect(server, self.target)
            self._spawn(self._move(client, server, 16 * KIB, TURNS))
            self._spawn(self._move(server, client, 1 * MIB, 0))

    async def _move(self, source, target, bytes_max, turns):
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, bytes_max):
            await loop.sock_sendall(target, data)
            for _ in range(turns):
                await asyncio.sleep(0)


@pytest.mark.slow
@LOOPS
def test_memory_may_be_used_again_as_soon_as_a_write_returns(kind):
    loops.run(writes_of_reused_memory(), kind=kind)


async def writes_of_reused_memory():
    chance = random.Random(3)
    async with FakeSystem() as system, SlowWay(system.store), connect(system.uri) as client:
        system.controller.create("s", "t")
        written = []
        memory = bytearray(200 * KIB)
        async with client.event_writer("s", "t") as writer:
            while sum(map(len, written)) < 12 * MIB:
                await writer.drain()
                size = chance.choice([100, 5_000, 70_000, len(memory)])
                memory[:size] = chance.randbytes(size)
                written.append(bytes(memory[:size]))
                kind = chance.randrange(3)
                if kind == 0:
                    writer.write(memoryview(memory)[:size])
                elif kind == 1:
                    writer.write_many([memoryview(memory)[:size]])
                else:
                    writer.write_atomic([memoryview(memory)[:size]], "key")
                memory[:] = bytes(len(memory))
                await asyncio.sleep(0)
        (stored,) = system.controller.data_of("s", "t").values()
        assert stored == frame_list(written)[0]


@pytest.mark.slow
@LOOPS
@pytest.mark.parametrize("way", ["column", "events", "raw"])
def test_what_a_reader_got_may_be_written_on_while_the_reader_goes_on(kind, way):
    loops.run(copies_of_a_stream(way), kind=kind)


async def copies_of_a_stream(way):
    """Nothing but the writer refers to a batch once it was written."""
    chance = random.Random(4)
    async with FakeSystem() as system, SlowWay(system.store), connect(system.uri) as client:
        for stream in ("source", "target"):
            system.controller.create("s", stream)
        sizes = [chance.choice([10, 3_000, 100_000, 500_000]) for _ in range(40)]
        content = frame_list([chance.randbytes(size) for size in sizes])[0]
        (source,) = (segment for name, segment in system.store.segments.items() if "source" in name)
        source.data += content
        system.controller.seal_now("s", "source")
        make = client.byte_writer if way == "raw" else client.event_writer
        async with client.event_reader("s", "source") as reader, make("s", "target") as writer:
            while (batch := await reader.next_batch()) is not None:
                await writer.drain()
                if way == "raw":
                    writer.write(batch.raw)
                else:
                    writer.write_many(batch.to_arrow() if way == "column" else batch.payloads())
                del batch
        (stored,) = system.controller.data_of("s", "target").values()
        assert stored == content
