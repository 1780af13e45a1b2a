"""Segments written to and read from chunk files, beside a raw loop of the same writes on the same disk.

The floor of writing is a loop that appends to one file per segment with ``pwritev`` and ``fdatasync``, one
thread per segment; ours adds checksums, plans, rows (in memory) and hops between loop and threads. The floor
of reading is ``os.preadv`` into a fresh buffer from the page cache. Rounds alternate; what was written is
read back and compared.

    python benchmarks/micro/storage_write.py [--directory DIR] [--rounds N] [--megabytes N] [--smoke]

Goal: writing at least 0.8 of the floor at 1 MiB and more, reading at least 0.5.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import statistics
import tempfile
import threading
import time

from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore

KIB, MIB = 1 << 10, 1 << 20
PIECE_BYTES = 64 * KIB


class Round:
    """Bytes moved, and what it took."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._cpu = cpu_seconds()
        self._began = time.perf_counter()

    def end(self) -> Round:
        self.rate = self.size / (time.perf_counter() - self._began) / 1e6
        self.cpu_us_per_mib = (cpu_seconds() - self._cpu) / (self.size / MIB) * 1e6
        return self


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def pieces_of(payload: bytes) -> list[memoryview]:
    """Cut a flush into views as the cache hands them out."""
    view = memoryview(payload)
    return [view[at : at + PIECE_BYTES] for at in range(0, len(view), PIECE_BYTES)]


def write_raw(directory: str, payload: bytes, writes: int, segments: int) -> Round:
    pieces = pieces_of(payload)

    def write(number: int) -> None:
        fd = os.open(f"{directory}/raw{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for index in range(writes):
            os.pwritev(fd, pieces, index * len(payload))
            os.fdatasync(fd)
        os.close(fd)

    result = Round(writes * segments * len(payload))
    threads = [threading.Thread(target=write, args=(number,)) for number in range(segments)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result.end()


async def write_ours(storage: ChunkedSegmentStorage, names: list[str], payload: bytes, writes: int) -> Round:
    pieces = pieces_of(payload)

    async def write(name: str) -> None:
        for index in range(writes):
            await storage.write(name, index * len(payload), pieces, create=True)

    result = Round(writes * len(names) * len(payload))
    await asyncio.gather(*map(write, names))
    return result.end()


def read_raw(directory: str, number: int, total: int, size: int) -> Round:
    fd = os.open(f"{directory}/raw{number}", os.O_RDONLY)
    result = Round(total)
    for offset in range(0, total, size):
        os.preadv(fd, [bytearray(min(size, total - offset))], offset)
    os.close(fd)
    return result.end()


async def read_ours(storage: ChunkedSegmentStorage, name: str, total: int, size: int) -> Round:
    result = Round(total)
    for offset in range(0, total, size):
        await storage.read_stored(name, offset, min(size, total - offset))
    return result.end()


async def verify(storage: ChunkedSegmentStorage, name: str, payload: bytes, writes: int) -> None:
    for index in range(writes):
        assert await storage.read_stored(name, index * len(payload), len(payload)) == payload


def report(what: str, pairs: list[tuple[Round, Round]]) -> None:
    ratios = [ours.rate / floor.rate for floor, ours in pairs]
    floor = statistics.median(pair[0].rate for pair in pairs)
    ours = statistics.median(pair[1].rate for pair in pairs)
    cpu_floor = statistics.median(pair[0].cpu_us_per_mib for pair in pairs)
    cpu_ours = statistics.median(pair[1].cpu_us_per_mib for pair in pairs)
    print(
        f"{what:<38}{floor:>10.0f}{ours:>10.0f}{cpu_floor:>10.0f}{cpu_ours:>10.0f}"
        f"   {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    )


async def measure(directory: str, sizes: list[int], rounds: int, total_bytes: int) -> None:
    pool = BlockingPool(8, "chunks")
    provider = FilesystemChunkProvider(directory, OsFilesystem(), ChunkThreads.shared(pool))
    # Both sides give their files back after each round: fresh pages would cost more than recycled ones.
    config = SegmentStorageConfig(garbage_delay_s=0.0)
    storage = ChunkedSegmentStorage(provider, MemoryRowStore(), 1, SystemEntropy(), config)
    number = 0
    print(f"{'':<38}{'raw MB/s':>10}{'MB/s':>10}{'raw us/MiB':>10}{'us/MiB':>10}   ratio (range)")
    for segments in (1, 4):
        for size in sizes:
            payload = os.urandom(size)
            writes = max(4, min(total_bytes // size // segments, 400))
            writing, reading = [], []
            for _ in range(rounds):
                names = [f"bench/{number + index}" for index in range(segments)]
                number += segments
                floor = await asyncio.to_thread(write_raw, directory, payload, writes, segments)
                writing.append((floor, await write_ours(storage, names, payload, writes)))
                await verify(storage, names[-1], payload, writes)
                if segments == 1:
                    total = writes * size
                    step = min(size, MIB)
                    reading.append(
                        (read_raw(directory, 0, total, step), await read_ours(storage, names[0], total, step))
                    )
                for name in names:
                    await storage.delete(name)
                while await storage.garbage.collect():
                    pass
            report(f"write {size // KIB} KiB to {segments} segments", writing)
            if reading:
                report(f"read {min(size, MIB) // KIB} KiB, page cache", reading)
    print("verified")
    await provider.close()
    pool.close()
    await pool.wait_closed()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", default=None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="headrace-bench-", dir=arguments.directory)
    try:
        if arguments.smoke:
            asyncio.run(measure(directory, [16 * KIB, 128 * KIB], 1, MIB))
        else:
            sizes = [64 * KIB, MIB, 4 * MIB, 16 * MIB]
            asyncio.run(measure(directory, sizes, arguments.rounds, arguments.megabytes * MIB))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
