"""What connections do to each other through the byte budget that they share."""

import asyncio
import gc

import pytest

from headrace.limits import KIB, MIB
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.connection import Connection
from headrace.segmentstore.ingress.listener import Listener
from headrace.wire import commands as c
from headrace.wire.catalogue import TYPE_IDS
from headrace.wire.frames import HEAD
from tests.unit.segmentstore.ingress.world import SEGMENT, FakeHome, Peer


def info(number):
    return c.GetStreamSegmentInfo(number, SEGMENT, "x" * 60_000)


class Gate:
    """Requests pass it one by one."""

    def __init__(self):
        self.passes = asyncio.Semaphore(0)

    async def wait(self):
        await self.passes.acquire()


async def test_a_request_that_is_answered_at_once_does_not_stop_the_next_one(store):
    store.add(SEGMENT)
    store.gate = Gate()
    home = FakeHome(store, IngressConfig(connection_bytes_max=2 * MIB))
    others = [Peer(home) for _ in range(4)]
    for peer in others:
        peer.feed(*map(info, range(12)))
        await peer.replies()
    assert home.budget.waiting, "the lane is full"
    peer = Peer(home)
    peer.feed(c.FlushToStorage(0, "x" * 60_000, 1), info(2))
    later = [Peer(home) for _ in range(4)]
    for each in later:
        each.feed(*map(info, range(12)))
        await each.replies()
    seen = []
    for _ in range(200):
        store.gate.passes.release()
        seen += await peer.replies()
        for each in (*others, *later):
            await each.replies(4)
    assert [type(reply) for reply in seen] == [c.OperationUnsupported, c.StreamSegmentInfo]
    assert await peer.ask(c.KeepAlive()) == [c.KeepAlive()]
    home.budget.check()


@pytest.mark.slow
@pytest.mark.real_loop
async def test_a_request_without_a_body_leaves_no_connection_behind(store):
    listener = Listener(store)
    port = await listener.start("127.0.0.1", 0)

    async def connections_after(count):
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD.pack(TYPE_IDS[c.GetStreamSegmentInfo], 0))
            await reader.read()
            writer.close()
        gc.collect()
        return sum(isinstance(each, Connection) for each in gc.get_objects())

    few = await connections_after(5)
    assert await connections_after(30) <= few + 5
    await listener.stop()


async def test_clients_that_take_no_replies_close_no_reader_that_waits(store):
    store.add(SEGMENT, bytes(512 * KIB))
    home = FakeHome(store, IngressConfig(connection_bytes_max=8 * MIB))
    for _ in range(12):
        slow = Peer(home)
        slow.transport.stuck = True
        slow.feed(c.ReadSegment(SEGMENT, 0, 400 * KIB, "", 1))
        await slow.replies()
    reader = Peer(home)
    reader.feed(*[c.ReadSegment(SEGMENT, 512 * KIB, 1000, "", number) for number in range(70)])
    await reader.replies(20)
    assert home.budget.unsent_tight
    assert not reader.closed
    assert reader.connection.statistics()["reads_waiting"] == 70
