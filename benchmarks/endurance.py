"""Unthrottled ingest for minutes: resident memory against a budget, and whether the rate holds (P11).

One writer pushes events of 10 KB into 16 segments as fast as they are acknowledged, much more than the cache
holds. Each line is ten seconds: a stall would show. The stream is truncated behind the writer, so that the
disk need not hold all of it. What was written is counted back by offsets.

    python -m benchmarks.endurance [--seconds N] [--budget MIB] [--smoke]
"""

from __future__ import annotations

import argparse
import asyncio
import os

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.client import connect
from headrace.model.policies import ScalingPolicy, StreamConfiguration

EVENT_BYTES = 10_000
SEGMENTS = 16
BATCH = 100


async def ingest(server: BenchServer, seconds: float, interval: float) -> tuple[float, float]:
    """Write for so long; return MB/s and the highest resident size seen, in MiB."""
    events = [b"x" * EVENT_BYTES] * BATCH
    keys = [f"key-{number}" for number in range(BATCH)]
    peak = 0.0
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        configuration = StreamConfiguration(scaling=ScalingPolicy.fixed(SEGMENTS))
        await client.create_stream("bench", "endurance", configuration)
        async with client.event_writer("bench", "endurance") as writer:
            old = await client.tail_cut("bench", "endurance")
            began = line = now()
            sent = reported = 0
            longest = 0.0
            while (at := now()) < began + seconds:
                writer.write_many(events, keys)
                sent += BATCH
                await writer.drain()
                longest = max(longest, now() - at)
                if at >= line + interval:
                    resident = server.rss_mib()
                    peak = max(peak, resident)
                    rate = (sent - reported) * EVENT_BYTES / (at - line) / 1e6
                    print(
                        f"{at - began:>6.0f} s {rate:>7.0f} MB/s {resident:>7.0f} MiB resident, "
                        f"longest wait {longest * 1e3:.0f} ms",
                        flush=True,
                    )
                    await client.truncate_stream(old)
                    old = await client.tail_cut("bench", "endurance")
                    line, reported, longest = now(), sent, 0.0
            await writer.flush()
            elapsed = now() - began
        cut = await client.tail_cut("bench", "endurance")
        stored = sum(cut.offsets.values())
        assert stored == sent * (EVENT_BYTES + 8), f"{stored} bytes are there"
    return sent * EVENT_BYTES / elapsed / 1e6, max(peak, server.rss_mib())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--budget", type=float, default=512.0, help="resident MiB that should not be exceeded"
    )
    args = parser.parse_args(arguments)
    seconds, interval = (1.0, 0.3) if args.smoke else (args.seconds, 10.0)
    # Truncated chunks go after five seconds instead of a minute: at these rates a minute is 50 GB.
    os.environ["HEADRACE_CONTAINER__STORAGE__GARBAGE_DELAY_S"] = "5"
    with BenchServer() as server:
        rate, sampled = asyncio.run(ingest(server, seconds, interval))
        peak = server.rss_mib(peak=True)
        print(
            f"{seconds:.0f} s: {rate:.0f} MB/s, {server.cpu_s():.0f} CPU seconds of the server; "
            f"resident at most {sampled:.0f} MiB when sampled, {peak:.0f} MiB ever; "
            f"budget {args.budget:.0f} MiB: {peak / args.budget:.2f}"
        )


if __name__ == "__main__":
    main()
