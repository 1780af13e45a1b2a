"""Real sockets on the loopback: garbage, single bytes, slow and vanishing clients, stopping."""

import asyncio
import inspect
import logging
import random
import socket
import struct

import pytest

from headrace.errors import ContainerOfflineError
from headrace.limits import MIB
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.listener import Listener
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.world import NULL, SEGMENT, WRITER, acked, append, block

pytestmark = pytest.mark.real_loop

PATIENCE_S = 120


class Client:
    """A plain client on a socket."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.decoder = FrameDecoder.for_client()

    tls = None

    @classmethod
    async def connect(cls, port):
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=cls.tls))

    def send(self, *frames):
        self.writer.write(b"".join(f if isinstance(f, bytes) else encode(f) for f in frames))

    async def reply(self):
        """The next reply; None at the end of the connection."""
        while (command := self.decoder.next_command()) is None:
            data = await asyncio.wait_for(self.reader.read(1 << 16), PATIENCE_S)
            if not data:
                return None
            self.decoder.feed(data)
        return command

    async def ask(self, *frames):
        self.send(*frames)
        return await self.reply()

    async def rest(self):
        """Every reply until the server closes."""
        replies = []
        try:
            while (reply := await self.reply()) is not None:
                replies.append(encode(reply))
        except ConnectionError:
            pass
        return replies

    def close(self):
        self.writer.close()


@pytest.fixture
async def store():
    store = FakeStore()
    store.add(SEGMENT)
    return store


@pytest.fixture
async def listener(store):
    listener = Listener(store, IngressConfig(drain_s=1.0))
    yield listener
    await asyncio.wait_for(listener.stop(), PATIENCE_S)
    assert listener.connections == []


@pytest.fixture
async def port(listener):
    return await listener.start("127.0.0.1", 0)


async def until(condition):
    """Let the loop run until ``condition`` holds; the test's own time-out bounds it."""
    while not condition():  # noqa: ASYNC110 - what is waited for is the kernel's doing
        await asyncio.sleep(0.001)


async def test_a_conversation_over_a_real_socket(port):
    client = await Client.connect(port)
    assert await client.ask(c.Hello(15, 5)) == c.Hello(17, 5)
    assert await client.ask(c.SetupAppend(1, WRITER, SEGMENT, "")) == c.AppendSetup(1, SEGMENT, WRITER, NULL)
    assert await client.ask(append(1, b"hello")) == acked(1, NULL, 5)
    reply = await client.ask(c.ReadSegment(SEGMENT, 1, 100, "", 2))
    assert reply == c.SegmentRead(SEGMENT, 1, True, False, b"ello", 2)
    client.close()


async def test_single_bytes_over_a_real_socket(port, store):
    client = await Client.connect(port)
    client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = encode(c.Hello(16, 5)) + encode(c.SetupAppend(1, WRITER, SEGMENT, "")) + block(1, b"abc")
    for byte in stream:
        client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await client.reply() == c.Hello(17, 5)
    assert isinstance(await client.reply(), c.AppendSetup)
    assert await client.reply() == acked(1, NULL, 3)
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
async def test_garbage_ends_one_connection_and_nothing_else(port, listener, store, seed):
    source = random.Random(seed)
    healthy = await Client.connect(port)
    assert await healthy.ask(c.Hello(16, 5)) == c.Hello(17, 5)
    lawful = encode(c.Hello(16, 5)) + encode(c.SetupAppend(1, WRITER, SEGMENT, "")) + append(1, b"good")
    match seed % 3:
        case 0:
            stream = source.randbytes(source.randint(8, 5000))
        case 1:
            stream = lawful + source.randbytes(source.randint(8, 100_000))
        case _:
            broken = bytearray(lawful + block(2, b"more") + encode(c.GetStreamSegmentInfo(1, SEGMENT, "")))
            for _ in range(3):
                broken[source.randrange(len(broken))] ^= 1 << source.randrange(8)
            stream = bytes(broken) + struct.pack(">ii", 12345, 0)
    client = await Client.connect(port)
    client.send(stream)
    client.writer.write_eof()  # damage may announce a frame that never comes
    replies = await client.rest()  # nothing but frames, and then the end
    if seed % 3 == 1:
        assert encode(acked(1, NULL, 4)) in replies
        assert store.segments[SEGMENT].data == b"good"
    client.close()
    assert await healthy.ask(c.KeepAlive()) == c.KeepAlive()
    healthy.close()


