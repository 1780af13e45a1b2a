"""Where the server's resident memory is (Q10): idle, loaded, and at rest again, by kind of mapping.

The load is events of 10 KB to 16 segments, enough to fill the cache several times. Kinds are told by what
the server itself says it has taken: huge pages are the cache and the frames of the logs, the rest of the
anonymous memory is Python's and the C library's. ``peak`` is the most there ever was.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ingest import ingest
from benchmarks.server import BenchServer

KINDS = ("cache", "frames", "code", "python", "heap", "other")


def mappings(pid: int) -> Iterator[tuple[str, dict[str, int], bool]]:
    """Every mapping of a process: its name, its figures in KiB, and whether it asked for huge pages."""
    name, fields = "", {}
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if words[0] == "VmFlags:":
            yield name, fields, "hg" in words
        elif words[0].endswith(":"):
            fields[words[0][:-1]] = int(words[1])
        else:
            name, fields = " ".join(words[5:]), {}


def resident(server: BenchServer) -> dict[str, float]:
    """Resident MiB by kind. Frames are what they say they keep; the other huge pages are the cache."""
    found = dict.fromkeys(KINDS, 0)
    for name, fields, huge in mappings(server.process.pid):
        if huge:
            kind = "cache"
        elif name.startswith("/") and (".so" in name or "python" in name):
            kind = "code"
        elif name == "[heap]":
            kind = "heap"
        elif not name and fields["Size"] >= 1 << 10:
            kind = "python"
        else:
            kind = "other"
        found[kind] += fields["Rss"]
    frames = server.statistics()["frames"]
    found["frames"] = min(found["cache"], frames["bytes_kept"] >> 10)
    found["cache"] -= found["frames"]
    return {kind: size / 1024 for kind, size in found.items()}


def show(when: str, server: BenchServer) -> None:
    kinds = resident(server)
    cells = " ".join(f"{kinds[kind]:>7.1f}" for kind in KINDS)
    print(f"{when:>8} {cells} {sum(kinds.values()):>7.1f} {server.rss_mib(peak=True):>7.1f}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=1200)
    args = parser.parse_args(arguments)
    with BenchServer() as server:
        print(f"ready after {server.ready_s:.2f} s; resident MiB:")
        print(f"{'':>8} " + " ".join(f"{kind:>7}" for kind in (*KINDS, "sum", "peak")))
        show("idle", server)
        row = asyncio.run(ingest(server, "s", 10_000, 16, (20 if args.smoke else args.megabytes) << 20))
        show("loaded", server)
        if not args.smoke:
            time.sleep(25)  # frames that nobody needs go back after two looks, ten seconds apart
            show("at rest", server)
        lent = server.statistics()["frames"]["frames_lent_max"]
        print(
            f"{row['mb_s']:.0f} MB/s, {row['server_cpu_us_per_event'] / 10:.2f} ms of server CPU per MB; "
            f"{lent} frames lent at a time, at most"
        )


if __name__ == "__main__":
    main()
