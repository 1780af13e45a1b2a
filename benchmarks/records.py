"""What a record costs beside a plain event: ``write_many`` with keys, from lists and from Arrow columns, and
reads of whole streams as Arrow tables.

    python -m benchmarks.records [--events 400000] [--rounds 5] [--smoke]

Both streams get the same values, of 90 to 110 bytes and of ten times that, by turns, each while the server
has nothing else to do. The best round of each counts; CPU is that of the client, then that of the server
until it has stored everything.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace import aio
from headrace.runtime import loops

_BATCH = 4096


@dataclass
class Cost:
    """Seconds of one round."""

    wall: float
    client: float
    server: float


async def write(client: aio.Client, stream: str, batch: Any, keys: Any, count: int) -> None:
    async with client.event_writer("bench", stream) as writer:
        for _ in range(0, count, _BATCH):
            writer.write_many(batch, keys)
            await writer.drain()


async def read(client: aio.Client, stream: str, _: Any, __: Any, count: int) -> None:
    table = await client.stream("bench", stream).to_arrow(limit=count)
    assert table.num_rows == count, f"{table.num_rows} events are there"


async def measure(server: BenchServer, count: int, rounds: int, *, rests: bool) -> None:
    rng = random.Random(1)
    keys = [f"customer-{rng.randrange(1000)}" for _ in range(_BATCH)]
    async with aio.connect(server.uri) as client:
        await client.create_scope("bench")
        for scale in (1, 10):
            values = [bytes(scale * rng.randrange(90, 111)) for _ in range(_BATCH)]
            total = count // scale // _BATCH * _BATCH
            for kind in ("plain", "record"):
                await client.create_stream("bench", f"{kind}{scale}", records=kind == "record")
            for what, call, batch, own_keys in (
                ("write lists", write, values, keys),
                ("write columns", write, pa.array(values), pa.array(keys)),
                ("read as table", read, None, None),
            ):
                found: dict[str, list[Cost]] = {"plain": [], "record": []}
                for _ in range(rounds):
                    for kind, costs in found.items():
                        theirs, mine, began = server.cpu_s(), time.process_time(), now()
                        await call(client, f"{kind}{scale}", batch, own_keys, total)
                        wall, mine = now() - began, time.process_time() - mine
                        if rests:
                            server.wait_idle()
                        costs.append(Cost(wall, mine, server.cpu_s() - theirs))
                print(
                    f"{100 * scale:>6} {what:>14}",
                    *(row(costs, total) for costs in found.values()),
                    flush=True,
                )


def row(costs: list[Cost], count: int) -> str:
    """Return the best of several rounds."""
    rate = count / min(each.wall for each in costs) / 1e3
    client, server = min(each.client for each in costs), min(each.server for each in costs)
    return f"{rate:>9.0f} {client * 1e6 / count:>6.2f} {server * 1e6 / count:>6.2f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=400_000, help="of each kind, of 100 bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="small sizes: does it run at all?")
    args = parser.parse_args(arguments)
    count, rounds = (10 * _BATCH, 1) if args.smoke else (args.events, args.rounds)
    print(" bytes           what  plain k/s, client, server us  records k/s, client, server us")
    with BenchServer() as server:
        loops.run(measure(server, count, rounds, rests=not args.smoke))


if __name__ == "__main__":
    main()
