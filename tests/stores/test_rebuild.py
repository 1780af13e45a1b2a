"""A server on S3 whose machine is gone: another one goes on from the bucket alone."""

import asyncio
import shutil

import pytest

from headrace.client import connect
from headrace.testing import LocalServer
from tests.integration.test_rebuild import make_stream, read_all, run_headrace, write
from tests.stores.servers import SERVERS, UnavailableError

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


async def test_nothing_but_the_bucket_is_left_after_a_clean_stop_and_nothing_is_lost(tmp_path):
    (tmp_path / "store").mkdir()
    try:
        with SERVERS["versitygw"].start(tmp_path / "store") as store:
            await lose_and_rebuild(tmp_path, store)
    except UnavailableError as error:
        pytest.skip(str(error))


async def lose_and_rebuild(tmp_path, store):
    uri = store.uri("system")
    server = LocalServer(tmp_path / "one", "--storage", uri, environment=store.environment)
    server.start()
    async with connect(server.uri) as client:
        await make_stream(client)
        async with client.event_writer("lost", "stream") as writer:
            await write(writer, 0, 0, 2000)
    await asyncio.to_thread(server.stop)
    shutil.rmtree(tmp_path / "one" / "data")
    data = tmp_path / "two" / "data"
    data.parent.mkdir()
    command = ("storage", "rebuild", "--from", uri, "--data-dir", str(data))
    done = await asyncio.to_thread(run_headrace, *command, environment=store.environment)
    assert done.returncode == 0, done.stderr
    assert "newer" not in done.stdout
    successor = LocalServer(tmp_path / "two", environment=store.environment)
    successor.start()
    try:
        async with connect(successor.uri) as client:
            async with client.event_writer("lost", "stream") as writer:
                await write(writer, 1, 0, 100)
            assert await read_all(client) == {0: list(range(2000)), 1: list(range(100))}
    finally:
        await asyncio.to_thread(successor.stop)
