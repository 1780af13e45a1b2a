"""Acknowledgement latency and tail-read delay at a fixed rate (P4, P6), without coordinated omission.

Each event has a due time; its latency counts from there. The floor is one ``O_DIRECT|O_DSYNC`` write of
4 KiB, at the same rate: a disk that is asked once a millisecond answers later than one that is kept busy,
whose figures stand beside it. The tail-read delay is the time from an event's acknowledgement to the reader
having it (negative if the reader was first).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from functools import partial

from benchmarks.floor import durable_write_latency, now
from benchmarks.server import BenchServer
from benchmarks.wal import quantile
from headrace.client import connect
from headrace.client.writer.ack import Ack


async def measure(server: BenchServer, rate: int, seconds: float) -> tuple[list[float], list[float]]:
    count = int(rate * seconds)
    acked = [0.0] * count
    seen = [0.0] * count
    due = [0.0] * count
    failures: list[BaseException | None] = []
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", f"latency{rate}")
        all_seen = asyncio.Event()

        async def read() -> None:
            async with client.event_reader("bench", f"latency{rate}") as reader:
                number = -1
                async for batch in reader.batches():
                    at = now()
                    for payload in batch.payloads():
                        number = int(payload[:12])
                        if number < count:
                            seen[number] = at
                    if number == count - 1:
                        all_seen.set()
                        return

        async with client.event_writer("bench", f"latency{rate}") as writer:
            await writer.write(b"%012d" % (1 << 30), "key")
            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0.2)
            begin = now() + 0.05

            def settle(number: int, ack: Ack) -> None:
                acked[number] = now()
                if ack.error() is not None:
                    failures.append(ack.error())

            def write(number: int) -> None:
                ack = writer.write(b"%012d" % number + b"x" * 88, "key")
                ack.add_done_callback(partial(settle, number))

            def pace() -> None:
                # A loop's own timers are good to a millisecond or two; waiting by turns would take a core.
                for number in range(count):
                    due[number] = begin + number / rate
                    if (left := due[number] - now()) > 0:
                        time.sleep(left)
                    loop.call_soon_threadsafe(write, number)

            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, pace)
            await asyncio.sleep(0)  # the last one is written in this turn
            await writer.flush()
            assert not failures, failures[0]
            await asyncio.wait_for(all_seen.wait(), 30)
            reading.cancel()
    skip = count // 5  # the first fifth warms caches and code
    return (
        [acked[n] - due[n] for n in range(skip, count)],
        [seen[n] - acked[n] for n in range(skip, count)],
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args(arguments)
    seconds = 0.5 if args.smoke else args.seconds
    with BenchServer() as server:
        for rate in (1000,) if args.smoke else (1000, 10_000):
            writes = 200 if args.smoke else 3000
            p50, p99 = durable_write_latency(writes, rate)
            busy = "p50 {:.2f} p99 {:.2f}".format(*durable_write_latency(writes))
            ack, delay = asyncio.run(measure(server, rate, seconds))
            print(
                f"{rate} events/s of 100 B: ack p50 {quantile(ack, 0.5):.2f} p95 {quantile(ack, 0.95):.2f} "
                f"p99 {quantile(ack, 0.99):.2f} ms (floor, one synced write: p50 {p50:.2f} p99 {p99:.2f} ms, "
                f"without a pause {busy}; "
                f"over it {quantile(ack, 0.5) - p50:+.2f} / {quantile(ack, 0.99) - p99:+.2f}); "
                f"readable after the ack: p50 {quantile(delay, 0.5):.2f} p95 {quantile(delay, 0.95):.2f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
