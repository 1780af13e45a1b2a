"""Ingest and transactions on a cluster of processes beside a standalone server, in turns.

* ``CPU s/GB``: CPU seconds of all segment stores per GB of events of 1 KiB in 16 segments, from one client.
  What a store costs that shares its containers with others is what a cluster costs.
* ``P8``: transactions of one event each, 64 in flight, through three controllers that share the buckets.

Client, servers and ZooKeeper share the machine: with two cores a cluster cannot be faster, only dearer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol, Self

from benchmarks.floor import now
from benchmarks.server import BenchServer, cpu_s_of
from benchmarks.transactions import run
from headrace.client import connect
from headrace.model.policies import ScalingPolicy, StreamConfiguration

_SEGMENTS = 16
_EVENT_BYTES = 1024
_READY_S = 120


class Served(Protocol):
    """Whatever clients can be sent to, and its cost."""

    @property
    def uri(self) -> str: ...

    def cpu_s(self) -> float: ...


class BenchCluster:
    """``headrace cluster local`` on a temporary directory."""

    def __init__(self, stores: int, controllers: int) -> None:
        self._counts = stores, controllers
        self._directory = tempfile.TemporaryDirectory(prefix="headrace-bench-")
        self._process: subprocess.Popen[bytes] | None = None
        self.uri = ""
        self._stores: list[int] = []

    def cpu_s(self) -> float:
        """CPU seconds that all segment stores have used so far."""
        return sum(map(cpu_s_of, self._stores))

    def __enter__(self) -> Self:
        stores, controllers = self._counts
        ready = Path(self._directory.name, "ready.json")
        command = [sys.executable, "-m", "headrace.cli.main", "cluster", "local", "--no-restart"]
        command += ["--stores", str(stores), "--controllers", str(controllers)]
        command += ["--data-dir", f"{self._directory.name}/data", "--ready-file", str(ready)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _READY_S
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError("the cluster did not start: run headrace cluster local to see why")
            time.sleep(0.05)
        found = json.loads(ready.read_text())
        self.uri = "tcp://" + ",".join(found["controllers"])
        self._stores = [store["pid"] for store in found["stores"]]
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGTERM)
            self._process.wait()
        self._directory.cleanup()


async def ingest(served: Served, name: str, megabytes: int) -> tuple[float, float]:
    """Return MB/s, and CPU seconds per GB."""
    events = [b"x" * _EVENT_BYTES] * 1024
    keys = [f"key-{number}" for number in range(len(events))]
    batches = max(1, megabytes * 1_000_000 // (_EVENT_BYTES * len(events)))
    async with connect(served.uri) as client:
        await client.create_scope("bench")
        policy = StreamConfiguration(scaling=ScalingPolicy.fixed(_SEGMENTS))
        await client.create_stream("bench", name, policy)
        async with client.event_writer("bench", name) as writer:
            await writer.write_many(events, keys)
            await writer.flush()
            cpu, began = served.cpu_s(), now()
            for _ in range(batches):
                writer.write_many(events, keys)
                await writer.drain()
            await writer.flush()
            seconds = now() - began
    written = batches * len(events) * _EVENT_BYTES
    return written / 1e6 / seconds, (served.cpu_s() - cpu) / (written / 1e9)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(arguments)
    rounds, megabytes, transactions = (1, 100, 64) if args.smoke else (args.rounds, 1000, 1280)
    figures: dict[str, list[tuple[float, float, float]]] = {"standalone": [], "cluster": []}
    for number in range(rounds):
        for kind, found in figures.items():
            with BenchServer() if kind == "standalone" else BenchCluster(3, 3) as served:
                rate, cost = asyncio.run(ingest(served, "ingest", megabytes))
                p8 = asyncio.run(run(served.uri, 64, transactions))
            found.append((rate, cost, p8))
            print(
                f"{kind}, round {number}: {rate:.0f} MB/s, {cost:.2f} CPU s/GB, P8 {p8:.0f}/s",
                flush=True,
            )
    (_, alone_cost, alone_p8), (_, cost, p8) = (
        [statistics.median(column) for column in zip(*found, strict=True)] for found in figures.values()
    )
    print(f"cluster beside standalone: CPU per GB {cost / alone_cost:.2f}, P8 {p8 / alone_p8:.2f}")


if __name__ == "__main__":
    main()
