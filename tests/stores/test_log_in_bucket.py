"""A server whose log and chunks are in a bucket: its machine may be lost."""

import asyncio
import os
import shutil
from contextlib import AsyncExitStack, suppress

import pytest

from headrace.cli.cluster.init import make_facts
from headrace.client import ClientConfig, connect
from headrace.cluster.facts_store import create_facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import NotDurableError
from headrace.processes.cluster_store import ClusterStoreServer
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.controller_server import ControllerServer
from headrace.security.config import AuthConfig
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE, ServerDiedError
from tests import programs
from tests.stores.servers import on
from tests.stores.small_s3 import SmallS3, beside

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
EVENTS = [f"event {number}".encode() for number in range(300)]


def place(s3, prefix):
    return f"s3://bucket/{prefix}?endpoint=http://127.0.0.1:{s3.port}"


async def start(directory, s3, log="log", chunks="chunks", *options):
    options = ("--log", place(s3, log), "--storage", place(s3, chunks), *options)
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
            assert await asyncio.to_thread(server.stop) == 0
            data = ("--data-dir", str(tmp_path / "two" / "data"))
            frames = await command("inspect", "frames", "--container", "0", *data)
            assert (frames.returncode, "0/r2-" in frames.stdout) == (0, True), frames.stdout
            files = await command("inspect", "wal", *data)
            assert files.returncode == 2
            assert "is in no files" in files.stderr
        finally:
            server.kill()
            server.close()
        assert not any("/wal" in str(path) for path in (tmp_path / "two").rglob("*"))


async def command(*words):
    def run():
        environment = {**os.environ, **ENVIRONMENT}
        return programs.run([*HEADRACE, *words], env=environment, capture_output=True, text=True, check=False)

    return await asyncio.to_thread(run)


async def read_all(client):
    await client.seal_stream("s", "t")
    async with client.event_reader("s", "t") as reader:
        return [bytes(payload) async for batch in reader.batches() for payload in batch.payloads()]


async def test_stores_of_a_cluster_need_no_directory_in_common(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    coordinator = MemoryCoordinator()
    with beside() as s3:
        facts = make_facts(2, 8, place(s3, "log"), place(s3, "chunks"))
        assert facts.host == ""
        session = await coordinator.open()
        await create_facts(session, facts)
        await session.close()
        async with AsyncExitStack() as stack:
            key = tmp_path / "key"
            key.write_bytes(b"0123456789abcdef" * 4)
            auth = AuthConfig(token_key=str(key))
            stores = []
            for name in ("one", "two"):
                config = ClusterStoreConfig(
                    data_dir=str(tmp_path / name), segmentstore_port=0, rest_port=0, auth=auth
                )
                stores.append(ClusterStoreServer(config, coordinator, "zk://localhost/root"))
                await stores[-1].start()
                stack.push_async_callback(stores[-1].stop)
            config = ControllerServerConfig(
                coordinator="zk://localhost/root", controller_port=0, rest_port=0, auth=auth
            )
            controller = ControllerServer(config, coordinator=coordinator)
            address = (await controller.start()).controller
            stack.push_async_callback(controller.stop)
            async with connect(f"tcp://{address}") as client:
                await client.create_scope("s")
                await client.create_stream("s", "t")
                async with client.event_writer("s", "t") as writer:
                    await writer.write_many(EVENTS[:150], ["key"] * 150)
                    await stores[0].stop()
                    await writer.write_many(EVENTS[150:], ["key"] * 150)
                assert await read_all(client) == EVENTS
        assert not any(path.name == "wal" for path in tmp_path.rglob("*"))


async def test_a_killed_server_moves_its_log_into_a_bucket_and_goes_on_there(tmp_path):
    async with SmallS3() as s3:
        chunks, log = ("--storage", place(s3, "chunks")), place(s3, "log")
        data = str(tmp_path / "one" / "data")
        server = LocalServer(tmp_path / "one", *chunks, "--containers", "2", environment=ENVIRONMENT)
        await asyncio.to_thread(server.start)
        try:
            async with connect(server.uri) as client:
                await client.create_scope("s")
                await client.create_stream("s", "t")
                async with client.event_writer("s", "t") as writer:
                    await writer.write_many(EVENTS, ["key"] * len(EVENTS))
            refused = await command("log", "copy", "--from", data, "--to", log)
            assert (refused.returncode, "is in use by" in refused.stderr) == (3, True), refused.stderr
        finally:
            server.kill()
            server.close()
        copied = await command("log", "copy", "--from", data, "--to", log)
        assert (copied.returncode, f"is in {log}" in copied.stdout) == (0, True), copied
        shutil.rmtree(tmp_path / "one")  # and with it the machine
        server = await start(tmp_path / "two", s3)
        try:
            async with connect(server.uri) as client:
                assert await read_all(client) == EVENTS
        finally:
            server.kill()
            server.close()


@on(["versitygw"])
async def test_a_machine_that_is_lost_under_load_has_lost_nothing_to_a_real_store(server, tmp_path):
    places = ("--log", server.uri("log"), "--storage", server.uri("chunks"))
    lost = LocalServer(tmp_path / "one", *places, "--containers", "2", environment=server.environment)
    acknowledged = []
    await asyncio.to_thread(lost.start)
    with suppress(NotDurableError):  # of events that were in flight
        async with connect(lost.uri, ClientConfig(close_timeout_s=0.1)) as client:
            await client.create_scope("s")
            await client.create_stream("s", "t")
            writer = await client.event_writer("s", "t")  # which the client closes
            for number in range(400):
                acknowledged.append((number, writer.write(b"%d" % number, "key")))
                if number >= 100:
                    await acknowledged[number - 100][1]
            lost.kill()
            lost.close()
            acknowledged = [b"%d" % number for number, ack in acknowledged if ack.done()]
    assert len(acknowledged) >= 300
    shutil.rmtree(tmp_path / "one")
    found = LocalServer(tmp_path / "two", *places, environment=server.environment)
    await asyncio.to_thread(found.start)
    try:
        async with connect(found.uri) as client:
            assert (await read_all(client))[: len(acknowledged)] == acknowledged
        assert await asyncio.to_thread(found.stop) == 0
    finally:
        found.kill()
        found.close()
