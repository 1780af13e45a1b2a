"""The kit on a server of ours that does what AWS documents."""

import asyncio
import os
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest
import trustme

from headrace.errors import (
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageReadRefusedError,
    StorageWriteError,
    StorageWriteRefusedError,
    UnsupportedError,
)
from headrace.limits import MIB
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.providers.stores import prove_store
from tests.stores.faults import StoreFaults
from tests.stores.providers import StoreContract, provider_at, wrapped
from tests.stores.small_s3 import SmallS3

ROOT = Path(__file__).parents[2]


class TestSmallS3(StoreContract):
    @pytest.fixture(autouse=True)
    async def _server(self):
        async with SmallS3() as self.server:
            yield

    def place(self):
        return uri_of(self.server)


class TestSmallS3AsAContainerHasIt(TestSmallS3):
    async def make(self):
        return wrapped(await super().make())


class TestSmallS3InThePartsOfABucket(TestSmallS3):
    """Below a prefix, beside another system's objects."""

    def place(self):
        self.server.objects["a/other.chunk"] = self.server.objects["a/by hand"] = (b"x", {})
        return uri_of(self.server, prefix="a/b")


class TestFaultsBeforeSmallS3(StoreFaults):
    @pytest.fixture
    async def _server(self):
        async with SmallS3() as self.server:
            yield

    def place(self):
        return uri_of(self.server, "p")


class TestFaultsBeforeSmallS3ThatKeepsParts(TestFaultsBeforeSmallS3):
    @pytest.fixture
    async def _server(self):
        async with SmallS3(keeps_parts=True) as self.server:
            yield


@pytest.fixture
async def server():
    async with SmallS3() as server:
        yield server


def uri_of(server, prefix="", bucket=None):
    path = f"{bucket or server.bucket}/{prefix}".rstrip("/")
    return f"s3://{path}?anonymous=true&endpoint=http://127.0.0.1:{server.port}"


async def test_a_long_read_is_made_of_pieces_at_the_same_time(server):
    provider = provider_at(uri_of(server), piece_bytes=MIB, pieces=4)
    content = bytes(range(256)) * (4 * 4096 + 1)
    await provider.create("c", [content])
    server.requests.clear()
    assert bytes(await provider.read("c", 10, 4 * MIB)) == content[10 : 10 + 4 * MIB]
    assert [method for method, _ in server.requests] == ["GET"] * 4
    server.requests.clear()
    assert bytes(await provider.read("c", 10, MIB)) == content[10 : 10 + MIB]
    assert [method for method, _ in server.requests] == ["GET"]


async def test_a_name_whose_key_would_be_too_long_is_listed_by_its_metadata(server):
    provider = provider_at(uri_of(server))
    long = "s/" + "ü" * 400
    await provider.create(long, [b"abc"])
    await provider.create("s/short", [b"x"])
    assert all(len(key) <= 1024 for key in server.objects)
    found = [(each.name, each.length) async for page in provider.list("s/ü") for each in page]
    assert found == [(long, 3)]


async def test_objects_of_others_are_not_listed(server):
    for key in ["x", "x.txt", "%long/x", "%long/" + "0" * 64 + ".chunk", "a//b.chunk", "folder/"]:
        server.objects[key] = (b"", {})
    provider = provider_at(uri_of(server))
    await provider.create("c")
    assert [each.name async for page in provider.list() for each in page] == ["c"]


async def test_a_good_store_is_proved_and_left_empty(server):
    await prove_store(provider_at(uri_of(server, "p")), SystemEntropy())
    assert server.objects == {}


async def test_a_store_that_ignores_the_condition_is_refused():
    async with SmallS3(refuses_second=False) as server:
        with pytest.raises(UnsupportedError, match="overwritten"):
            await prove_store(provider_at(uri_of(server)), SystemEntropy())
        assert server.objects == {}


async def test_a_store_that_forgets_metadata_is_refused():
    async with SmallS3(keeps_metadata=False) as server:
        with pytest.raises(UnsupportedError, match="list"):
            await prove_store(provider_at(uri_of(server)), SystemEntropy())
        assert server.objects == {}


async def test_a_full_store_says_so_and_holds_nothing_of_it(server):
    server.full = True
    with pytest.raises(StorageFullError):
        await provider_at(uri_of(server)).create("c", [b"x"])
    assert server.objects == {}


async def test_a_bucket_that_is_missing_is_not_an_object_that_is(server):
    provider = provider_at(uri_of(server, bucket="another"))
    with pytest.raises(StorageWriteError, match="no bucket 'another'"):
        await provider.create("c", [b"x"])
    with pytest.raises(StorageReadError, match="no bucket 'another'"):
        await provider.read("c", 0, 1)
    with pytest.raises(StorageReadError, match="no bucket 'another'"):
        await provider.info("c")
    with pytest.raises(StorageReadError, match="no bucket 'another'"):
        async for _ in provider.list():
            pass
    with pytest.raises(NoSuchChunkError):
        await provider_at(uri_of(server)).info("c")


