"""Transactions (P8) and stream creation: begin, one event, commit, with 1, 8 and 64 in flight.

The floor of a transaction is what must become durable one after another: its segments, the event, the
decision, the merge: four synced writes of 4 KiB.
"""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.floor import durable_write_latency, now
from benchmarks.server import BenchServer
from headrace.client import connect


async def run(uri: str, in_flight: int, count: int) -> float:
    async with connect(uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", f"txn{in_flight}")
        writer = client.txn_writer("bench", f"txn{in_flight}")

        async def work(each: int) -> None:
            for _ in range(each):
                txn = await writer.begin()
                txn.write(b"x" * 100, "key")
                await txn.flush()
                await txn.commit(wait=True)

        await work(3)
        began = now()
        await asyncio.gather(*(work(count // in_flight) for _ in range(in_flight)))
        seconds = now() - began
        await writer.close()
        cut = await client.tail_cut("bench", f"txn{in_flight}")
        assert sum(cut.offsets.values()) == (count // in_flight * in_flight + 3) * 108
        return count // in_flight * in_flight / seconds


async def create_streams(server: BenchServer, in_flight: int, count: int) -> float:
    async with connect(server.uri) as client:
        await client.create_scope(f"many{in_flight}")

        async def work(first: int) -> None:
            for number in range(first, count, in_flight):
                await client.create_stream(f"many{in_flight}", f"s{number}")

        began = now()
        await asyncio.gather(*(work(first) for first in range(in_flight)))
        return count / (now() - began)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    scale = 1 if args.smoke else 10
    with BenchServer() as server:
        p50, _ = durable_write_latency(200)
        for in_flight, count in ((1, 20), (8, 64), (64, 128)):
            rate = asyncio.run(run(server.uri, in_flight, count * scale))
            print(
                f"transactions, {in_flight} in flight: {rate:.0f}/s (floor of one: {4 * p50:.2f} ms)",
                flush=True,
            )
        for in_flight in (1, 8):
            rate = asyncio.run(create_streams(server, in_flight, 20 * scale))
            print(f"streams created, {in_flight} at once: {rate:.0f}/s", flush=True)


if __name__ == "__main__":
    main()
