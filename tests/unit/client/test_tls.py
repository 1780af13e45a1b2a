"""Encrypted connections, and one clear error for each way in which they do not come about."""

import asyncio
import datetime as dt
import ssl

import grpc
import pytest
import trustme
from fake_server import FakeSystem

from headrace.client import ClientConfig, connect
from headrace.client.blocking import connect as connect_blocking
from headrace.client.connections.pool import ConnectionPool, Use
from headrace.client.connections.tls import tls_context
from headrace.errors import InvalidArgumentError, TlsError, UnreachableError
from headrace.model.endpoint import Endpoint

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
FAR_AWAY = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    """PEM files by name: the authority, another one, and a certificate of a client."""
    directory = tmp_path_factory.mktemp("pem")
    authority.cert_pem.write_to_path(directory / "ca")
    trustme.CA().cert_pem.write_to_path(directory / "other-ca")
    authority.issue_cert("me@example.org").private_key_and_cert_chain_pem.write_to_path(directory / "client")
    return directory


def server_context(authority, cert, *, wants_certificates=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    if wants_certificates:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def server_credentials(authority, cert, *, wants_certificates=False):
    chain = b"".join(each.bytes() for each in cert.cert_chain_pems)
    pair = (cert.private_key_pem.bytes(), chain)
    return grpc.ssl_server_credentials(
        [pair], authority.cert_pem.bytes() if wants_certificates else None, wants_certificates
    )


@pytest.fixture
async def start(authority):
    """Starts a system: ``tls`` tells which of its parts encrypt."""
    systems = []

    async def start_system(tls="both", cert=None, **options):
        cert = cert or authority.issue_cert("localhost", "127.0.0.1")
        system = FakeSystem()
        systems.append(system)
        await system.start(
            server_context(authority, cert, **options) if tls in {"both", "store"} else None,
            server_credentials(authority, cert, **options) if tls in {"both", "controller"} else None,
        )
        system.controller.create("s", "t")
        return system

    yield start_system
    for each in systems:
        await each.__aexit__()


def encrypted(system):
    return system.uri.replace("tcp://", "tls://")


async def write_and_read(client):
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"hello")
    async with client.event_reader("s", "t") as reader:
        return bytes((await anext(aiter(reader))).data)


async def test_events_go_and_come_encrypted(start, files):
    system = await start()
    async with connect(encrypted(system), ClientConfig(tls_authorities=files / "ca")) as client:
        assert await write_and_read(client) == b"hello"


async def test_the_environment_names_the_authorities(start, files, monkeypatch):
    monkeypatch.setenv("HEADRACE_TLS_CA", str(files / "ca"))
    async with connect(encrypted(await start())) as client:
        assert await client.create_scope("scope")


async def test_a_client_shows_its_certificate_to_servers_that_want_one(start, files):
    system = await start(wants_certificates=True)
    config = ClientConfig(tls_authorities=files / "ca", tls_cert=files / "client")
    async with connect(encrypted(system), config) as client:
        assert await write_and_read(client) == b"hello"


async def test_a_client_without_a_certificate_learns_that_servers_may_want_one(start, files):
    system = await start(wants_certificates=True)
    config = ClientConfig(tls_authorities=files / "ca", control_attempts=2)
    async with connect(encrypted(system), config) as client:
        with pytest.raises((UnreachableError, TlsError), match="tls_cert"):
            await client.create_scope("scope")
    pool = ConnectionPool(tls=tls_context(config))
    with pytest.raises((UnreachableError, TlsError), match="tls_cert"):
        await pool.lease(Endpoint("127.0.0.1", system.store.port), Use.READ)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "tls", "authorities", "words"),
    [
        ("tcp", "both", "ca", "speaks TLS and this client does not: connect with tls://"),
        ("tls", "neither", "ca", "does not speak TLS: connect with tcp://"),
        ("tls", "both", "other-ca", "is not trusted .*--tls-ca FILE"),
        ("tls", "both", None, "is not trusted .*--tls-ca FILE"),
        ("tcp", "store", "ca", "speaks TLS and this client does not"),
        ("tls", "controller", "ca", "does not speak TLS"),
    ],
)
async def test_a_mix_up_is_one_clear_error_at_once(start, files, uri, tls, authorities, words):
    system = await start(tls)
    config = ClientConfig(tls_authorities=files / authorities if authorities else None)
    async with connect(system.uri.replace("tcp", uri), config) as client:
        with pytest.raises(TlsError, match=words):
            await write_and_read(client)
    pool = ConnectionPool(tls=tls_context(config) if uri == "tls" else None)
    if tls != "controller" and (uri == "tls") != (tls in {"both", "store"}):
        with pytest.raises(TlsError, match=words):
            await pool.lease(Endpoint("127.0.0.1", system.store.port), Use.READ)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"identities": ["example.org"]}, "is for other names"),
        ({"not_after": LONG_AGO}, "has expired"),
        ({"not_before": FAR_AWAY, "not_after": FAR_AWAY}, "not valid yet: compare the clocks"),
    ],
)
async def test_a_certificate_that_is_no_good_says_why(start, authority, files, options, words):
    cert = authority.issue_cert(*options.pop("identities", ["localhost", "127.0.0.1"]), **options)
    system = await start(cert=cert)
    config = ClientConfig(tls_authorities=files / "ca")
    async with connect(encrypted(system), config) as client:
        with pytest.raises(TlsError, match=words):
            await client.create_scope("scope")
    pool = ConnectionPool(tls=tls_context(config))
    with pytest.raises(TlsError, match=words):
        await pool.lease(Endpoint("127.0.0.1", system.store.port), Use.READ)


async def test_a_server_that_hangs_up_on_everybody_is_tried_again(start):
    async def hang_up(_, writer):
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        pool = ConnectionPool()
        with pytest.raises(UnreachableError, match="closed the connection"):
            await pool.lease(Endpoint(*server.sockets[0].getsockname()), Use.READ)


@pytest.mark.parametrize(
    "options", [{"tls_authorities": "missing"}, {"tls_authorities": "text"}, {"tls_cert": "ca"}]
)
async def test_a_file_that_is_none_of_ours_is_named(files, options):
    (files / "text").write_text("no certificate")
    config = ClientConfig(**{name: files / value for name, value in options.items()})
    with pytest.raises(InvalidArgumentError, match=next(iter(options.values()))):
        connect("tls://localhost:1", config)
    with pytest.raises(InvalidArgumentError, match=next(iter(options.values()))):
        connect_blocking("tls://localhost:1", config)
