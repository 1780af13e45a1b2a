"""Durable ingest with chunks in S3, beside a bare loop of the library: ``benchmarks.object_ingest``.

Events of 1 KiB go to a server whose chunks are in versitygw, on a file system in memory; the clean stop
behind them ends when all of them are objects. ``through`` is all bytes by the time from the first event to
the end of that stop, so log, cache and store are in it; the floor puts as many bytes as objects of 16 MiB,
four at once, with opendal alone, right behind it. ``a MB`` is how many requests the store got for each before
the stop. Client, server and store share the machine. Without versitygw (``make stores`` installs it) nothing
is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from benchmarks.floor import MIB, now
from benchmarks.ingest import ingest
from benchmarks.object_store import Bench, memory_directory
from benchmarks.server import BenchServer
from headrace.runtime import loops
from headrace.storage.providers.location import StorageLocation
from tests.stores.servers import SERVERS, Running, UnavailableError

_EVENT_BYTES = 1024
_COUNTED = ("objects_created", "objects_deleted", "reads")
_STOP_FLUSH = {"HEADRACE_CONTAINER__STORAGE_WRITER__STOP_FLUSH_S": "60"}


def measure(store: Running, segments: int, total: int) -> dict[str, float]:
    """Write, stop, return the rates in MB/s and the requests per MB."""
    environment = {**store.environment, **_STOP_FLUSH}
    with BenchServer(None, "--storage", store.uri(f"n{segments}"), environment=environment) as server:
        began = now()
        row = loops.run(ingest(server, "stream", _EVENT_BYTES, segments, total))
        chunks = server.statistics()["chunks"]
        if server.stop(120.0) != 0:
            raise AssertionError("the server did not stop cleanly")
        took = now() - began
    stored = chunks["bytes_written"] / 1e6
    requests = sum(chunks[name] for name in _COUNTED) / max(stored, 1.0)
    return {
        "acked": row["mb_s"],
        "through": total / took / 1e6,
        "requests": requests,
        "stored": stored,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=768)
    args = parser.parse_args()
    total = (8 if args.smoke else args.megabytes) * MIB
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=memory_directory()))
        try:
            store = stack.enter_context(SERVERS["versitygw"].start(Path(folder)))
        except UnavailableError as error:
            print(f"not measured: {error}")
            return
        stack.enter_context(patch.dict(os.environ, store.environment))
        print(f"{'segments':>8} {'acked MB/s':>11} {'through':>8} {'floor':>6} {'ratio':>6}  requests a MB")
        bench = Bench(StorageLocation.parse(store.uri()), 1, total)
        for segments in (1, 8):
            found = measure(store, segments, total)
            floor = asyncio.run(bench.run("put", min(16 * MIB, total), 4))["bare"]
            print(
                f"{segments:>8} {found['acked']:>11.0f} {found['through']:>8.0f} {floor:>6.0f} "
                f"{found['through'] / floor:>6.2f}  {found['requests']:.3f} of {found['stored']:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
