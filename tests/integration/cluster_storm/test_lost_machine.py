"""A cluster with logs and chunks in a bucket loses a machine under load: a store, and what its disk had."""

import asyncio

import pytest

from headrace.client import connect
from tests.integration.cluster_storm.processes import Processes, in_bucket
from tests.integration.cluster_storm.storm import PATIENT
from tests.stores.small_s3 import beside

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

KEYS = [f"key-{number}" for number in range(8)]


async def write(writer, key, acknowledged, ends):
    """Write one event after the other, until the end."""
    while not ends.is_set():
        await writer.write(f"{key} {len(acknowledged)}".encode(), key)
        acknowledged.append(len(acknowledged))


async def beyond(acknowledged, more):
    """Wait until each key has so many acknowledgements more."""
    wanted = {key: len(each) + more for key, each in acknowledged.items()}
    async with asyncio.timeout(180):
        while any(len(acknowledged[key]) < number for key, number in wanted.items()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_what_was_acknowledged_survives_the_loss_of_a_machine_of_a_cluster(tmp_path):
    sizes = {"stores": 2, "controllers": 1, "containers": 2, "buckets": 1, "session_s": 2.0}
    with beside() as s3:
        async with (
            Processes(tmp_path, places=in_bucket(s3), **sizes) as cluster,
            connect(cluster.uri, PATIENT) as client,
        ):
            await client.create_scope("s")
            await client.create_stream("s", "t", segments=2)
            acknowledged, ends = {key: [] for key in KEYS}, asyncio.Event()
            async with client.event_writer("s", "t") as writer, asyncio.TaskGroup() as group:
                for key in KEYS:
                    group.create_task(write(writer, key, acknowledged[key], ends))
                await beyond(acknowledged, 20)
                cluster.stores[0].kill()
                cluster.stores[0].lose_disk()
                await beyond(acknowledged, 20)
                ends.set()
            await client.seal_stream("s", "t")
            found = {key: [] for key in KEYS}
            async with client.event_reader("s", "t") as reader:
                async for batch in reader.batches():
                    for payload in batch.payloads():
                        key, number = bytes(payload).decode().split()
                        found[key].append(int(number))
            assert found == acknowledged
    assert not any(path.name == "wal" for path in tmp_path.rglob("*"))
