"""An encrypted connection between a client in memory and a transport that takes what the test lets it."""

import asyncio
import contextlib
import resource
import ssl
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.clock import SystemClock
from headrace.security.certificates import ServerCertificates
from headrace.security.tls_config import TlsConfig
from headrace.security.tls_transport import HANDSHAKE_S, TlsAcceptor
from tests.certificates import CertificateFiles
from tests.effort import examples
from tests.virtual_time import make_loop


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def context(files):
    return ServerCertificates(TlsConfig(cert=str(files.cert), key=str(files.key)), SystemClock()).context()


class Below(asyncio.Transport):
    """Takes everything at once, unless ``stuck``."""

    def __init__(self):
        super().__init__()
        self.written = bytearray()
        self.unsent = 0
        self.stuck = self.closed = self.aborted = self.reads = False
        self.reads = True
        self.protocol = None

    def write(self, data):
        assert not self.closed
        self.written += data
        if self.stuck:
            self.unsent += len(data)
            self.protocol.pause_writing()

    def drain(self):
        self.stuck, self.unsent = False, 0
        self.protocol.resume_writing()

    def get_write_buffer_size(self):
        return self.unsent

    def set_write_buffer_limits(self, high=None, low=None):
        self.limits = (high, low)

    def is_closing(self):
        return self.closed or self.aborted

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True


class Receiver:
    """What both kinds of protocol have in common here."""

    def __init__(self):
        self.received = bytearray()
        self.events = []
        self.stays_open = True
        self.on_data = lambda: None

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def connection_lost(self, exc):
        self.events.append("lost")

    def eof_received(self):
        self.events.append("eof")
        return self.stays_open

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")


class Streamed(Receiver, asyncio.Protocol):
    def data_received(self, data):
        self.received += data
        self.on_data()


class Buffered(Receiver, asyncio.BufferedProtocol):
    def __init__(self, size=1000):
        super().__init__()
        self.buffer = bytearray(size)

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.received += self.buffer[:nbytes]
        self.on_data()


