"""A server whose stream has a target rate: it splits under load and merges without, and no event is lost."""

import asyncio
from collections import defaultdict

import pytest

from headrace.client import connect
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.testing import LocalServer

pytestmark = pytest.mark.cluster

FAST = {
    "SAMPLE_S": "0.1",
    "SLOW_S": "0.8",
    "HOT_S": "0.3",
    "COLD_S": "1.5",
    "COOL_DOWN_S": "0.5",
}
KEYS = [f"key-{number}" for number in range(40)]
TARGET = 100


async def until(condition, timeout_s=30):
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110 - it is asked over the network
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_stream_follows_its_load_and_keeps_the_order_of_each_key():
    environment = {f"HEADRACE_SCALING__{name}": value for name, value in FAST.items()}
    local = LocalServer(None, "--in-memory", environment=environment)
    async with local as server, connect(server.uri) as client:
        await client.create_scope("s")
        policy = ScalingPolicy.by_event_rate(TARGET, scale_factor=4, segments_min=1)
        await client.create_stream("s", "t", StreamConfiguration(scaling=policy))

        async def count():
            return len(await client.current_segments("s", "t"))

        written, stop = 0, asyncio.Event()

        async def write():
            nonlocal written
            async with client.event_writer("s", "t") as writer:
                while not stop.is_set():
                    for key in KEYS:
                        await writer.write(f"{key} {written}".encode(), key)
                    written += 1
                    await asyncio.sleep(len(KEYS) / (10 * TARGET))

        writing = asyncio.ensure_future(write())

        async def has_split():
            if writing.done():
                await writing
            return await count() >= 4

        await until(has_split)
        stop.set()
        await writing

        async def has_merged():
            return await count() == 1

        await until(has_merged)
        found = defaultdict(list)
        async with client.event_reader("s", "t", end="tail") as reader:
            async for event in reader:
                key, number = event.data.decode().split()
                found[key].append(int(number))
        assert found == {key: list(range(written)) for key in KEYS}
