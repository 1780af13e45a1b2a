"""What the machine can do, measured right before: raw loops that write, once or for two tiers."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.wal import RawLoop, quantile

MIB = 1 << 20


CHUNK_BYTES = 16 * MIB


@contextmanager
def raw_loop(file_bytes: int, *, direct: bool = True) -> Iterator[RawLoop]:
    """A zeroed file for raw writes, in a directory that is removed."""
    directory = tempfile.mkdtemp(prefix="headrace-floor-")
    try:
        raw = RawLoop(directory, file_bytes, direct=direct)
        yield raw
        raw.close()
    finally:
        shutil.rmtree(directory)


def durable_write_rate(
    frame_bytes: int = MIB,
    total_bytes: int = 256 * MIB,
    in_flight: int = 2,
    *,
    direct: bool = True,
    huge: bool = True,
) -> float:
    """MB/s of ``O_DSYNC`` writes of ``frame_bytes`` into a zeroed file, ``in_flight`` at a time.

    ``direct`` goes around the page cache. They come from huge pages, which the kernel pins faster, or from
    ordinary ones.
    """
    with raw_loop(64 * MIB, direct=direct) as raw:
        raw.run(frame_bytes, max(2, total_bytes // frame_bytes // 4), in_flight, huge=huge)
        return raw.run(frame_bytes, max(4, total_bytes // frame_bytes), in_flight, huge=huge).rate


def two_tier_rate(total_bytes: int = 256 * MIB) -> float:
    """MB/s of writing every byte twice: durably into a log, and synced into new files of 16 MiB, at once.

    That is what tiered storage has to do with a disk at least, without looking at a byte: the files through
    the page cache, whose pages are used again for the next.
    """
    pieces = max(1, total_bytes // MIB)

    def store() -> None:
        piece, directory = memoryview(mmap.mmap(-1, MIB)), Path(raw.path).parent
        piece[:] = os.urandom(MIB)
        for start in range(0, pieces, CHUNK_BYTES // MIB):
            fd = os.open(directory / f"chunk-{start}", os.O_WRONLY | os.O_CREAT)
            for _ in range(start, min(pieces, start + CHUNK_BYTES // MIB)):
                os.write(fd, piece)
            os.fdatasync(fd)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    with raw_loop(64 * MIB) as raw:
        raw.run(MIB, max(2, pieces // 4), 2)
        return log_beside(raw, pieces * MIB, [threading.Thread(target=store)])


def log_beside(raw: RawLoop, total_bytes: int, storing: Sequence[threading.Thread]) -> float:
    """MB/s of writing so much into the log while the threads store it; they are started here."""
    began = now()
    for thread in storing:
        thread.start()
    raw.run(MIB, max(4, total_bytes // MIB), 2)
    for thread in storing:
        thread.join()
    return total_bytes / (now() - began) / 1e6


class SyncedFiles:
    """Files that grow by synced appends of one size: chunks of as many segments, without a server.

    Files begin anew at 16 MiB; the pages of what is synced leave the cache.
    """

    def __init__(self, directory: Path, count: int, append_bytes: int) -> None:
        self._directory = directory
        self._lengths = [0] * count
        self._numbers = [0] * count
        self._piece = memoryview(mmap.mmap(-1, append_bytes))
        self._piece[:] = os.urandom(append_bytes)

    def writers(self, total_bytes: int, threads: int) -> list[threading.Thread]:
        """Return threads that append so much in all. Each has files of its own, which take turns."""
        appends = max(1, total_bytes // len(self._piece) // threads)
        files = range(len(self._lengths))
        return [
            threading.Thread(target=self._append, args=(files[first::threads], appends))
            for first in range(threads)
        ]

    def _append(self, files: Sequence[int], appends: int) -> None:
        for turn in range(appends):
            self._append_one(files[turn % len(files)])

    def _append_one(self, index: int) -> None:
        if self._lengths[index] >= CHUNK_BYTES:
            self._lengths[index] = 0
            self._numbers[index] += 1
        path = self._directory / f"chunk-{index}-{self._numbers[index]}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        self._lengths[index] += os.pwrite(fd, self._piece, self._lengths[index])
        os.fdatasync(fd)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def storing_rate(files: int, append_bytes: int, total_bytes: int = 512 * MIB, *, threads: int = 4) -> float:
    """MB/s of writing every byte durably into a log and, at once, by synced appends to so many files.

    What :func:`two_tier_rate` is for few long writes. Each file was written to before; there are at least as
    many as ``threads``.
    """
    with raw_loop(64 * MIB) as raw:
        chunks = SyncedFiles(Path(raw.path).parent, files, append_bytes)
        log_beside(raw, max(files * append_bytes, 64 * MIB), chunks.writers(files * append_bytes, threads))
        return log_beside(raw, total_bytes, chunks.writers(total_bytes, threads))


def durable_write_latency(count: int = 1000, rate: float = 0.0) -> tuple[float, float]:
    """Median and p99 in ms of one synced write of 4 KiB: one behind the other, or ``rate`` of them a second.

    A disk that is asked now and then answers later than one that is kept busy.
    """
    with raw_loop(16 * MIB) as raw:
        if not rate:
            latencies = raw.run(4096, count, 1).latencies
        else:
            latencies = []
            piece = memoryview(mmap.mmap(-1, 4096))
            due = now()
            for number in range(count):
                due += 1 / rate
                if (left := due - now()) > 0:
                    time.sleep(left)
                began = now()
                os.pwrite(raw.fd, piece, number * 4096 % raw.file_bytes)
                latencies.append(now() - began)
        return quantile(latencies, 0.5), quantile(latencies, 0.99)


def now() -> float:
    return time.perf_counter()