async def test_refused_credentials_are_named_with_what_they_need(server):
    provider = provider_at(uri_of(server))
    await provider.create("c", [b"x"])
    server.refusal = (403, "SignatureDoesNotMatch")
    for call in (provider.read("c", 0, 1), provider.info("c")):
        with pytest.raises(StorageReadError, match="s3:GetObject"):
            await call
    for call in (provider.create("d", [b"x"]), provider.delete("c")):
        with pytest.raises(StorageWriteError, match="s3:PutObject"):
            await call
    server.refusal = None
    assert list(server.objects) == ["c.chunk"]


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (403, "RequestTimeTooSkewed", "refused the time of this machine: set its clock"),
        (400, "ExpiredToken", "have expired: put new ones into their file"),
        (403, "AccessDenied", "denied permission: let these credentials do s3:GetObject, s3:PutObject"),
    ],
)
async def test_each_reason_to_refuse_is_a_sentence_that_says_what_to_do(server, status, code, advice):
    provider = provider_at(uri_of(server))
    await provider.create("c", [b"x"])
    server.refusal = (status, code)
    with pytest.raises(StorageReadRefusedError, match=code) as read:
        await provider.read("c", 0, 1)
    with pytest.raises(StorageWriteRefusedError, match=code) as written:
        await provider.create("d", [b"x"])
    with pytest.raises(StorageReadRefusedError, match=code) as listed:
        [page async for page in provider.list()]
    assert advice in read.value.reason
    assert read.value.reason == written.value.reason == listed.value.reason
    server.refusal = None
    assert bytes(await provider.read("c", 0, 1)) == b"x"
    assert list(server.objects) == ["c.chunk"]


CREDENTIALS = "[default]\naws_access_key_id = {}\naws_secret_access_key = secret\n"


async def test_credentials_that_are_replaced_in_their_file_are_read_again(server, tmp_path, monkeypatch):
    for variable in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    file = tmp_path / "credentials"
    file.write_text(CREDENTIALS.format("FIRST"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server.access_key = "FIRST"
    provider = wrapped(provider_at(uri_of(server).replace("anonymous=true&", "")))
    await provider.create("c", [b"abc"])
    server.access_key = "SECOND"
    file.write_text(CREDENTIALS.format("SECOND"))
    assert bytes(await provider.read("c", 0, 3)) == b"abc", "the first refusal makes it look again"
    monkeypatch.setattr("headrace.storage.providers.objects.object_store.RENEW_EVERY_S", 0.0)
    server.access_key = "THIRD"
    file.write_text(CREDENTIALS.format("THIRD"))
    with pytest.raises(StorageWriteRefusedError, match="have expired"):
        await provider.create("d", [b"abc"])
    await provider.create("d", [b"abc"])


async def test_credentials_are_read_again_every_few_seconds_at_most(server, tmp_path, monkeypatch):
    for variable in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    file = tmp_path / "credentials"
    file.write_text(CREDENTIALS.format("FIRST"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("headrace.storage.providers.objects.object_store.RENEW_EVERY_S", 3600.0)
    server.access_key = "SECOND"
    provider = provider_at(uri_of(server).replace("anonymous=true&", ""))
    for _ in range(3):
        with pytest.raises(StorageReadRefusedError):
            await provider.read("c", 0, 3)
    file.write_text(CREDENTIALS.format("SECOND"))
    with pytest.raises(StorageReadRefusedError):
        await provider.read("c", 0, 3)


async def test_a_server_that_is_not_there_answers_nothing(unused_tcp_port_factory, quick_pauses):
    provider = provider_at(f"s3://b?anonymous=true&endpoint=http://127.0.0.1:{unused_tcp_port_factory()}")
    with pytest.raises(StorageReadError, match="refused"):
        await provider.read("c", 0, 1)
    with pytest.raises(StorageWriteError, match="refused"):
        await provider.create("c", [b"x"])


READ = """
import asyncio, sys
from headrace.errors import StorageReadError
from tests.stores.providers import provider_at

async def read():
    try:
        print(bytes(await provider_at(sys.argv[1]).read("c", 0, 5)), flush=True)
    except StorageReadError as error:
        print(error, flush=True)

asyncio.run(read())
"""
"""In a process of its own: the library reads the authorities once."""


async def read_trusting(path, uri):
    environ = os.environ | {"SSL_CERT_FILE": str(path), "SSL_CERT_DIR": str(path.parent / "none")}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READ, uri, env=environ, cwd=ROOT, stdout=PIPE, stderr=DEVNULL
    )
    output, _ = await program.communicate()
    return output.decode()


async def test_a_machine_without_authorities_is_told_what_to_install(tmp_path):
    (tmp_path / "empty").touch()
    assert "ca-certificates" in await read_trusting(tmp_path / "empty", "s3://b?endpoint=http://127.0.0.1:1")


async def test_an_authority_of_ones_own_is_named_by_a_variable(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    async with SmallS3(tls=context) as server:
        server.objects["c.chunk"] = (b"hello", {})
        uri = f"s3://bucket?anonymous=true&endpoint=https://localhost:{server.port}"
        assert "hello" in await read_trusting(tmp_path / "authority.pem", uri)
        trustme.CA().cert_pem.write_to_path(tmp_path / "another.pem")
        assert "certificate" in await read_trusting(tmp_path / "another.pem", uri)
