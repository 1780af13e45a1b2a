"""Every benchmark, one after the other: ``python -m benchmarks.run [--smoke] [NAME ...]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

BENCHMARKS = (
    "benchmarks.wal",
    "benchmarks.bare_tiers",
    "benchmarks.ingest",
    "benchmarks.flatness",
    "benchmarks.blocks",
    "benchmarks.latency",
    "benchmarks.catch_up",
    "benchmarks.recovery",
    "benchmarks.inactive",
    "benchmarks.attributes",
    "benchmarks.extended_attributes",
    "benchmarks.tables",
    "benchmarks.memory",
    "benchmarks.endurance",
    "benchmarks.flushes",
    "benchmarks.transactions",
    "benchmarks.cluster",
    "benchmarks.cluster_moves",
    "benchmarks.lost_store",
    "benchmarks.spark_rates",
    "benchmarks.object_store",
    "benchmarks.object_ingest",
    "benchmarks.bookkeeper_wal",
    "benchmarks.log_requests",
    "benchmarks.records",
    "benchmarks.micro.wire_parse",
    "benchmarks.micro.read_index",
    "benchmarks.micro.storage_write",
    "benchmarks.micro.tables",
    "benchmarks.micro.client_framing",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these (a part of the name is enough)")
    parser.add_argument("--smoke", action="store_true", help="the smallest size: do they still run?")
    args = parser.parse_args()
    failed = []
    for name in BENCHMARKS:
        if args.names and not any(part in name for part in args.names):
            continue
        print(f"\n## {name}", flush=True)
        began = time.perf_counter()
        code = subprocess.call([sys.executable, "-m", name, *(["--smoke"] if args.smoke else [])])
        print(f"({time.perf_counter() - began:.1f} s)", flush=True)
        if code:
            failed.append(name)
    if failed:
        print("failed:", ", ".join(failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