async def test_a_hostile_length_costs_no_memory(port, listener):
    client = await Client.connect(port)
    client.send(struct.pack(">ii", 3, (1 << 31) - 1))
    assert await client.rest() == []
    announced = await Client.connect(port)
    announced.send(struct.pack(">ii", 74, 16_000_000))
    await until(lambda: listener.totals.bytes_received >= 16)
    await until(lambda: len(listener.connections) == 1)
    announced.close()


@pytest.mark.slow
async def test_a_client_that_does_not_read_bounds_what_is_kept_for_it(port, listener, store):
    store.add("s", bytes(4 * MIB))
    client = await Client.connect(port)
    client.writer.transport.pause_reading()
    client.send(*[c.ReadSegment("s", 0, 2 * MIB, "", n) for n in range(60)])
    await until(lambda: listener.connections and listener.connections[0]["blocked"] == ["outbox"])
    assert store.results_out <= 2
    assert store.results_taken < 20
    client.writer.transport.resume_reading()
    for n in range(60):
        reply = await client.reply()
        assert (reply.request_id, len(reply.data)) == (n, 2 * MIB)
        assert store.results_out <= 2
    client.close()


async def test_a_vanished_client_leaves_no_waiting_read_and_no_transient_segment(port, listener, store):
    client = await Client.connect(port)
    requests = [c.CreateTransientSegment(n, WRITER, SEGMENT, "") for n in range(5)]
    names = [(await client.ask(request)).segment for request in requests]
    client.send(*[c.ReadSegment(SEGMENT, 0, 10, "", n) for n in range(100)])
    assert await client.ask(c.KeepAlive()) == c.KeepAlive()
    assert listener.connections[0]["reads_waiting"] == 100
    assert set(names) < set(store.segments)
    client.writer.transport.abort()
    await until(lambda: not listener.connections)
    await until(lambda: list(store.segments) == [SEGMENT])
    await until(lambda: listener.supervisor.statistics().running == [])


async def test_transients_of_an_offline_container_stay_behind_without_harm(port, listener, store, caplog):
    client = await Client.connect(port)
    await client.ask(c.CreateTransientSegment(1, WRITER, SEGMENT, ""))
    store.offline = ContainerOfflineError("away")
    with caplog.at_level(logging.WARNING, logger="headrace.segmentstore.ingress"):
        client.close()
        await until(lambda: not listener.connections)
        await until(lambda: not listener.supervisor.statistics().running)
    assert "stays behind" in caplog.text


async def test_a_client_that_says_no_more_still_gets_its_replies(port, store, listener):
    store.durable_at_once = False
    store.add("cold", bytes(MIB))
    store.cold.add("cold")
    client = await Client.connect(port)
    client.send(c.Hello(16, 5), c.SetupAppend(1, WRITER, SEGMENT, ""), append(1, b"abc"), c.KeepAlive())
    client.send(c.ReadSegment(SEGMENT, 0, 10, "", 2), c.ReadSegment("cold", 0, MIB, "", 3))
    client.writer.write_eof()
    for expected in (c.Hello, c.AppendSetup, c.KeepAlive):
        assert isinstance(await client.reply(), expected)
    await until(lambda: store.pending)
    store.commit()
    assert await client.reply() == acked(1, NULL, 3)
    await until(lambda: listener.connections[0]["reads_waiting"] == 1)
    store.storage.set()
    assert await client.rest() == [encode(c.SegmentRead("cold", 0, True, False, bytes(MIB), 3))]
    client.close()


async def test_stopping_sends_what_is_owed_and_closes_everybody(store):
    listener = Listener(store)
    port = await listener.start("127.0.0.1", 0)
    store.durable_at_once = False
    clients = [await Client.connect(port) for _ in range(5)]
    for n, client in enumerate(clients):
        writer = bytes([n]) * 16
        await client.ask(c.SetupAppend(1, writer, SEGMENT, ""))
        client.send(append(1, b"abc", writer=writer), c.ReadSegment(SEGMENT, 0, 10, "", 2))
    await until(lambda: len(store.pending) == 5)
    stopping = asyncio.ensure_future(listener.stop())
    await asyncio.sleep(0)
    with pytest.raises(OSError):
        await Client.connect(port)
    assert not stopping.done()
    store.commit()
    for client in clients:
        (reply,) = await client.rest()
        assert reply[:4] == b"\0\0\0\7"
    await stopping
    await listener.stop()


@pytest.mark.parametrize("turns", range(5))
async def test_stopping_does_not_wait_for_a_client_that_was_accepted_meanwhile(store, turns):
    listener = Listener(store)
    port = await listener.start("127.0.0.1", 0)
    client = await Client.connect(port)
    late = socket.create_connection(("127.0.0.1", port))  # complete before the loop has looked
    for _ in range(turns):
        await asyncio.sleep(0)
    await asyncio.wait_for(listener.stop(), PATIENCE_S)
    assert not listener.connections
    late.close()
    client.close()


