"""What clients notice while containers move (P15), and how soon a store that joins has its share (P16).

A cluster of three stores and two controllers on this machine, as ``headrace cluster local`` starts it.
Writers with four events in flight each, and calls to controllers one after the other, go on while
``cluster drain`` empties each store in turn; a gap is the longest time between two acknowledgements of one
writer. Then a fourth store is started; its time ends when the last container given to it is served there.
It needs Java.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Self

from benchmarks.floor import now
from headrace.client import Client, connect
from headrace.cluster.status import document_of
from headrace.controller.buckets.cluster_look import look
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.errors import HeadraceError
from headrace.runtime.blocking import SystemThreads

TETHERED = (sys.executable, "-m", "headrace.testing.tether")
WRITERS = 8
IN_FLIGHT = 4
PAUSE_S = 0.001
"""Of a flow between two answers: the machine is to have some time for the cluster."""
LOOK_S = 0.02
STILL_S = 13.0
"""Moves for balance are over after so long without one: containers rest for ten seconds between two."""
LONG_S = 120.0


class Flow:
    """One thing that is asked for again and again, and how long its answers were apart."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers = 0
        self.failures: list[str] = []
        self.gap_s = 0.0
        self._last = now()

    def begin(self) -> None:
        """Count gaps from here on."""
        self.gap_s, self._last = 0.0, now()

    def on_answer(self) -> None:
        self.gap_s, self._last = max(self.gap_s, now() - self._last), now()
        self.answers += 1


class Load:
    """Writers and calls that go on until the end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.flows: list[Flow] = []
        self._ends = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._client.create_scope("bench")
        for number in range(WRITERS):
            await self._client.create_stream("bench", f"stream-{number}")
            self._start(f"writer {number}", self._write)
        self._start("calls", self._call)
        while not all(each.answers > 100 for each in self.flows):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ends.set()
        await asyncio.gather(*self._tasks)

    def _start(self, name: str, run: Any) -> None:
        flow = Flow(name)
        self.flows.append(flow)
        self._tasks.append(asyncio.create_task(run(flow, len(self.flows) - 1)))

    async def _write(self, flow: Flow, number: int) -> None:
        async with self._client.event_writer("bench", f"stream-{number}") as writer:

            async def one() -> None:
                while not self._ends.is_set():
                    try:
                        await writer.write(b"x" * 100, "key")
                    except HeadraceError as error:
                        flow.failures.append(repr(error))
                    else:
                        flow.on_answer()
                    await asyncio.sleep(PAUSE_S)

            await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))

    async def _call(self, flow: Flow, _: int) -> None:
        while not self._ends.is_set():
            for number in range(WRITERS):
                try:
                    await self._client.current_segments("bench", f"stream-{number}")
                    await self._client.stream_configuration("bench", f"stream-{number}")
                except HeadraceError as error:
                    flow.failures.append(repr(error))
                else:
                    flow.on_answer()
                await asyncio.sleep(PAUSE_S)

    def begin(self) -> None:
        for each in self.flows:
            each.begin()

    def told(self) -> str:
        writers = [each for each in self.flows if each.name != "calls"]
        worst = max(writers, key=lambda each: each.gap_s)
        calls = self.flows[-1]
        failures = [failure for each in self.flows for failure in each.failures]
        median = sorted(each.gap_s for each in writers)[len(writers) // 2]
        return (
            f"longest gap {worst.gap_s:.2f} s (median of the writers {median:.2f} s), "
            f"of calls {calls.gap_s:.2f} s; {len(failures)} failed{': ' + failures[0] if failures else ''}"
        )


@contextmanager
def running(directory: Path, name: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process of the program, and its ready file."""
    ready = directory / f"{name}.json"
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*TETHERED, *arguments, "--ready-file", str(ready)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    try:
        yield process, ready
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LONG_S)


async def drain(store: str, coordinator: str, *options: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace", "cluster", "drain", store, *options),
        env={**os.environ, "HEADRACE_COORDINATOR": coordinator},
        stdout=subprocess.DEVNULL,
    )
    assert await process.wait() == 0


async def measure_drains(load: Load, told: dict[str, Any], drains: int, look_at: Any) -> None:
    for number, store in enumerate(islice(cycle(told["stores"]), drains)):
        load.begin()
        began = now()
        await drain(store["id"], told["coordinator"])
        took = now() - began
        await settled(look_at)
        print(f"drain {number + 1}: {took:.1f} s, with the start of the command; {load.told()}", flush=True)
        await drain(store["id"], told["coordinator"], "--cancel")
        load.begin()
        await settled(look_at, STILL_S)
        print(f"  taken back, until balanced: {load.told()}", flush=True)


async def settled(look_at: Any, still_s: float = 1.0) -> None:
    """Wait until every container is served where the map says, and nothing has changed for a while."""
    since, before = now(), None
    while now() - since < still_s:
        seen = await look_at()
        calm = not seen["problems"] and not any(each["why"] for each in seen["containers"])
        if not calm or seen["map"] != before:
            since, before = now(), seen["map"]
        await asyncio.sleep(LOOK_S)


async def measure_join(load: Load, directory: Path, coordinator: str, look_at: Any) -> None:
    known = {each["id"] for each in (await look_at())["stores"]}
    load.begin()
    began = now()
    arguments = ("segmentstore", "--coordinator", coordinator, "--port", "0", "--rest-port", "0")
    with running(directory, "joins", *arguments) as (_, ready):
        served: list[float] = []
        ready_s, since, before = 0.0, began, None
        while now() - since < STILL_S or not served:
            assert now() - began < LONG_S
            seen = await look_at()
            has = sum(len(each["containers"]) for each in seen["stores"] if each["id"] not in known)
            served += [now() - began] * (has - len(served))
            if not ready_s and ready.exists():
                ready_s = now() - began
            if seen["map"] != before:
                since, before = now(), seen["map"]
            await asyncio.sleep(LOOK_S)
        times = ", ".join(f"{each:.1f}" for each in served)
        print(
            f"join: ready after {ready_s:.1f} s, containers served after {times} s "
            f"(of {len(seen['containers'])}); {load.told()}",
            flush=True,
        )


async def measure(directory: Path, told: dict[str, Any], drains: int) -> None:
    coordinator = told["coordinator"]
    location = CoordinatorLocation.parse(coordinator)
    session = await make_coordinator(location, SystemThreads(), ZooKeeperConfig()).open()

    async def look_at() -> dict[str, Any]:
        return document_of(await look(session))

    try:
        async with connect(f"tcp://{','.join(told['controllers'])}") as client, Load(client) as load:
            await settled(look_at, STILL_S)
            print(f"before: {load.told()}", flush=True)
            await measure_drains(load, told, drains, look_at)
            await measure_join(load, directory, coordinator, look_at)
        print(f"{sum(each.answers for each in load.flows)} answers", flush=True)
    finally:
        await session.close()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--drains", type=int, default=6, help="one store after the other")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name, suppress(KeyboardInterrupt):
        directory = Path(name)
        options = ("cluster", "local", "--data-dir", str(directory / "data"))
        with running(directory, "cluster", *options) as (process, ready):
            deadline = now() + LONG_S
            while not ready.exists():
                waits = process.poll() is None and now() < deadline
                assert waits, (directory / "cluster.log").read_text()
                time.sleep(LOOK_S)
            asyncio.run(measure(directory, json.loads(ready.read_text()), 1 if args.smoke else args.drains))


if __name__ == "__main__":
    main()
