"""What clients notice when one of two segment stores is killed under load (Q11).

A cluster of two stores and a controller on this machine, with a real ZooKeeper. 500 events of 100 bytes a
second go to four segments, open loop; then a store is killed, and everything is acknowledged by the other
one. Told is the longest time from a write to its acknowledgement, which is the longest gap of a key, for the
sessions that a cluster has by default (6 s) and for short ones (2 s). ``--log s3`` has logs and chunks in a
small S3 server of ours, and the killed store loses its disk; else both are files. It needs Java.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.floor import now
from headrace.client import ClientConfig, connect
from tests.integration.cluster_storm.processes import Processes
from tests.stores.small_s3 import beside

RATE = 500
KEYS = 64
PATIENT = ClientConfig(control_attempts=200)


class Load:
    """Events at a rate, until the end, and how long each has waited."""

    def __init__(self, writer) -> None:
        self._writer = writer
        self._ends = asyncio.Event()
        self.sent = 0
        self._waiting: set[int] = set()
        self.longest_s = 0.0

    async def run(self) -> None:
        began, tasks = now(), set()
        while not self._ends.is_set():
            while self.sent < (now() - began) * RATE:
                task = asyncio.create_task(self._write(self.sent))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                self.sent += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)

    async def _write(self, number: int) -> None:
        began = now()
        self._waiting.add(number)
        await self._writer.write(b"x" * 100, f"key-{number % KEYS}")
        self._waiting.discard(number)
        self.longest_s = max(self.longest_s, now() - began)

    async def caught_up(self) -> None:
        """Wait until all that has been sent so far is acknowledged, and all of a second more."""
        wanted = self.sent + RATE
        while self.sent < wanted or min(self._waiting, default=wanted) < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def end(self) -> None:
        self._ends.set()


async def measure(directory: Path, session_s: float, rounds: int, s3) -> None:
    sizes = {"stores": 2, "controllers": 1, "containers": 4, "buckets": 2}
    async with (
        Processes(directory, session_s=session_s, s3=s3, **sizes) as cluster,
        connect(cluster.uri, PATIENT) as client,
    ):
        await client.create_scope("bench")
        await client.create_stream("bench", "t", segments=4)
        async with client.event_writer("bench", "t") as writer, asyncio.TaskGroup() as group:
            load = Load(writer)
            group.create_task(load.run())
            await load.caught_up()
            calm_s, waits = load.longest_s, []
            for number in range(rounds):
                load.longest_s = 0.0
                store = cluster.stores[number % 2]
                store.kill()
                store.lose_disk()
                await load.caught_up()
                waits.append(load.longest_s)
                store.start()
                await store.started()
                await cluster.served()
                await load.caught_up()
            load.end()
        shown = ", ".join(f"{each:.1f}" for each in waits)
        cut = await client.tail_cut("bench", "t")
        assert sum(cut.offsets.values()) == load.sent * 108
        print(f"session {session_s:.0f} s: longest wait {shown} s (calm: {calm_s:.2f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int, default=4, help="stores that are killed, one after the other")
    parser.add_argument("--log", choices=("files", "s3"), default="s3", help="where logs and chunks are")
    args = parser.parse_args()
    for session_s in (2.0,) if args.smoke else (6.0, 2.0):
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
            s3 = stack.enter_context(beside()) if args.log == "s3" else None
            asyncio.run(measure(directory, session_s, 1 if args.smoke else args.rounds, s3))


if __name__ == "__main__":
    main()