async def test_stopping_does_not_wait_for_a_client_that_takes_nothing(store):
    store.add("s", bytes(8 * MIB))
    listener = Listener(store, IngressConfig(drain_s=0.05))
    port = await listener.start("127.0.0.1", 0)
    client = await Client.connect(port)
    client.writer.transport.pause_reading()
    client.send(*[c.ReadSegment("s", 0, 2 * MIB, "", n) for n in range(20)])
    await until(lambda: listener.connections and listener.connections[0]["blocked"] == ["outbox"])
    await asyncio.wait_for(listener.stop(), PATIENCE_S)
    assert store.results_out == 0
    client.close()


async def test_connections_beyond_the_bound_are_closed_at_once(store):
    listener = Listener(store, IngressConfig(connections_max=2))
    port = await listener.start("127.0.0.1", 0)
    clients = [await Client.connect(port) for _ in range(2)]
    for client in clients:
        assert await client.ask(c.KeepAlive()) == c.KeepAlive()
    refused = await Client.connect(port)
    assert await refused.rest() == []
    assert listener.statistics().connections_refused == 1
    clients[0].close()
    await until(lambda: len(listener.connections) == 1)
    again = await Client.connect(port)
    assert await again.ask(c.KeepAlive()) == c.KeepAlive()
    await listener.stop()


async def test_a_taken_port_is_an_os_error(port, store):
    second = Listener(store)
    with pytest.raises(OSError):
        await second.start("127.0.0.1", port)
    await second.stop()


@pytest.mark.parametrize("ports_taken", [0, 2])
async def test_a_name_with_two_addresses_is_served_on_both_with_one_port(store, monkeypatch, ports_taken):
    with socket.create_server(("127.0.0.2", 0)) as other:
        taken = [other.getsockname()[1]] * ports_taken

        def both(_host, port, *_args, **_options):
            ports = [port, taken.pop() if port and taken else port]  # what another program has
            return [
                (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)
                for place in zip(("127.0.0.1", "127.0.0.2"), ports, strict=True)
            ]

        monkeypatch.setattr(socket, "getaddrinfo", both)
        listener = Listener(store)
        port = await listener.start("both.example.org", 0)
        monkeypatch.undo()
        assert not taken
    for address in ("127.0.0.1", "127.0.0.2"):
        socket.create_connection((address, port), PATIENCE_S).close()
    await listener.stop()


@pytest.mark.slow
async def test_hundreds_of_clients_with_ten_thousand_appends(port, store, listener):
    async def run(n):
        client = await Client.connect(port)
        writer = n.to_bytes(16, "big")
        segment = f"s{n % 7}"
        if segment not in store.segments:
            store.add(segment)
        await client.ask(c.SetupAppend(1, writer, segment, ""))
        client.send(b"".join(block(k, b"0123456789", writer=writer, request_id=k) for k in range(1, 51)))
        last = NULL
        while last != 50:
            reply = await client.reply()
            assert reply.previous_event_number == last
            last = reply.event_number
        client.close()

    await asyncio.gather(*(run(n) for n in range(200)))
    assert sum(len(store.segments[f"s{n}"].data) for n in range(7)) == 200 * 50 * 10
    assert listener.totals.appends == 10_000
    await until(lambda: not listener.connections)


@pytest.mark.slow
@pytest.mark.parametrize(
    "test",
    [
        test_a_conversation_over_a_real_socket,
        test_single_bytes_over_a_real_socket,
        test_a_hostile_length_costs_no_memory,
        test_a_client_that_does_not_read_bounds_what_is_kept_for_it,
        test_a_vanished_client_leaves_no_waiting_read_and_no_transient_segment,
        test_a_client_that_says_no_more_still_gets_its_replies,
        test_stopping_sends_what_is_owed_and_closes_everybody,
        test_stopping_does_not_wait_for_a_client_that_takes_nothing,
        test_connections_beyond_the_bound_are_closed_at_once,
        test_hundreds_of_clients_with_ten_thousand_appends,
    ],
)
def test_the_same_holds_on_uvloop(test):
    uvloop = pytest.importorskip("uvloop")

    async def run():
        store = FakeStore()
        store.add(SEGMENT)
        listener = Listener(store, IngressConfig(drain_s=1.0))
        given = {"store": store, "listener": listener, "port": await listener.start("127.0.0.1", 0)}
        try:
            await test(**{name: given[name] for name in inspect.signature(test).parameters})
        finally:
            await asyncio.wait_for(listener.stop(), PATIENCE_S)
        assert listener.connections == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
