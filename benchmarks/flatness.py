"""Flatness (P5): durable ingest of 1 KiB events into 1,000 segments beside 10, by turns on one server.

By turns, because a server's rate depends on what it did before: its log and cache are touched for the first
time early, and the pages of its chunk files may get dearer later. The first turns warm up and do not count.
What a MB costs both sides is steadier than the rate.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.ingest import ingest
from benchmarks.server import BenchServer
from headrace.runtime import loops

EVENT_BYTES = 1024


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=600, help="per turn")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(arguments)
    total = (2 if args.smoke else args.megabytes) << 20
    counts = (10, 100) if args.smoke else (10, 1000)
    rates: dict[int, list[float]] = {count: [] for count in counts}
    print(f"{'round':>6} {'segments':>8} {'MB/s':>7}  CPU per MB: server, client (ms)")
    with BenchServer() as server:
        for number in range(1 if args.smoke else args.rounds + 1):
            for count in counts:
                row = loops.run(ingest(server, f"s{count}r{number}", EVENT_BYTES, count, total))
                events_per_mb = 1e6 / EVENT_BYTES
                print(
                    f"{number or 'warm':>6} {count:>8} {row['mb_s']:>7.1f}"
                    f" {row['server_cpu_us_per_event'] * events_per_mb / 1e3:>19.2f}"
                    f" {row['client_cpu_us_per_event'] * events_per_mb / 1e3:>7.2f}",
                    flush=True,
                )
                if number or args.smoke:
                    rates[count].append(row["mb_s"])
    few, many = (statistics.median(rates[count]) for count in counts)
    print(f"medians: {counts[0]} segments {few:.0f} MB/s, {counts[1]} segments {many:.0f}: {many / few:.2f}")


if __name__ == "__main__":
    main()
