"""A whole server with its chunks in a real S3 server: kills, outages, stores that are not its own."""

import asyncio
import os
import shutil

import pytest

from headrace.client import connect
from headrace.limits import MIB
from headrace.testing import LocalServer
from headrace.testing.http_faults import FaultyHttpProxy, HttpFault
from headrace.testing.local_server import HEADRACE, ServerDiedError
from tests import programs
from tests.integration.test_kill import check_kills
from tests.stores.providers import provider_at
from tests.stores.servers import EVERY, S3_ENVIRONMENT, SERVERS, UnavailableError

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

WRITER = "HEADRACE_CONTAINER__STORAGE_WRITER__"
EAGER = {
    f"{WRITER}OBJECT_BYTES": "65536",
    f"{WRITER}OBJECT_AGE_S": "0.3",
    "HEADRACE_CONTAINER__CHECKPOINT_BYTES": str(MIB),
}
"""Objects are made often, and the log is truncated behind them."""

SMALL = {"HEADRACE_CONTAINER__UNSTORED_BYTES_MAX": str(8 * MIB)}
EVENT_BYTES = 16_000


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    try:
        with SERVERS["versitygw"].start(tmp_path_factory.mktemp("versitygw")) as running:
            yield running
    except UnavailableError as error:
        pytest.skip(str(error))


def make_server(directory, uri, **environment):
    return LocalServer(directory, "--storage", uri, environment={**S3_ENVIRONMENT, **environment})


async def test_kills_lose_double_and_reorder_nothing(tmp_path, s3, monkeypatch):
    server = make_server(tmp_path, s3.uri("kills"), **EAGER)
    server.start()
    try:
        await check_kills(server, 5)
        assert "cannot be used yet" not in server.log()
        assert server.stop() == 0
        for name, value in S3_ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        names = [found.name async for page in provider_at(s3.uri("kills")).list() for found in page]
        assert sum("/kill/stream/" in name for name in names) > 5, (
            "events went to the store meanwhile, and some were merged"
        )
    finally:
        server.close()


class Writing:
    """One writer that writes numbered events until it is told to stop."""

    def __init__(self, client):
        self.acked = 0
        self.is_stopped = False
        self._client = client
        self.task = asyncio.ensure_future(self._write())

    async def _write(self):
        async with self._client.event_writer("demo", "t") as writer:
            while not self.is_stopped:
                events = [str(self.acked + i).encode().ljust(EVENT_BYTES) for i in range(10)]
                await writer.write_many(events, ["key"] * len(events))
                self.acked += len(events)

    async def reach(self, size_bytes):
        """Wait until so many bytes are acknowledged."""
        while self.acked * EVENT_BYTES < size_bytes:
            await asyncio.wait((self.task,), timeout=0.02)
            if self.task.done():
                self.task.result()


@pytest.mark.skipif(not EVERY, reason="takes long: make stores")
async def test_ingest_goes_on_through_an_outage_up_to_its_bound_and_after_it(tmp_path, s3):
    is_out, refused = False, 0

    def inject(_):
        nonlocal refused
        refused += is_out
        return HttpFault.BUSY if is_out else None

    host, port = s3.options.partition("http://")[2].split(":")
    async with FaultyHttpProxy(host, int(port), inject) as proxy:
        uri = f"{s3.bucket}/outage?endpoint={proxy.endpoint}"
        server = make_server(tmp_path, uri, **EAGER, **SMALL)
        server.arguments += ("--containers", "1")
        try:
            await asyncio.to_thread(server.start)
            async with connect(server.uri) as client:
                await client.create_scope("demo")
                await client.create_stream("demo", "t")
                writing = Writing(client)
                await writing.reach(4 * MIB)
                is_out = True
                began = writing.acked
                await writing.reach(began * EVENT_BYTES + 4 * MIB)
                await asyncio.to_thread(server.restart)  # on its log alone: the store does not answer
                refused = 0
                while refused < 8:
                    await asyncio.wait((writing.task,), timeout=0.1)
                    assert not writing.task.done()
                assert (writing.acked - began) * EVENT_BYTES < 12 * MIB, "the bound of what is unstored"
                is_out, at = False, writing.acked
                await writing.reach(at * EVENT_BYTES + 16 * MIB)
                writing.is_stopped = True
                await writing.task
                assert "cannot be used yet, retrying" in server.log()
                assert "the server starts without long-term storage" in server.log()
                found = 0
                await client.seal_stream("demo", "t")
                async with client.event_reader("demo", "t") as reader:
                    async for batch in reader.batches():
                        for payload in batch.payloads():
                            assert bytes(payload).strip() == str(found).encode()
                            found += 1
                assert found == writing.acked
            assert server.stop() == 0
        finally:
            server.close()


def refusal_of(directory, uri, *arguments):
    server = make_server(directory, uri)
    server.arguments += arguments
    try:
        with pytest.raises(ServerDiedError) as caught:
            server.start()
        return str(caught.value)
    finally:
        server.close()


def test_a_first_start_without_its_bucket_is_refused_at_once_and_can_be_mended(tmp_path, s3):
    refusal = refusal_of(tmp_path, s3.uri("mended").replace(s3.bucket, "s3://missing"))
    assert "nothing was started" in refusal
    assert "there is no bucket 'missing'" in refusal
    server = make_server(tmp_path, s3.uri("mended"))
    try:
        server.start()
        assert server.stop() == 0
    finally:
        server.close()


def test_a_store_of_another_system_is_refused_and_so_is_one_that_was_emptied(tmp_path, s3):
    server = make_server(tmp_path / "first", s3.uri("mine"))
    server.start()
    assert server.stop() == 0
    assert "has the data of another system" in refusal_of(tmp_path / "second", s3.uri("mine"))
    assert "is not the store of this data directory" in refusal_of(tmp_path / "first", s3.uri("other"))
    again = LocalServer(tmp_path / "first", environment=S3_ENVIRONMENT)  # as its record says
    try:
        again.start()
        assert again.stop() == 0
    finally:
        again.close()


async def count_events(client):
    await client.seal_stream("demo", "t")
    async with client.event_reader("demo", "t") as reader:
        return sum([len(batch) async for batch in reader.batches()])


async def test_chunks_that_were_files_are_moved_to_s3(tmp_path, s3):
    """A copy of all objects, and the new URI: reads of history come from the new store."""
    server = LocalServer(tmp_path / "server")
    try:
        await asyncio.to_thread(server.start)
        async with connect(server.uri) as client:
            await client.create_scope("demo")
            await client.create_stream("demo", "t")
            async with client.event_writer("demo", "t") as writer:
                await writer.write_many([b"x" * EVENT_BYTES] * 500, ["key"] * 500)
        assert server.stop() == 0
        chunks, uri = tmp_path / "server" / "data" / "chunks", s3.uri("moved")
        server.environment = dict(S3_ENVIRONMENT)
        server.arguments = ("--storage", uri)
        with pytest.raises(ServerDiedError, match="is not the store of this data directory"):
            await asyncio.to_thread(server.start)
        command = [*HEADRACE, "storage", "copy", "--from", f"file://{chunks}", "--to", uri, "--verify"]
        done = await asyncio.to_thread(
            programs.run, command, env={**os.environ, **S3_ENVIRONMENT}, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        shutil.rmtree(chunks)
        await asyncio.to_thread(server.start)
        async with connect(server.uri) as client:
            assert await count_events(client) == 500
        assert server.stop() == 0
    finally:
        server.close()
