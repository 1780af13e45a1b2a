"""A stream of a cluster follows its load: its segment store tells a controller, over TLS."""

import asyncio

import pytest

from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.segmentstore.scaling.config import ScalingConfig
from tests.cluster_in_process import cluster_in_process

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

FAST = ScalingConfig(sample_s=0.1, slow_s=0.8, hot_s=0.3, cold_s=1.5, cool_down_s=0.5)
TARGET = 50


async def test_a_stream_with_an_event_rate_splits_under_load_and_merges_without(tmp_path):
    async with (
        cluster_in_process(tmp_path, controllers=2, scaling=FAST) as cluster,
        cluster.connect() as client,
    ):
        await client.create_scope("s")
        policy = ScalingPolicy.by_event_rate(TARGET, scale_factor=2, segments_min=1)
        await client.create_stream("s", "t", StreamConfiguration(scaling=policy))

        async def until(is_right):
            async with asyncio.timeout(60):
                while not is_right(len(await client.current_segments("s", "t"))):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

        async def write():
            async with client.event_writer("s", "t") as writer:
                while True:
                    for number in range(20):
                        writer.write(b"event", f"key-{number}")
                    await asyncio.sleep(20 / (6 * TARGET))

        writing = asyncio.ensure_future(write())
        try:
            await until(lambda segments: segments >= 2)
        finally:
            writing.cancel()
            await asyncio.wait([writing])
        await until(lambda segments: segments == 1)
