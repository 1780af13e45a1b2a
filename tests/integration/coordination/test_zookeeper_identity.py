"""Encryption, passwords and what servers grant."""

import ssl

import pytest

from headrace.coordination.node import Node
from headrace.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    PreconditionError,
    UnreachableError,
)
from tests.certificates import CertificateFiles
from tests.zookeeper_cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]


@pytest.fixture
async def cluster(zookeeper):
    async with Cluster(zookeeper) as cluster:
        yield cluster


@pytest.fixture
def certificates(tmp_path):
    return CertificateFiles(tmp_path)


def digest(tmp_path, text):
    path = tmp_path / "digest"
    path.write_text(text)
    return str(path)


async def test_a_root_of_another_identity_is_closed(cluster, tmp_path):
    await cluster.open(digest_file=digest(tmp_path, "me:secret"))
    for other in ({}, {"digest_file": digest(tmp_path, "me:guessed")}):
        with pytest.raises(PermissionDeniedError, match="digest_file"):
            await cluster.open(**other)
    await cluster.open(digest_file=digest(tmp_path, "me:secret"))


async def test_nodes_are_for_the_identity_that_made_them(cluster, tmp_path):
    await cluster.open()  # makes the root, for everybody
    (tmp_path / "mine").mkdir()
    mine = digest(tmp_path / "mine", "me:secret\n")
    session = await cluster.open(digest_file=mine)
    await session.create("m/a", b"1")
    await session.create("m/b", b"", ephemeral=True)
    again = await cluster.open(digest_file=mine)
    assert await again.read("m/a") == Node(b"1", 0)
    assert await again.children("m") == ["a", "b"]
    for other in ({}, {"digest_file": digest(tmp_path, "me:guessed")}):
        stranger = await cluster.open(**other)
        for call in (
            stranger.read("m/a"),
            stranger.children("m"),
            stranger.write("m/a", b"2", 0),
            stranger.delete("m/a", 0),
            stranger.create("m/c", b""),
        ):
            with pytest.raises(PermissionDeniedError):
                await call
        assert stranger.lease.is_valid
    assert await again.read("m/a") == Node(b"1", 0)


async def test_an_identity_is_kept_over_reconnects(cluster, tmp_path):
    proxy = await cluster.proxy()
    session = await cluster.open(proxy.port, digest_file=digest(tmp_path, "me:secret"))
    await session.create("a", b"1")
    proxy.cut()
    assert await session.read("a") == Node(b"1", 0)


@pytest.mark.parametrize("text", ["", "me", "me:", ":secret", "me:a\nyou:b\n", "x:" + "y" * 2000])
async def test_a_digest_file_holds_one_user_with_a_password_and_errors_hold_none(cluster, tmp_path, text):
    with pytest.raises(InvalidArgumentError, match="USER:PASSWORD") as raised:
        await cluster.open(digest_file=digest(tmp_path, text))
    assert "secret" not in str(raised.value)
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        await cluster.open(digest_file=str(tmp_path / "absent"))


async def test_a_session_goes_over_tls_to_a_server_of_the_authority(cluster, certificates):
    proxy = await cluster.proxy(tls=server_context(certificates))
    session = await cluster.open(proxy.port, tls_authority=str(certificates.ca), host="localhost")
    await session.create("a", b"1")
    proxy.cut()
    assert await session.read("a") == Node(b"1", 0)
    await session.close()
    assert proxy.sessions == {session.session_id}


async def test_a_client_certificate_is_shown(cluster, certificates):
    context = server_context(certificates)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.ca)
    proxy = await cluster.proxy(tls=context)
    shown = {"tls_cert": str(certificates.client), "tls_key": str(certificates.client)}
    await cluster.open(proxy.port, tls_authority=str(certificates.ca), **shown)
    with pytest.raises(UnreachableError):
        await cluster.open(proxy.port, tls_authority=str(certificates.ca))


async def test_what_is_no_server_of_the_authority_gets_no_session(cluster, certificates, tmp_path):
    other = CertificateFiles(tmp_path / "other")
    proxy = await cluster.proxy(tls=server_context(other))
    with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
        await cluster.open(proxy.port, tls_authority=str(certificates.ca))
    assert proxy.sessions == set()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.authority.issue_cert("elsewhere.example.org").configure_cert(context)
    proxy = await cluster.proxy(tls=context)
    with pytest.raises(UnreachableError, match="certificate is not valid for"):
        await cluster.open(proxy.port, tls_authority=str(certificates.ca))


async def test_files_that_hold_no_certificates_are_named(cluster, certificates, tmp_path):
    absent = str(tmp_path / "absent.pem")
    with pytest.raises(InvalidArgumentError, match=r"absent\.pem"):
        await cluster.open(tls_authority=absent)
    with pytest.raises(InvalidArgumentError, match=r"absent\.pem"):
        await cluster.open(tls_authority=str(certificates.ca), tls_cert=absent, tls_key=absent)


async def test_the_lease_is_of_the_session_that_was_granted(cluster):
    """The server grants 20 s at most, and one that loses its connection has no longer lease than that."""
    proxy = await cluster.proxy()
    session = await cluster.open(proxy.port, session_s=60.0, margin_s=19.5)
    proxy.block()
    await session.lease.lost.wait()
    assert not session.lease.is_valid
    proxy.flow()
    await session.read("a")
    assert session.lease.is_valid  # an answer after all
    with pytest.raises(PreconditionError, match="grants sessions of 20 s"):
        await cluster.open(session_s=60.0, margin_s=20.0)


def server_context(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.cert, certificates.key)
    return context
