"""What the machine can do, measured right before: the raw durable write loop."""

from __future__ import annotations

import shutil
import tempfile
import time

from benchmarks.wal import RawLoop, quantile

MIB = 1 << 20


def durable_write_rate(frame_bytes: int = MIB, total_bytes: int = 256 * MIB, in_flight: int = 2) -> float:
    """MB/s of ``O_DIRECT|O_DSYNC`` writes of ``frame_bytes`` into a zeroed file, ``in_flight`` at a time."""
    directory = tempfile.mkdtemp(prefix="headrace-floor-")
    try:
        raw = RawLoop(directory, 64 * MIB)
        raw.run(frame_bytes, max(2, total_bytes // frame_bytes // 4), in_flight)
        result = raw.run(frame_bytes, max(4, total_bytes // frame_bytes), in_flight)
        raw.close()
        return result.rate
    finally:
        shutil.rmtree(directory)


def durable_write_latency(count: int = 1000) -> tuple[float, float]:
    """Median and p99 in ms of one synced write of 4 KiB."""
    directory = tempfile.mkdtemp(prefix="headrace-floor-")
    try:
        raw = RawLoop(directory, 16 * MIB)
        result = raw.run(4096, count, 1)
        raw.close()
        return quantile(result.latencies, 0.5), quantile(result.latencies, 0.99)
    finally:
        shutil.rmtree(directory)


def now() -> float:
    return time.perf_counter()
