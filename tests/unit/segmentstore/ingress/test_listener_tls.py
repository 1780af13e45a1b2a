"""The same conversations as without encryption, on both loops; and clients that do not encrypt."""

import asyncio
import contextlib
import inspect
import socket
import ssl

import pytest

from headrace.limits import MIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.loops import loop_factory
from headrace.security.certificates import ServerCertificates
from headrace.security.tls_config import TlsConfig
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.listener import Listener
from headrace.wire import commands as c
from headrace.wire.frames import encode
from tests.certificates import CertificateFiles
from tests.unit.segmentstore.ingress import test_listener as plain
from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.test_listener import PATIENCE_S, Client, until
from tests.unit.segmentstore.ingress.world import SEGMENT, WRITER, append, block

pytestmark = pytest.mark.real_loop


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def context(files):
    return ServerCertificates(TlsConfig(cert=str(files.cert), key=str(files.key)), SystemClock()).context


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request, files, context, monkeypatch):
    """Runs a test with a store, a listener and its port, and clients that trust it."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    monkeypatch.setattr(Client, "tls", files.trusting())

    async def run_with_listener(test, **config):
        store = FakeStore()
        store.add(SEGMENT)
        listener = Listener(store, IngressConfig(drain_s=1.0, **config))
        port = await listener.start("127.0.0.1", 0, context)
        given = {"store": store, "listener": listener, "port": port}
        try:
            await test(**{name: given[name] for name in inspect.signature(test).parameters})
        finally:
            await asyncio.wait_for(listener.stop(), PATIENCE_S)
        assert listener.connections == []

    def run(test, **config):
        with asyncio.Runner(loop_factory=loop_factory(request.param)) as runner:
            runner.run(run_with_listener(test, **config))

    return run


@pytest.mark.parametrize(
    "test",
    [
        plain.test_a_conversation_over_a_real_socket,
        plain.test_single_bytes_over_a_real_socket,
        plain.test_a_hostile_length_costs_no_memory,
        pytest.param(
            plain.test_a_client_that_does_not_read_bounds_what_is_kept_for_it, marks=pytest.mark.slow
        ),
        plain.test_a_vanished_client_leaves_no_waiting_read_and_no_transient_segment,
    ],
)
def test_the_same_holds_with_tls(run, test):
    run(test)


@pytest.mark.slow
def test_large_frames_both_ways(run):
    async def test(port, store, listener):
        store.add("s", bytes(3 * MIB))
        client = await Client.connect(port)
        assert await client.ask(c.Hello(15, 5)) == c.Hello(17, 5)
        await client.ask(c.SetupAppend(1, WRITER, SEGMENT, ""))
        large = bytes(range(256)) * 4096
        client.send(block(1, large), append(2, b"end"))
        while (reply := await client.reply()).event_number != 2:
            pass
        assert reply.current_segment_write_offset == len(large) + 3
        for _ in range(5):
            assert len((await client.ask(c.ReadSegment("s", 0, 2 * MIB, "", 1))).data) == 2 * MIB
        assert store.results_out == 0
        client.send(c.ReadSegment(SEGMENT, len(large) + 3, 10, "", 2))
        assert await client.ask(c.KeepAlive()) == c.KeepAlive()
        client.close()
        await until(lambda: not listener.connections)

    run(test)


@pytest.mark.slow
def test_unsent_replies_are_counted_until_the_client_has_taken_them(run):
    async def test(port, store, listener):
        store.add("s", bytes(2 * MIB))
        client = await Client.connect(port)
        client.writer.transport.pause_reading()
        client.send(*[c.ReadSegment("s", 0, 2 * MIB, "", n) for n in range(20)])
        await until(lambda: listener.connections and listener.connections[0]["blocked"] == ["outbox"])
        assert listener.statistics().unsent_bytes > 1 * MIB
        assert store.results_out == 0, "an encrypted copy needs no view of the cache"
        client.writer.transport.resume_reading()
        for _ in range(20):
            assert len((await client.reply()).data) == 2 * MIB
        await until(lambda: listener.statistics().unsent_bytes == 0)
        client.close()

    run(test)


def test_a_client_that_says_no_more_still_gets_its_replies(run):
    async def test(port, store, listener):
        store.durable_at_once = False
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = Client.tls.wrap_bio(incoming, outgoing, server_hostname="localhost")

        async def repeat(call):
            while True:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await asyncio.wait_for(reader.read(1 << 16), PATIENCE_S))

        await repeat(tls.do_handshake)
        tls.write(encode(c.SetupAppend(1, WRITER, SEGMENT, "")) + append(1, b"abc"))
        with pytest.raises(ssl.SSLWantReadError):
            tls.unwrap()
        writer.write(outgoing.read())
        await until(lambda: store.pending)
        store.commit()
        client = Client(reader, writer)
        while True:
            try:
                data = await repeat(lambda: tls.read(1 << 16))
            except ssl.SSLZeroReturnError:
                break
            if not data:
                break
            client.decoder.feed(data)
        replies = list(client.decoder.commands())
        assert [type(reply) for reply in replies] == [c.AppendSetup, c.DataAppended]
        assert await reader.read() == b""
        client.close()

    run(test)


def test_clients_that_do_not_encrypt_end_and_are_counted(run):
    async def test(port, listener):
        for sent in (encode(c.Hello(17, 5)), b"GET / HTTP/1.1\r\n\r\n", bytes(1 * MIB)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
        assert listener.statistics().handshakes_failed == 3
        assert listener.statistics().connections_accepted == 0
        client = await Client.connect(port)
        assert await client.ask(c.KeepAlive()) == c.KeepAlive()
        client.close()

    run(test)


def test_unfinished_handshakes_count_as_connections_and_do_not_delay_a_stop(run):
    async def test(port, listener):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        await until(lambda: listener.statistics().handshakes == 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        assert listener.statistics().connections_refused == 1
        writer.close()
        silent.pop().close()
        await until(lambda: listener.statistics().handshakes == 2)
        client = await Client.connect(port)
        assert await client.ask(c.KeepAlive()) == c.KeepAlive()
        await listener.stop()
        assert await client.rest() == []
        for each in silent:
            each.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                assert each.recv(1) == b""
            each.close()
        client.close()

    run(test, connections_max=3)
