"""Recovery (P9): ``kill -9`` to the first acknowledged append, a million small ones in the log; P10.

The floor of recovery is one sequential read of the log's files.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.client import connect


async def fill(server: BenchServer, operations: int) -> None:
    """Small appends that stay operations of their own: many writers, each event its own block."""
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", "small")
        writers = [await client.event_writer("bench", "small") for _ in range(50)]
        left = operations
        while left > 0:
            acks = [writer.write(b"x" * 100, "key") for writer in writers]
            left -= len(writers)
            await asyncio.gather(*(asyncio.shield(ack) for ack in acks))
        for writer in writers:
            await writer.close()


async def first_ack(server: BenchServer) -> float:
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", "after")
        async with client.event_writer("bench", "after") as writer:
            await writer.write(b"first", "key")
    return now()


def read_log(root: Path) -> tuple[int, float]:
    """Read every log file once, sequentially: bytes and seconds."""
    buffer = bytearray(1 << 20)
    total = 0
    began = now()
    for path in sorted((root / "data" / "wal").rglob("*.wal")):
        fd = os.open(path, os.O_RDONLY)
        while count := os.readv(fd, [buffer]):
            total += count
        os.close(fd)
    return total, now() - began


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--operations", type=int, default=1_000_000)
    args = parser.parse_args(arguments)
    operations = 2_000 if args.smoke else args.operations
    server = BenchServer()
    began = now()
    server.start()
    acked = asyncio.run(first_ack(server))
    print(
        f"cold start, empty: ready after {server.ready_s:.2f} s, first ack after {acked - began:.2f} s; "
        f"resident {server.rss_mib():.0f} MiB",
        flush=True,
    )
    asyncio.run(fill(server, operations))
    server.kill()
    size, floor = read_log(server.directory)
    began = now()
    server.start(timeout_s=300)
    acked = asyncio.run(first_ack(server))
    print(
        f"recovery after kill -9, {operations} appends of 100 B, {size >> 20} MiB of log files: ready after "
        f"{server.ready_s:.2f} s, first ack after {acked - began:.2f} s "
        f"(floor, reading the files: {floor:.2f} s)",
        flush=True,
    )
    server.close()


if __name__ == "__main__":
    main()
