"""A server whose log and chunks are in a bucket: its machine may be lost."""

import asyncio
import shutil

import pytest

from headrace.client import connect
from headrace.testing import LocalServer
from headrace.testing.local_server import ServerDiedError
from tests.stores.small_s3 import SmallS3

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
EVENTS = [f"event {number}".encode() for number in range(300)]


async def start(directory, s3, log="log", chunks="chunks", *options):
    def place(prefix):
        return f"s3://bucket/{prefix}?endpoint=http://127.0.0.1:{s3.port}"

    options = ("--log", place(log), "--storage", place(chunks), *options)
    server = LocalServer(directory, *options, environment=ENVIRONMENT)
    await asyncio.to_thread(server.start)
    return server


async def test_what_was_acknowledged_survives_the_loss_of_the_machine(tmp_path):
    async with SmallS3() as s3:
        server = await start(tmp_path / "one", s3, "log", "chunks", "--containers", "2")
        try:
            async with connect(server.uri) as client:
                await client.create_scope("s")
                await client.create_stream("s", "t")
                async with client.event_writer("s", "t") as writer:
                    await writer.write_many(EVENTS, ["key"] * len(EVENTS))
        finally:
            server.kill()
            server.close()
        shutil.rmtree(tmp_path / "one")

        with pytest.raises(ServerDiedError, match=r"is not the store of this data directory"):
            await start(tmp_path / "stranger", s3, "log", "other")

        server = await start(tmp_path / "two", s3)
        try:
            async with connect(server.uri) as client:
                assert await read_all(client) == EVENTS
        finally:
            server.kill()
            server.close()
        assert not any("/wal" in str(path) for path in (tmp_path / "two").rglob("*"))


async def read_all(client):
    await client.seal_stream("s", "t")
    async with client.event_reader("s", "t") as reader:
        return [bytes(payload) async for batch in reader.batches() for payload in batch.payloads()]
