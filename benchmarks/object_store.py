"""Chunks in an object store, beside a bare loop of its library: ``python -m benchmarks.object_store``.

A real server, versitygw on a file system in memory, serves both in the same run, round by round. The floor is
what opendal does when nothing is between it and the program: no names, no write ids, no outcomes to find.
What was put is read back and compared. Without the server (``make stores`` installs it) nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from benchmarks.floor import MIB, now
from headrace.limits import KIB
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.objects.object_store import ObjectStoreChunkProvider
from tests.stores.servers import SERVERS, UnavailableError

CASES = [
    ("put", 16 * MIB, 1),
    ("put", 16 * MIB, 4),
    ("put", 64 * KIB, 8),
    ("get", 4 * MIB, 1),
    ("get", 4 * MIB, 8),
]
CASES += [("get", 64 * KIB, 8), ("get", 64 * MIB, 1)]


class Bare:
    """The library alone."""

    def __init__(self, location):
        import opendal

        self._operator = opendal.AsyncOperator(
            "s3", bucket=location.bucket, endpoint=location.option("endpoint"), region="us-east-1"
        )

    async def put(self, name, content):
        await self._operator.write(name, content, if_not_exists=True)

    async def get(self, name, size):
        return await self._operator.read(name, offset=0, size=size)


class Ours:
    """The provider of a server."""

    def __init__(self, location):
        self._provider = ObjectStoreChunkProvider(location, SystemEntropy())

    async def put(self, name, content):
        await self._provider.create(name, [content])

    async def get(self, name, size):
        return await self._provider.read(name, 0, size)


class Bench:
    """Both sides on one server, round by round."""

    def __init__(self, location, rounds, bytes_per_round):
        self._location = location
        self._sides = {"ours": Ours(location), "bare": Bare(location)}
        self._rounds = rounds
        self._bytes = bytes_per_round
        self._number = 0

    async def run(self, kind, size, parallel):
        """Return MB/s of both sides, the median of the rounds."""
        rates = {name: [] for name in self._sides}
        count = max(self._bytes // size, parallel)
        for turn in range(self._rounds):
            order = list(self._sides) if turn % 2 else list(self._sides)[::-1]
            for name in order:
                rates[name].append(await self._round(self._sides[name], kind, size, parallel, count))
        return {name: statistics.median(found) for name, found in rates.items()}

    async def _round(self, side, kind, size, parallel, count):
        content = os.urandom(size)
        self._number += 1
        names = [f"r{self._number}/{each}" for each in range(count if kind == "put" else 1)]
        if kind == "get":
            await side.put(names[0], content)
        calls = iter(range(count))
        began = now()

        async def worker():
            for number in calls:
                if kind == "put":
                    await side.put(names[number], content)
                else:
                    assert len(await side.get(names[0], size)) == size

        await asyncio.gather(*(worker() for _ in range(parallel)))
        took = now() - began
        assert bytes(await side.get(names[-1], size)) == content
        return count * size / took / 1e6

    async def report(self):
        print(f"{'':>4} {'KiB':>6} {'at once':>8} {'ours MB/s':>10} {'floor MB/s':>11} {'ratio':>6}")
        for kind, size, parallel in CASES:
            rate = await self.run(kind, size, parallel)
            print(
                f"{kind:>4} {size // KIB:>6} {parallel:>8} {rate['ours']:>10.0f} {rate['bare']:>11.0f} "
                f"{rate['ours'] / rate['bare']:>6.2f}",
                flush=True,
            )


def memory_directory():
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=memory_directory()))
        try:
            server = stack.enter_context(SERVERS["versitygw"].start(Path(folder)))
        except UnavailableError as error:
            print(f"not measured: {error}")
            return
        stack.enter_context(patch.dict(os.environ, server.environment))
        location = StorageLocation.parse(server.uri())
        bench = Bench(location, *((1, MIB) if args.smoke else (5, 256 * MIB)))
        asyncio.run(bench.report())


if __name__ == "__main__":
    main()
