"""Flatness (P5): durable ingest of 1 KiB events into 1,000 segments beside 10, by turns.

Each round has a server of its own, whose first turn does not count: log, cache and the window of the page
cache that a server fills are touched for the first time then. Who comes first changes with every round. What
a MB costs both sides is steadier than the rate.

Each turn begins with everything stored; what it leaves to be stored is not in its rate. The floor, behind
each turn, with appends to chunks as long as the server's were: ``disk``, a loop that writes a log and as many
files, and ``bare``, a program in C that does this with what comes through a socket
(:mod:`benchmarks.bare_tiers`; 0 without a C compiler). What they lose by the number of segments no server can
keep.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.bare_tiers import run_bare
from benchmarks.floor import storing_rate
from benchmarks.ingest import count_flushes, flush_bytes_since, ingest
from benchmarks.server import BenchServer
from headrace.runtime import loops

EVENT_BYTES = 1024
PAGE_BYTES = 4096


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=600, help="per turn")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(arguments)
    total = (2 if args.smoke else args.megabytes) << 20
    few, many = (10, 100) if args.smoke else (10, 1000)
    rates: dict[int, list[float]] = {few: [], many: []}
    disks: dict[int, list[float]] = {few: [], many: []}
    bares: dict[int, list[float]] = {few: [], many: []}
    print(
        f"{'round':>6} {'segments':>8} {'MB/s':>7}  CPU per MB: server, client (ms)  flush KiB   disk   bare"
    )
    for number in range(1 if args.smoke else args.rounds):
        with BenchServer() as server:
            loops.run(ingest(server, "warm", EVENT_BYTES, few, 2 * total))
            if not args.smoke:
                server.wait_idle()
            for count in (few, many) if number % 2 else (many, few):
                before = count_flushes(server)
                row = loops.run(ingest(server, f"s{count}", EVENT_BYTES, count, total))
                flush_bytes = max(PAGE_BYTES, flush_bytes_since(server, before) // PAGE_BYTES * PAGE_BYTES)
                if not args.smoke:
                    server.wait_idle()
                rates[count].append(row["mb_s"])
                disks[count].append(storing_rate(count, flush_bytes, total))
                bare = run_bare(count, EVENT_BYTES, 2 * total, flush_bytes)
                bares[count].append(bare.mb_s if bare else 0.0)
                server_ms, client_ms = (
                    row[f"{side}_cpu_us_per_event"] * 1e3 / EVENT_BYTES for side in ("server", "client")
                )
                print(
                    f"{number + 1:>6} {count:>8} {row['mb_s']:>7.1f} {server_ms:>19.2f} {client_ms:>11.2f} "
                    f"{flush_bytes / 1024:>10.0f} {disks[count][-1]:>6.0f} {bares[count][-1]:>6.0f}",
                    flush=True,
                )
    print(f"medians: {describe(rates, few, many)}")
    print(f"disk:    {describe(disks, few, many)}")
    if all(bares[few]):
        print(f"bare:    {describe(bares, few, many)}")


def describe(rates: dict[int, list[float]], few: int, many: int) -> str:
    """Say both rates and what is left of the one by the other, round by round."""
    ratios = sorted(more / less for more, less in zip(rates[many], rates[few], strict=True))
    return (
        f"{few} segments {statistics.median(rates[few]):.0f} MB/s, {many} segments "
        f"{statistics.median(rates[many]):.0f}; ratio {statistics.median(ratios):.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    main()