def resident_bytes():
    """Return what the process has in memory: buffers of TLS are no objects of Python."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class World:
    """A server's connection, and a client that trusts it."""

    def __init__(self, files, context, protocol=None, client_context=None, **acceptor):
        self.acceptor = TlsAcceptor(lambda: context, **acceptor)
        self.protocol = protocol or Buffered()
        self.below = Below()
        self.server = self.below.protocol = self.acceptor.accept(lambda: self.protocol)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusting = client_context or files.trusting()
        self.client = trusting.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.server.connection_made(self.below)

    def deliver(self, data=None, cuts=()):
        """Move bytes between both: everything, or ``data``, to the server in pieces."""
        data = self.outgoing.read() if data is None else data
        while data and not self.below.is_closing():
            size = cuts.pop(0) if cuts else len(data)
            buffer = self.server.get_buffer(-1)
            size = min(size, len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self.server.buffer_updated(size)
        self.incoming.write(bytes(self.below.written))
        self.below.written.clear()

    def shake_hands(self, cuts=()):
        while True:
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.deliver(cuts=list(cuts))
            else:
                self.deliver(cuts=list(cuts))
                return self

    def send(self, data, cuts=()):
        self.client.write(data)
        self.deliver(cuts=list(cuts))

    def replies(self):
        """What the client has received; None behind it is the end that the server said."""
        found = []
        try:
            while data := self.client.read(1 << 20):
                found.append(data)
        except ssl.SSLWantReadError:
            return b"".join(found)
        except ssl.SSLZeroReturnError:
            pass
        return (*found, None)


@pytest.fixture
async def world(files, context):
    return World(files, context).shake_hands()


@given(
    sizes=st.lists(st.integers(0, 70_000), max_size=5),
    cuts=st.lists(st.integers(1, 5000), max_size=20),
    buffer=st.sampled_from([1, 17, 1000, 200_000]),
)
@settings(max_examples=examples(60))
def test_bytes_arrive_in_order_however_they_are_cut(files, context, sizes, cuts, buffer):
    async def run():
        for protocol in (Streamed(), Buffered(max(buffer, 1 + sum(sizes) // 1000))):
            world = World(files, context, protocol).shake_hands(cuts)
            sent = b""
            for number, size in enumerate(sizes):
                data = bytes([number]) * size
                world.send(data, cuts)
                sent += data
            assert bytes(protocol.received) == sent
            protocol.transport.writelines([bytes([n]) * size for n, size in enumerate(sizes)])
            world.deliver()
            assert world.replies() == sent
            assert protocol.events == ["made"]

    asyncio.run(run())


async def test_what_a_slow_client_has_not_taken_is_counted_to_the_byte(world):
    world.below.stuck = True
    world.protocol.transport.write(bytes(1_000_000))
    unsent = world.protocol.transport.get_write_buffer_size()
    assert unsent == len(world.below.written)
    assert 1_000_000 < unsent < 1_010_000
    assert world.protocol.events == ["made", *["pause"] * 16]
    world.below.drain()
    assert world.protocol.events[-1] == "resume"
    assert world.protocol.transport.get_write_buffer_size() == 0


async def test_a_protocol_that_pauses_gets_nothing_and_the_rest_when_it_resumes(world):
    transport, protocol = world.protocol.transport, world.protocol
    protocol.on_data = transport.pause_reading
    world.send(bytes(2500))
    assert len(protocol.received) == 1000
    assert not world.below.reads
    for expected in (2000, 2500):
        transport.resume_reading()
        assert world.below.reads
        assert len(protocol.received) < expected
        await asyncio.sleep(0)
        assert len(protocol.received) == expected
    protocol.on_data = lambda: None
    transport.resume_reading()
    await asyncio.sleep(0)
    world.send(b"more")
    assert len(protocol.received) == 2504


async def test_the_end_of_a_client_comes_behind_what_it_sent_and_it_gets_its_replies(world):
    transport, protocol = world.protocol.transport, world.protocol
    protocol.on_data = transport.pause_reading
    world.client.write(bytes(1500))
    with pytest.raises(ssl.SSLWantReadError):
        world.client.unwrap()
    world.deliver()
    assert protocol.events == ["made"]
    transport.resume_reading()
    await asyncio.sleep(0)
    transport.resume_reading()
    await asyncio.sleep(0)
    assert len(protocol.received) == 1500
    assert protocol.events == ["made", "eof"]
    assert world.server.eof_received()  # the socket's own end
    assert protocol.events == ["made", "eof"]
    transport.write(b"owed")
    transport.close()
    world.deliver()
    assert world.replies() == (b"owed", None)
    assert world.below.closed


async def test_bytes_behind_the_end_of_a_client_are_not_retained(world):
    with contextlib.suppress(ssl.SSLWantReadError):
        world.client.unwrap()
    world.deliver()
    assert world.protocol.events == ["made", "eof"]
    before = resident_bytes()
    for _ in range(1000):
        world.deliver(bytes(64 << 10))
    assert resident_bytes() - before < 16 << 20
    world.server.write(b"a reply that was owed")
    world.incoming.write(bytes(world.below.written))
    assert world.client.read() == b"a reply that was owed"


class Chatty(ssl.SSLObject):
    """Sends a record of its own whenever it is asked for bytes, as for each new key that a client wants."""

    def read(self, size, buffer):
        self.answers.write(bytes(27))
        return super().read(size, buffer)


@pytest.fixture
def chatty(context, monkeypatch):
    def wrap(incoming, outgoing, **options):
        made = Chatty._create(incoming, outgoing, context=context, **options)
        made.answers = outgoing
        return made

    monkeypatch.setattr(context, "wrap_bio", wrap)
    return context


@pytest.mark.parametrize("takes", [False, True])
async def test_a_client_that_takes_no_answers_of_tls_is_closed(files, chatty, caplog, takes):
    caplog.set_level("INFO")
    world = World(files, chatty).shake_hands()
    for _ in range(3000):
        world.below.stuck = not takes
        world.client.write(b"x")
        world.deliver()
        if world.below.aborted:
            break
    assert world.below.aborted is not takes
    assert world.below.unsent < 128 << 10
    assert caplog.text.count("its answers are not taken") == (0 if takes else 1)


async def test_a_connection_without_a_last_word_ends_too(world):
    world.protocol.stays_open = False
    world.send(b"abc")
    world.server.eof_received()
    assert world.protocol.events == ["made", "eof"]
    assert world.below.closed
    world.server.connection_lost(None)
    assert world.protocol.events == ["made", "eof", "lost"]
    world.protocol.transport.write(b"nobody gets it")
    world.protocol.transport.close()


async def test_nothing_is_passed_on_after_a_close(world):
    world.client.write(b"late")
    world.protocol.transport.close()
    assert world.protocol.transport.is_closing()
    world.server.buffer_updated(0)
    assert not world.protocol.received


async def test_damaged_bytes_end_the_connection_with_a_line(world, caplog):
    caplog.set_level("INFO")
    world.client.write(b"secret words")
    damaged = bytearray(world.outgoing.read())
    damaged[-1] ^= 1
    world.deliver(bytes(damaged))
    assert world.below.aborted
    assert not world.protocol.received
    assert "is closed: TLS: " in caplog.text


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\x81\0\0\0\x08" * 3, bytes(70_000)]
)
async def test_garbage_fails_the_handshake_makes_no_protocol_and_is_counted(files, context, caplog, garbage):
    caplog.set_level("INFO")
    world = World(files, context)
    world.deliver(garbage)
    assert world.below.is_closing()
    assert world.acceptor.failures == 1
    assert not world.acceptor.handshakes
    assert world.protocol.events == []
    assert len(caplog.records) == 1
    assert "TLS handshake of" in caplog.text


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_a_client_that_knows_old_versions_only_is_refused(files, context):
    old = files.trusting()
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    world = World(files, context, client_context=old)
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol version"):
        world.shake_hands()
    assert world.acceptor.failures == 1


def test_a_client_that_says_nothing_is_closed_after_a_while(files, context):
    async def run():
        silent, slow, good = (World(files, context) for _ in range(3))
        good.shake_hands()
        slow.deliver(b"\x16\x03\x01")
        await asyncio.sleep(HANDSHAKE_S - 0.1)
        assert not silent.below.is_closing()
        await asyncio.sleep(0.2)
        assert silent.below.is_closing()
        assert slow.below.is_closing()
        assert not good.below.is_closing()
        assert not silent.acceptor.handshakes

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run())


async def test_a_port_that_is_only_probed_is_no_failure(files, context):
    world = World(files, context)
    assert not world.server.eof_received()
    world.server.connection_lost(None)
    assert (world.acceptor.failures, len(world.acceptor.handshakes)) == (0, 0)
    world = World(files, context)
    world.deliver(b"\x16\x03\x01")
    assert not world.server.eof_received()
    assert world.acceptor.failures == 1


async def test_handshakes_are_bounded_and_end_with_the_acceptor(files, context):
    refused = World(files, context, admits=lambda: False)
    assert refused.below.aborted
    world = World(files, context)
    world.acceptor.close()
    assert world.below.aborted


async def test_the_protocol_learns_that_it_is_encrypted(world):
    transport = world.protocol.transport
    assert transport.get_extra_info("sslcontext") is transport.get_extra_info("ssl_object").context
    assert transport.get_extra_info("peername", "nobody") == "nobody"
    assert transport.get_protocol() is world.protocol
