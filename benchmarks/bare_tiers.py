"""The bound of P1 and P5: a program in C that does what tiers must do with every byte, and nothing else.

Socket to log frame and memory, checksums, a durable log, synced chunk files: ``native/bare_tiers.c`` has no
interpreter, index, metadata, reader or recovery, and checks nothing. What it does not reach, no server of
this design does on this machine. It needs a C compiler; without one there is no such floor.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.floor import MIB, durable_write_rate

SOURCE = Path(__file__).parent / "native" / "bare_tiers.c"
PAGE_BYTES = 4096
FLUSH_BYTES_MIN = 64 << 10
GATHERED_BYTES_MAX = 704 * MIB
"""What all segments gather before they store it has to fit the program's memory."""
RUN_SECONDS_MAX = 120


@dataclass(frozen=True, slots=True)
class BareRun:
    """What it reached: MB/s until all was durable, and CPU in ms per MB of each side."""

    mb_s: float
    client_ms: float
    receive_ms: float
    log_ms: float
    store_ms: float


def block_bytes_for(segments: int) -> int:
    """Blocks about as large as our client's: a MiB, or what its largest window has for each segment."""
    return min(MIB, 192 * MIB // segments)


def run_bare(
    segments: int, event_bytes: int, total_bytes: int, flush_bytes: int, *, store: bool = True
) -> BareRun | None:
    """Build and run it in a directory that is removed; None if this machine cannot build it.

    ``flush_bytes``: how much a segment gathers before it is appended to its chunk.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    flush_bytes = min(flush_bytes, GATHERED_BYTES_MAX // segments)
    flush_bytes = max(FLUSH_BYTES_MIN, flush_bytes // PAGE_BYTES * PAGE_BYTES)
    block_bytes = max(block_bytes_for(segments), event_bytes + 8)
    with tempfile.TemporaryDirectory(prefix="headrace-bare-") as directory:
        program = Path(directory) / "bare_tiers"
        build = [compiler, "-O2", "-march=native", "-pthread", "-o", str(program), str(SOURCE)]
        if subprocess.run(build, check=False, capture_output=True).returncode:
            return None
        words = [max(1, total_bytes // MIB), segments, event_bytes, block_bytes, flush_bytes, int(store)]
        ran = subprocess.run(
            [program, directory, *map(str, words)],
            check=True,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
        )
    return BareRun(*map(float, ran.stdout.split()))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(arguments)
    total = (8 if args.smoke else args.megabytes) << 20
    rows = [(1, 4608, True), (10, 4608, True), (1000, 748, True), (10, 4608, False), (1000, 748, False)]
    print("segments  chunks   MB/s  plain  ratio  CPU per MB (ms): client  receive    log  store")
    for _ in range(1 if args.smoke else args.rounds):
        for segments, flush_kib, store in rows[:2] if args.smoke else rows:
            row = run_bare(segments, 1024, total, flush_kib << 10, store=store)
            if row is None:
                print("no C compiler that builds it: no such floor", file=sys.stderr)
                return
            plain = durable_write_rate(MIB, (8 if args.smoke else 256) << 20, 1, direct=False, huge=False)
            print(
                f"{segments:>8} {'yes' if store else 'no':>7} {row.mb_s:>6.0f} {plain:>6.0f} "
                f"{row.mb_s / plain:>6.2f} {row.client_ms:>24.2f} {row.receive_ms:>8.2f} "
                f"{row.log_ms:>6.2f} {row.store_ms:>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
