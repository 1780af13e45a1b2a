"""Lone appends to a real server: who writes them to the log is a setting, and a figure."""

import asyncio
import json
import urllib.request

import pytest

from headrace.client import connect
from headrace.testing import LocalServer

pytestmark = pytest.mark.cluster

EVENTS = 50


def statistics(server):
    with urllib.request.urlopen(f"http://{server.addresses['rest']}/v1/debug/statistics") as answer:
        found = json.load(answer)
    logs = [container["durable_log"]["wal"] for container in found["containers"].values()]
    return (
        found["loop_writes"],
        sum(log["loop_writes"] for log in logs),
        sum(log["disk_writes"] for log in logs),
    )


async def write_and_read(uri):
    async with connect(uri) as client:
        await client.create_scope("demo")
        await client.create_stream("demo", "stream")
        async with client.event_writer("demo", "stream") as writer:
            for number in range(EVENTS):
                await writer.write(b"%d" % number, "key")
        async with client.event_reader("demo", "stream", end="tail") as reader:
            return [int(bytes(payload)) async for batch in reader.batches() for payload in batch.payloads()]


@pytest.mark.parametrize("bytes_max", ["0", "16 KiB"])
def test_what_the_loop_may_write_is_set_and_all_events_come_back(tmp_path, bytes_max):
    environment = {"HEADRACE_LOOP_WRITES__LOG_WRITE_BYTES_MAX": bytes_max}
    with LocalServer(tmp_path, "--containers", "1", environment=environment) as server:
        assert asyncio.run(write_and_read(server.uri)) == list(range(EVENTS))
        found, of_logs, writes = statistics(server)
        assert writes >= EVENTS
        assert found["writes"] == of_logs
        assert (found["writes"] > 0) == (bytes_max != "0")
        assert server.stop() == 0
