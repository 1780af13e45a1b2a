"""Durable ingest through our client (P1, P3, P5): sizes and segment counts beside the raw write loop.

Floors are measured right behind each row, once the server rests:

* ``plain``: a loop of ``O_DSYNC`` writes as large as the log's frames were, one at a time, as P1's goal says;
* ``same``: the same around the page cache (``O_DIRECT|O_DSYNC``) and two in flight, as the log writes;
* ``1 MiB``: that with 1 MiB out of huge pages, which no frames of any size would beat;
* ``twice``: what tiers are about, each byte is written to a log and, beside that, to synced files;
* ``bare``: a program in C that does this with what comes through a socket from a client in C
  (:mod:`benchmarks.bare_tiers`), the bound of any server; 0 without a C compiler.

Client and server share the machine; the CPU of both is the steadier figure. What was written is counted back
by offsets. The first round of a server zeroes its log files and touches its cache for the first time.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.bare_tiers import run_bare
from benchmarks.floor import durable_write_rate, now, two_tier_rate
from benchmarks.server import BenchServer
from headrace.client import connect
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.runtime import loops

_FRAME_STEP = 4096


def count_flushes(server: BenchServer) -> tuple[int, int]:
    """Appends to chunks so far, and their bytes."""
    writers = [each["storage_writer"] for each in server.statistics()["containers"].values()]
    return sum(each["flushes"] for each in writers), sum(each["bytes_written"] for each in writers)


def flush_bytes_since(server: BenchServer, before: tuple[int, int]) -> int:
    """Mean size of the appends to chunks since :func:`count_flushes` answered ``before``; 0 without any."""
    flushes, stored = count_flushes(server)
    return (stored - before[1]) // max(1, flushes - before[0])


def count_frames(server: BenchServer) -> tuple[int, int]:
    """Frames written to all logs so far, and their bytes."""
    logs = [each["durable_log"]["wal"] for each in server.statistics()["containers"].values()]
    return sum(log["frames_written"] for log in logs), sum(log["bytes_written"] for log in logs)


async def ingest(
    server: BenchServer, name: str, size: int, segments: int, total_bytes: int
) -> dict[str, float]:
    count = max(10, total_bytes // (size + 8))
    batch = max(1, min(4096, (1 << 20) // size))
    events = [b"x" * size] * batch
    keys = [f"key-{number % 1009}" for number in range(batch)]
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", name, StreamConfiguration(scaling=ScalingPolicy.fixed(segments)))
        async with client.event_writer("bench", name) as writer:
            await writer.write_many(events, keys)  # warm: connections, routes, zeroed files
            await writer.flush()
            cpu, mine, began, sent = server.cpu_s(), time.process_time(), now(), 0
            while sent < count:
                writer.write_many(events, keys)
                sent += batch
                await writer.drain()
            await writer.flush()
            seconds = now() - began
            mine = time.process_time() - mine
        cut = await client.tail_cut("bench", name)
        stored = sum(cut.offsets.values())
        assert stored == (sent + batch) * (size + 8), f"{stored} bytes are there"
    return {
        "events_s": sent / seconds,
        "mb_s": sent * size / seconds / 1e6,
        "client_cpu_us_per_event": mine / sent * 1e6,
        "server_cpu_us_per_event": (server.cpu_s() - cpu) / sent * 1e6,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args(arguments)
    total = (2 if args.smoke else args.megabytes) << 20
    sizes = [(100, 1), (1024, 10)]
    if not args.smoke:
        sizes = [(size, count) for size in (100, 1024, 65536) for count in (1, 10)] + [(1024, 1000)]
    print(
        "   event segments  k events/s     MB/s  frame KiB  plain  ratio   same  ratio  1 MiB  ratio  twice"
        "  ratio   bare  ratio  client, server us/event"
    )
    with BenchServer() as server:
        for size, segments in [each for each in sizes for _ in range(args.rounds)]:
            share = total if size > 500 else total // 3
            count, written = count_frames(server)
            flushed = count_flushes(server)
            name = f"s{size}n{segments}f{count}"
            row = loops.run(ingest(server, name, size, segments, share))
            frames, frame_bytes = count_frames(server)
            frame = -(-(frame_bytes - written) // max(1, frames - count) // _FRAME_STEP) * _FRAME_STEP
            if not args.smoke:
                server.wait_idle()
            floor_bytes = (4 if args.smoke else 256) << 20
            plain = durable_write_rate(frame, floor_bytes, 1, direct=False, huge=False)
            same = durable_write_rate(frame, floor_bytes, huge=False)
            floor, twice = durable_write_rate(total_bytes=floor_bytes), two_tier_rate(floor_bytes)
            bare = run_bare(segments, size, 2 * floor_bytes, flush_bytes_since(server, flushed))
            print(
                f"{size:>8} {segments:>8} {row['events_s'] / 1e3:>11.1f} {row['mb_s']:>8.1f} "
                f"{frame / 1024:>10.0f} {plain:>6.0f} {row['mb_s'] / plain:>6.2f} "
                f"{same:>6.0f} {row['mb_s'] / same:>6.2f} {floor:>6.0f} "
                f"{row['mb_s'] / floor:>6.2f} {twice:>6.0f} {row['mb_s'] / twice:>6.2f} "
                f"{bare.mb_s if bare else 0:>6.0f} {row['mb_s'] / bare.mb_s if bare else 0:>6.2f} "
                f"{row['client_cpu_us_per_event']:>7.2f} {row['server_cpu_us_per_event']:>16.2f}",
                flush=True,
            )
        print(f"server resident, peak: {server.rss_mib(peak=True):.0f} MiB")


if __name__ == "__main__":
    main()
