"""``headrace storage`` on a system whose chunks are in a real S3 server."""

import asyncio
import itertools
import json
import sys

import pytest

from headrace.cli.main import main
from headrace.client import ReaderConfig, connect
from headrace.testing import LocalServer
from tests.stores.providers import provider_at
from tests.stores.servers import SERVERS, UnavailableError

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = {"HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": "65536"}
EVENTS = 300
_places = itertools.count()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    try:
        with SERVERS["versitygw"].start(tmp_path_factory.mktemp("versitygw")) as running:
            yield running
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def place(bucket, monkeypatch):
    """Return the URI of a new place."""
    for variable, value in bucket.environment.items():
        monkeypatch.setenv(variable, value)
    return lambda: bucket.uri(f"commands{next(_places)}")


@pytest.fixture
def run(capfd):
    async def run(*words):
        code = await asyncio.to_thread(main, ["storage", *map(str, words)])
        sys.stdout.flush()
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def event(number):
    return f"{number:06}".encode() * 150


async def write(server):
    async with connect(server.uri) as client:
        await client.create_scope("demo")
        await client.create_stream("demo", "orders")
        async with client.event_writer("demo", "orders") as writer:
            for number in range(EVENTS):
                await writer.write(event(number), "key")


async def read(server, stream="orders"):
    skipping = ReaderConfig(on_truncation="skip")
    async with (
        connect(server.uri) as client,
        client.event_reader("demo", stream, end="tail", config=skipping) as reader,
    ):
        return [bytes(payload) async for batch in reader.batches() for payload in batch.payloads()]


async def chunks_of(provider):
    """The objects of the stream, in the order of their bytes."""
    names = [each.name async for page in provider.list() for each in page if "demo/orders/" in each.name]
    return sorted(names, key=lambda name: int(name.partition("-O-")[2].partition("-")[0]))


@pytest.mark.timeout(240)
async def test_a_system_in_a_bucket_is_checked_copied_mended_and_exported(tmp_path, place, run):
    first, second = place(), place()
    server = LocalServer(tmp_path, "--containers", "2", "--storage", first, environment=SETTINGS)
    data = tmp_path / "data"
    try:
        server.start()
        await write(server)
        code, out, err = await run("check", "--data-dir", data)
        assert code == 0, (out, err)  # a running one
        server.stop()

        code, out, err = await run("check", "--data-dir", data, "--deep", "--json")
        assert code == 0, (out, err)
        found = json.loads(out)
        assert found["storage"]["named"] > 5
        assert found["storage"]["beside"]["objects"] > 0, "an identity, at least"
        assert sum(each["verified_bytes"] for each in found["containers"]) > EVENTS * 900

        for source, target in ((first, second), (second, f"file://{tmp_path}/copy")):
            code, out, err = await run("copy", "--from", source, "--to", target, "--verify", "--json")
            assert code == 0, (out, err)
            assert json.loads(out)["copied"] == found["storage"]["objects"]
            code, out, err = await run("check", "--data-dir", data, "--storage", target, "--deep")
            assert code == 0, (out, err)

        server.arguments = (*server.arguments, "--storage", second)
        server.start()
        assert await read(server) == [event(number) for number in range(EVENTS)], "it was moved"
        server.stop()

        exported = place()
        code, _, err = await run("export", "demo/orders", "--data-dir", data, "--to", exported)
        assert code == 0, err

        provider = provider_at(second)
        chunks = await chunks_of(provider)
        await provider.delete(chunks[0])
        code, out, _ = await run("check", "--data-dir", data)
        assert code == 6
        assert "is missing" in out
        code, out, err = await run("repair", "--data-dir", data, "--yes", "--json")
        assert code == 0, (out, err)
        server.start()
        found = await read(server)
        assert 0 < len(found) < EVENTS
        assert found == [event(number) for number in range(EVENTS - len(found), EVENTS)]

        code, out, err = await run("import", "--from", exported, "--uri", server.uri, "--as", "demo/restored")
        assert code == 0, err
        assert await read(server, "restored") == [event(number) for number in range(EVENTS)]
    finally:
        server.close()
