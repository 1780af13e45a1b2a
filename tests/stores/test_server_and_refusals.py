"""A real server whose store refuses: readers are told why, so is whoever asks the server, and both go on."""

import asyncio
import json
import time
import urllib.error
import urllib.request

import pytest

from headrace.client import connect
from headrace.errors import StorageReadRefusedError
from headrace.testing import LocalServer
from tests.stores.small_s3 import SmallS3

pytest.importorskip("opendal")
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

EVENTS = [str(number).encode().ljust(1000) for number in range(300)]
EAGER = {"HEADRACE_CONTAINER__STORAGE_WRITER__OBJECT_AGE_S": "0.2"}


def ready(server):
    """Return status and document of /ready."""
    try:
        with urllib.request.urlopen(f"{server.rest_url}/ready", timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def wait_until_ready(server):
    while ready(server)[0] != 200:
        time.sleep(0.1)


async def read_all(client):
    async with client.event_reader("demo", "t", end="tail") as reader:
        return [bytes(event) async for batch in reader.batches() for event in batch.payloads()]


async def test_a_store_that_refuses_is_named_to_readers_in_the_log_and_by_ready(tmp_path):
    async with SmallS3() as store:
        uri = f"s3://bucket?anonymous=true&endpoint=http://127.0.0.1:{store.port}"
        server = LocalServer(tmp_path, "--storage", uri, "--containers", "1", environment=EAGER)
        store.refuses = lambda method, key: "demo/t" in key
        try:
            await asyncio.to_thread(server.start)
            async with connect(server.uri) as client:
                await client.create_scope("demo")
                await client.create_stream("demo", "t")
                async with client.event_writer("demo", "t") as writer:
                    await writer.write_many(EVENTS, "key")
            assert await asyncio.to_thread(server.stop) == 0
            await asyncio.to_thread(server.start)  # nothing is in memory
            store.refusal = (403, "AccessDenied")
            async with connect(server.uri) as client:
                with pytest.raises(StorageReadRefusedError, match="denied permission: let these credentials"):
                    await read_all(client)
                status, health = await asyncio.to_thread(ready, server)
                assert status == 503
                assert health["details"]["notReady"].startswith("longTermStorage (refuses read: s3://bucket")
                lines = [line for line in server.log().splitlines() if "cannot be read" in line]
                assert len(lines) == 1
                assert " WARNING " in lines[0]
                assert "segment demo/t/0.#epoch.0 cannot be read from long-term storage" in lines[0]
                async with client.event_writer("demo", "t") as writer:
                    await writer.write(b"accepted", "key")
                await asyncio.to_thread(server.wait_for_log, "storing failed")
                _, health = await asyncio.to_thread(ready, server)
                assert "denied permission" in health["children"]["longTermStorage"]["details"]["create"]
                store.refusal = None
                assert await read_all(client) == [*EVENTS, b"accepted"]
                await asyncio.to_thread(wait_until_ready, server)  # once it has stored
            assert await asyncio.to_thread(server.stop) == 0
        finally:
            server.close()
