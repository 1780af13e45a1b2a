"""Data of a real server that was killed, for tests that look into them.

There are chunks, a log with checkpoints, sealed, truncated, merged and deleted segments, and appends that
only the log holds.
"""

import asyncio
import json
import select
import shutil
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from headrace.client import connect
from headrace.testing import LocalServer

CONTAINERS = 2
SETTINGS = {
    "HEADRACE_CONTAINER__CHECKPOINT_BYTES": "4096",
    "HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": "131072",
}
EAGER = {
    "HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_AGE_S": "0.1",
    "HEADRACE_CONTAINER__EVICTION__EVICTION_INTERVAL_S": "0.2",
}
LAZY = {
    "HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_AGE_S": "600",
    # A checkpoint that waits two seconds to cut the log has everything in front of it stored.
    "HEADRACE_CONTAINER__CHECKPOINT_BYTES": "67108864",
}
STORED_EVENTS = 300
LATE_EVENTS = 50
EVENT = b"x" * 1000


@dataclass
class KilledServer:
    """Where the data are, and what the client knew."""

    data: Path
    segment: str = "demo/orders/0.#epoch.0"
    scope: str = "demo"
    events: int = STORED_EVENTS + LATE_EVENTS

    def copy(self, directory):
        """Return the same in a directory of its own, for tests that damage it."""
        shutil.copytree(self.data, directory / "data")
        return KilledServer(directory / "data")


def statistics(server):
    with urllib.request.urlopen(f"http://{server.addresses['rest']}/v1/debug/statistics") as answer:
        return json.load(answer)


def wait_until_stored(server, timeout_s=120.0):
    """Wait until no container holds bytes that storage lacks."""
    deadline = time.monotonic() + timeout_s
    while any(parts["read_index"]["unstored_bytes"] for parts in statistics(server)["containers"].values()):
        assert time.monotonic() < deadline, statistics(server)
        select.select([], [], [], 0.05)  # nothing tells a client when its bytes are stored


def wait_until_evicted(server, segments, timeout_s=120.0):
    """Wait until so many segments of each container have left memory since the start.

    Of each: those of system tables alone may all come back as soon as the server starts again.
    """
    deadline = time.monotonic() + timeout_s
    while any(parts["segments"]["evicted"] < segments for parts in statistics(server)["containers"].values()):
        assert time.monotonic() < deadline, statistics(server)
        select.select([], [], [], 0.05)  # nor does anything tell when segments leave memory


async def make_killed_server(directory):
    """Write data of every kind, stored and not, then kill the server as a power failure would."""
    server = LocalServer(directory, "--containers", str(CONTAINERS), environment={**SETTINGS, **EAGER})
    server.start()
    try:
        await _write_history(server)
        # Beside the loop, which has to close the client's connections: their writers keep segments in memory.
        await asyncio.to_thread(wait_until_stored, server)
        await asyncio.to_thread(wait_until_evicted, server, 3)
        await asyncio.to_thread(wait_until_stored, server)  # what eviction has written into the catalogues
        server.kill()
        server.environment |= LAZY
        server.start()
        await _write_late(server)
    finally:
        server.kill()
    return KilledServer(directory / "data")


async def _write_history(server):
    async with connect(server.uri) as client:
        await client.create_scope("demo")
        for stream in ("paid", "cut", "done", "gone", "orders"):  # the log is truncated behind the others
            await client.create_stream("demo", stream)
            async with client.event_writer("demo", stream) as writer:
                for _ in range(STORED_EVENTS if stream == "orders" else 20):
                    await writer.write(EVENT, "key")
        await client.truncate_stream(await client.tail_cut("demo", "cut"))
        await client.seal_stream("demo", "done")
        await client.seal_stream("demo", "gone")
        await client.delete_stream("demo", "gone")


async def _write_late(server):
    async with connect(server.uri) as client:
        async with client.txn_writer("demo", "paid") as transactions:
            transaction = await transactions.begin()
            for _ in range(10):
                await transaction.write(EVENT, "key")
            await transaction.commit(wait=True)
        async with client.event_writer("demo", "orders") as writer:
            for _ in range(LATE_EVENTS):
                await writer.write(EVENT, "key")
