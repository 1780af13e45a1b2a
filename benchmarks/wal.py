"""Durable append throughput of the file log beside a raw write loop: same sizes, same number of writes in
flight, same disk, in alternating rounds.

Five rows for each size:

* ``raw``, the floor: a loop of ``pwrite`` on a zeroed file opened ``O_DIRECT|O_DSYNC``, one thread per write
  in flight.
* ``huge``: the same loop on the log's kind of memory, which the kernel pins faster. The stricter floor.
* ``sealed``: the ``huge`` loop over as many buffers as the log has frames, with a checksum of each before it
  is written: what any log pays that can tell what it wrote.
* ``busy``: the log with as many writers, and all frames of its pool handed over, which is as many as a
  server lends each of its logs: those that find no writer free are written together. This is what the goal
  is about: at least 0.85 of the floor.
* ``slots``: the log with no more frames handed over than it has writers, so that each completion has to
  travel to the event loop and back before the writer goes on. Read its latency, not its rate.

The log runs on the kind of loop that a server has, and its threads take turns as they do there. It recycles
its files as in steady state: it is truncated as it goes, after a warm-up. What was written is read back.

    python benchmarks/wal.py [--directory DIR] [--rounds N] [--megabytes N] [--in-flight N] [--frames N]
        [--smoke]

Look at ratios and at CPU per frame; the machine, and who shares it, decide the rest. On a machine that others
use the ratio of the best rounds (last column) says more than the median of ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import resource
import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from headrace.processes.config import StandaloneConfig
from headrace.runtime import loops
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal
from headrace.wal.frame_memory import reserve_pages
from headrace.wal.record_format import RECORD_HEADER_BYTES

KIB, MIB = 1 << 10, 1 << 20
GOAL = 0.85
FILE_BYTES = 64 * MIB


@dataclass
class Round:
    """One measurement."""

    frames: int
    size: int
    seconds: float
    cpu_seconds: float
    loop_seconds: float = 0.0
    """CPU time of the event loop's thread, within ``cpu_seconds``."""
    latencies: list[float] = field(repr=False, default_factory=list)

    @property
    def rate(self) -> float:
        return self.frames * self.size / self.seconds / 1e6

    @property
    def loop_us(self) -> float:
        return self.loop_seconds / self.frames * 1e6

    @property
    def cpu_us(self) -> float:
        return self.cpu_seconds / self.frames * 1e6


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1e3


