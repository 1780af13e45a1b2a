"""A server that encrypts: all three ports, its versions, its clients' certificates, and their exchange."""

import asyncio
import json
import os
import socket
import ssl
import urllib.error
import urllib.request

import pytest

from headrace.client import ClientConfig, ScalingPolicy, StreamConfiguration, connect
from headrace.errors import HeadraceError
from headrace.testing import LocalServer
from headrace.testing.local_server import ServerDiedError
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode
from tests.certificates import CertificateFiles, put

pytestmark = pytest.mark.cluster

PARTS = ("controller", "segmentstore", "rest")
PATIENCE_S = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("tls"), *files.arguments) as running:
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in running.log()
        assert running.stop() == 0


def config_of(files, **others):
    return ClientConfig(credentials=None, tls_authorities=files.ca, **others)


def address_of(server, part):
    host, _, port = server.addresses[part].rpartition(":")
    return host, int(port)


def shown_by(server, part, context):
    """Connect, and return the certificate that is shown."""
    context.set_alpn_protocols(["h2"] if part == "controller" else [])
    with (
        socket.create_connection(address_of(server, part), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True)


def ask_rest(server, path, context):
    with urllib.request.urlopen(f"{server.rest_url}{path}", context=context, timeout=PATIENCE_S) as answer:
        return json.load(answer)


async def write_and_read(client, scope):
    await client.create_scope(scope)
    await client.create_stream(scope, "t", StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    events = [b"%d" % number for number in range(1000)]
    async with client.event_writer(scope, "t") as writer:
        await writer.write_many(events, [str(number % 7) for number in range(1000)])
    async with client.event_reader(scope, "t", end="tail") as reader:
        found = [data async for batch in reader.batches() for data in batch]
    assert sorted(found) == sorted(events)


async def test_all_three_ports_serve(server, files):
    assert server.uri.startswith("tls://")
    assert server.rest_url.startswith("https://")
    async with connect(server.uri, config_of(files)) as client:
        await write_and_read(client, "served")
    found = await asyncio.to_thread(ask_rest, server, "/v1/scopes", files.trusting())
    assert {"scopeName": "served"} in found["scopes"]
    assert "listens on" not in server.log(), "only this machine reaches it"
    cert = ssl.PEM_cert_to_DER_cert(files.cert.read_text())
    for part in PARTS:
        assert await asyncio.to_thread(shown_by, server, part, files.trusting()) == cert


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_versions(server, files, part):
    old = files.trusting()
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shown_by(server, part, old)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        recent = files.trusting()
        recent.minimum_version = recent.maximum_version = version
        assert shown_by(server, part, recent)


def send_and_wait(server, part, data):
    """Send something, and wait for the end of the connection."""
    with socket.create_connection(address_of(server, part), PATIENCE_S) as plain:
        try:
            plain.sendall(data)
            while plain.recv(1 << 16):
                pass
        except ConnectionError:
            pass


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "hello": encode(c.Hello(17, 5)),
    "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]),
    "record": b"\x16\x03\x01\x00\x05hello",
    "zeros": bytes(200_000),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("part", PARTS)
async def test_clients_that_do_not_encrypt_end_and_leave_a_line(server, files, part, data):
    said = len(server.log())
    await asyncio.to_thread(send_and_wait, server, part, data)
    log = server.log()[said:]
    assert "Traceback" not in log
    assert len(log.splitlines()) <= 2
    async with connect(server.uri, config_of(files)) as client:
        assert await client.scope_exists("_system")


@pytest.mark.parametrize("part", PARTS)
def test_a_log_in_json_has_nothing_else(tmp_path, files, part):
    arguments = ("--in-memory", *files.arguments, "--log-format", "json")
    with LocalServer(tmp_path, *arguments) as server:
        for data in GARBAGE.values():
            send_and_wait(server, part, data)
        assert server.stop() == 0
    assert all(json.loads(line)["message"] for line in server.log().splitlines())


async def test_a_plain_client_of_ours_does_not_wait_for_ever(server, files):
    with pytest.raises(HeadraceError):
        async with connect(
            server.uri.replace("tls://", "tcp://"), ClientConfig(credentials=None, control_attempts=2)
        ) as client:
            await client.scope_exists("x")


async def test_clients_that_encrypt_to_a_server_that_does_not(tmp_path, files):
    with LocalServer(tmp_path, "--in-memory") as plain:
        assert plain.uri.startswith("tcp://")
        for part in PARTS:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(shown_by, plain, part, files.trusting())
        async with connect(plain.uri) as client:
            await write_and_read(client, "plain")
        assert "Traceback" not in plain.log()
        assert plain.stop() == 0


async def serves(server, part, context, config):
    """Whether a client is served at a port."""
    try:
        if part == "rest":
            return await asyncio.to_thread(ask_rest, server, "/v1/scopes", context) is not None
        if part == "controller":
            async with connect(server.uri, config) as client:
                return await client.scope_exists("_system")
        reader, writer = await asyncio.open_connection(
            *address_of(server, part), ssl=context, server_hostname="localhost"
        )
        writer.write(encode(c.Hello(17, 5)))
        decoder = FrameDecoder.for_client()
        while (reply := decoder.next_command()) is None and (data := await reader.read(1000)):
            decoder.feed(data)
        writer.close()
        return isinstance(reply, c.Hello)
    except (HeadraceError, OSError):
        return False


@pytest.mark.parametrize("wanted", ["optional", "required"])
async def test_certificates_of_clients(tmp_path, files, wanted):
    environment = {"HEADRACE_TLS__AUTHORITY": str(files.ca), "HEADRACE_TLS__CLIENT_CERTS": wanted}
    with LocalServer(tmp_path, "--in-memory", *files.arguments, environment=environment) as server:
        stranger = CertificateFiles(tmp_path / "stranger")
        without, own, wrong = files.trusting(), files.trusting(shows=True), files.trusting()
        wrong.load_cert_chain(stranger.client)
        for part in PARTS:
            config = config_of(files, control_attempts=1)
            assert await serves(server, part, without, config) == (wanted == "optional")
            config = config_of(files, tls_cert=files.client)
            assert await serves(server, part, own, config)
            config = config_of(files, control_attempts=1, tls_cert=stranger.client)
            # gRPC does not look at what it did not ask for.
            expected = part == "controller" and wanted == "optional"
            assert await serves(server, part, wrong, config) == expected
        async with connect(server.uri, config_of(files, tls_cert=files.client)) as client:
            await write_and_read(client, "known")
        assert "Traceback" not in server.log()
        assert server.stop() == 0


def test_files_that_do_not_fit_end_the_start(tmp_path, files):
    other = CertificateFiles(tmp_path / "other")
    arguments = ("--in-memory", "--tls-cert", str(files.cert), "--tls-key", str(other.key))
    with pytest.raises(ServerDiedError, match="do not belong together"):
        LocalServer(tmp_path, *arguments).start()
    with pytest.raises(ServerDiedError, match="--tls-key"):
        LocalServer(tmp_path, "--in-memory", "--tls-cert", str(files.cert)).start()


async def until_shown(server, context, cert):
    for part in PARTS:
        async with asyncio.timeout(PATIENCE_S):
            while await asyncio.to_thread(shown_by, server, part, context) != cert:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def key_of(event):
    return str(int(event) % 7)


async def test_certificates_are_exchanged_under_load(tmp_path):
    """Nothing that is connected notices, and whatever connects next sees the new certificate."""
    files = CertificateFiles(tmp_path / "certificates")
    with LocalServer(tmp_path / "server", *files.arguments) as server:
        async with connect(server.uri, config_of(files)) as client:
            await client.create_scope("busy")
            await client.create_stream("busy", "t", StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
            written, found, done = [], [], asyncio.Event()

            async def write():
                async with client.event_writer("busy", "t") as writer:
                    while not done.is_set():
                        events = [b"%d" % number for number in range(len(written), len(written) + 100)]
                        await writer.write_many(events, [key_of(event) for event in events])
                        written.extend(events)
                        await asyncio.sleep(0.03)

            async def read():
                async with client.event_reader("busy", "t") as reader:
                    found.extend([event.data async for event in reader])

            writing, reading = asyncio.ensure_future(write()), asyncio.ensure_future(read())
            before = (await asyncio.to_thread(statistics, server, files))["handshakes_failed"]
            for _ in range(2):
                files.exchange()
                cert = ssl.PEM_cert_to_DER_cert(files.cert.read_text())
                await until_shown(server, files.trusting(), cert)
                key = files.key.read_bytes()
                put(files.key, CertificateFiles(tmp_path / "other").key.read_bytes())
                said = len(server.log())
                await asyncio.to_thread(server.wait_for_log, "changed certificates are not used", 60, said)
                await until_shown(server, files.trusting(), cert)
                put(files.key, key)
                async with connect(server.uri, config_of(files)) as late:
                    assert await late.scope_exists("busy")
            done.set()
            await writing
            await client.seal_stream("busy", "t")
            await reading
            assert len(written) > 100
            assert sorted(found, key=key_of) == sorted(written, key=key_of)  # each key in its order
            after = (await asyncio.to_thread(statistics, server, files))["handshakes_failed"]
            assert after == before
        assert server.log().count("new connections are encrypted with") >= 3
        assert "is closed" not in server.log()
        assert "Traceback" not in server.log()
        assert server.stop() == 0


def statistics(server, files):
    return ask_rest(server, "/v1/debug/statistics", files.trusting())["listener"]


async def test_a_changed_authority_counts_for_new_connections(tmp_path, files):
    old, new = CertificateFiles(tmp_path / "old"), CertificateFiles(tmp_path / "new")
    trusted = tmp_path / "trusted.pem"
    put(trusted, old.ca.read_bytes())
    environment = {"HEADRACE_TLS__AUTHORITY": str(trusted), "HEADRACE_TLS__CLIENT_CERTS": "required"}
    with LocalServer(tmp_path, "--in-memory", *files.arguments, environment=environment) as server:

        async def is_served(shows, part):
            context = files.trusting()
            context.load_cert_chain(shows.client)
            config = config_of(files, control_attempts=1, tls_cert=shows.client)
            return await serves(server, part, context, config)

        for part in PARTS:
            assert await is_served(old, part)
            assert not await is_served(new, part)
        said = len(server.log())
        put(trusted, new.ca.read_bytes())
        await asyncio.to_thread(server.wait_for_log, "new connections are encrypted with", 60, said)
        for part in PARTS:
            assert await is_served(new, part)
            assert not await is_served(old, part)


def test_keys_are_in_no_output(server, files):
    key = files.key.read_text().splitlines()[1]
    assert key not in server.log()
    found = json.dumps(statistics(server, files))
    assert key not in found
    assert os.fspath(files.key) not in found