class RawLoop:
    """The floor. Not ``direct``: through the page cache, each write synced all the same."""

    def __init__(self, directory: str, file_bytes: int, *, direct: bool = True) -> None:
        self.path = f"{directory}/raw"
        self.file_bytes = file_bytes
        zeros = mmap.mmap(-1, MIB)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        for offset in range(0, file_bytes, MIB):
            os.pwrite(self.fd, zeros, offset)
        os.fsync(self.fd)
        os.close(self.fd)
        self.fd = os.open(self.path, os.O_RDWR | os.O_DSYNC | (os.O_DIRECT if direct else 0))

    def run(
        self, size: int, frames: int, in_flight: int, sealed_buffers: int = 0, *, huge: bool = True
    ) -> Round:
        latencies: list[float] = []
        count = sealed_buffers or in_flight
        memory = reserve_pages(count * size) if huge else memoryview(mmap.mmap(-1, count * size))
        memory[:] = os.urandom(count * size)
        buffers = [memory[start : start + size] for start in range(0, count * size, size)]

        def write(start: int) -> None:
            clock, pwrite, fd = time.perf_counter, os.pwrite, self.fd
            slots = self.file_bytes // size
            for number in range(start, frames, in_flight):
                buffer = buffers[number % len(buffers)]
                began = clock()
                if sealed_buffers:
                    crc32c(buffer)
                pwrite(fd, buffer, number % slots * size)
                latencies.append(clock() - began)

        threads = [threading.Thread(target=write, args=(start,)) for start in range(in_flight)]
        cpu, began = cpu_seconds(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Round(frames, size, time.perf_counter() - began, cpu_seconds() - cpu, latencies=latencies)

    def close(self) -> None:
        os.close(self.fd)
        Path(self.path).unlink()


class Log:
    """The log under test, warm: its files are recycled ones."""

    def __init__(self, directory: str, file_bytes: int, in_flight: int, frames_max: int) -> None:
        self.directory = f"{directory}/log"
        self.config = WalConfig(
            segment_file_bytes=file_bytes, frames_in_flight_max=in_flight, frames_max=frames_max
        )
        self.wal = FileWal(self.directory, self.config)
        self.last_address = 0

    async def open(self) -> None:
        await self.wal.open()
        for _ in range(8):  # until every file was written once, and recycled
            await self.run(MIB, self.config.segment_file_bytes // MIB, 2)

    async def run(self, size: int, frames: int, window: int) -> Round:
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()
        latencies: list[float] = []
        begun: dict[int, float] = {}
        left = frames
        answered = 0
        wal, clock = self.wal, time.perf_counter
        length = size - RECORD_HEADER_BYTES
        truncations: list[asyncio.Future[None]] = []
        every = max(1, self.config.segment_file_bytes // size)

        def give(frame: object) -> None:
            nonlocal left
            left -= 1
            frame.length = length
            began = clock()
            wal.append(frame, done)
            begun[frame.address] = began

        def done(frame: object, error: Exception | None) -> None:
            nonlocal answered
            if error is not None:
                finished.set_exception(error)
                return
            latencies.append(clock() - begun.pop(frame.address))
            answered += 1
            self.last_address = frame.address
            if answered % every == 0:
                truncations.append(asyncio.ensure_future(wal.truncate(frame.address)))
            if left > 0:
                give(frame)
            else:
                wal.release_frame(frame)
                if answered == frames:
                    finished.set_result(None)

        held = [wal.acquire_frame() for _ in range(window)]
        for frame in held:
            frame.view[:length] = os.urandom(length)
        loop_cpu, cpu, began = time.thread_time(), cpu_seconds(), time.perf_counter()
        for frame in held:
            give(frame)
        await finished
        seconds = time.perf_counter() - began
        result = Round(frames, size, seconds, cpu_seconds() - cpu, time.thread_time() - loop_cpu, latencies)
        await asyncio.gather(*truncations)
        return result

    async def close_and_verify(self) -> int:
        """Read the log back: everything from the last truncation to the last acknowledgement is there."""
        await self.wal.close()
        again = FileWal(self.directory, self.config)
        await again.open()
        addresses = [record.address async for record in again.records()]
        assert addresses[-1] == self.last_address
        assert addresses == list(range(addresses[0], addresses[-1] + 1))
        await again.close()
        return len(addresses)


async def measure(
    directory: str,
    sizes: list[int],
    *,
    rounds: int,
    total_bytes: int,
    in_flight: int,
    frames_max: int,
    file_bytes: int,
) -> list[float]:
    raw = RawLoop(directory, file_bytes)
    log = Log(directory, file_bytes, in_flight, frames_max)
    await log.open()
    ratios = []
    print(
        f"{'size':>8} {'':>6} {'MB/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'CPU us/frame':>13} {'loop':>6}"
        "   ratio to raw (range), of the best"
    )
    for size in sizes:
        frames = max(in_flight * 4, min(total_bytes // size, 4000))
        runs: dict[str, list[Round]] = {"raw": [], "huge": [], "sealed": [], "busy": [], "slots": []}
        for _ in range(rounds):
            runs["raw"].append(await asyncio.to_thread(raw.run, size, frames, in_flight, huge=False))
            runs["huge"].append(await asyncio.to_thread(raw.run, size, frames, in_flight))
            runs["sealed"].append(await asyncio.to_thread(raw.run, size, frames, in_flight, frames_max))
            runs["busy"].append(await log.run(size, frames, frames_max))
            runs["slots"].append(await log.run(size, frames, in_flight))
        for name, mine in runs.items():
            ratio = [ours.rate / floor.rate for ours, floor in zip(mine, runs["raw"], strict=True)]
            median = statistics.median(ratio)
            latencies = [value for run in mine for value in run.latencies]
            best = max(run.rate for run in mine) / max(run.rate for run in runs["raw"])
            spread = f"({min(ratio):.2f}-{max(ratio):.2f})"
            tail = f"{median:.2f} {spread:>13} {best:.2f}" if name != "raw" else ""
            if name == "busy":
                ratios.append(median)
            print(
                f"{size // KIB:>5}KiB {name:>6} {statistics.median(run.rate for run in mine):>8.1f}"
                f" {quantile(latencies, 0.5):>8.3f} {quantile(latencies, 0.99):>8.3f}"
                f" {statistics.median(run.cpu_us for run in mine):>13.1f}"
                f" {statistics.median(run.loop_us for run in mine):>6.1f}   {tail}"
            )
    records = await log.close_and_verify()
    raw.close()
    print(f"read back {records} records; goal {GOAL} of the floor")
    return ratios


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", default=None, help="on the disk to measure (default: a temporary one)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--megabytes", type=int, default=200, help="written per round and size, at most 4000 frames"
    )
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument(
        "--frames",
        type=int,
        default=StandaloneConfig().frames_max,
        help="lent at a time (default: as a server does)",
    )
    parser.add_argument("--smoke", action="store_true", help="a second's worth, for the test suite")
    options = parser.parse_args(arguments)
    directory = tempfile.mkdtemp(prefix="headrace-wal-", dir=options.directory)
    loops.share_interpreter()
    try:
        return loops.run(
            measure(
                directory,
                [4 * KIB, 64 * KIB, MIB],
                rounds=1 if options.smoke else options.rounds,
                total_bytes=(2 if options.smoke else options.megabytes) * MIB,
                in_flight=options.in_flight,
                frames_max=options.frames,
                file_bytes=4 * MIB if options.smoke else FILE_BYTES,
            )
        )
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
