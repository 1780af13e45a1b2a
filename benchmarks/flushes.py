"""What moving small amounts to chunk files costs the loop: CPU of its thread per flush.

One container with its log and its chunks on disk. *Many*: every one of so many segments has a few KiB to be
stored, all are flushed, and the loop's thread is looked at before and behind. *Hot*: appends of 64 KiB to one
segment, each of which is a flush; the same appends without flushes are taken off. *Large*: flushes of 16 MiB.
Stored lengths are counted back.

    python -m benchmarks.flushes [--segments N] [--rounds N] [--smoke] [--profile]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import shutil
import statistics
import tempfile
import time
from dataclasses import replace

from headrace.limits import GIB, KIB, MIB
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.storagewriter.config import StorageWriterConfig

HOT_BYTES = 64 * KIB
LARGE_MIB = 16
NEVER = StorageWriterConfig(
    flush_bytes=64 * MIB,
    write_bytes_max=64 * MIB,
    flush_age_s=600.0,
    pressure_bytes=16 * GIB,
    checkpoint_age_s=600.0,
)


class Bench:
    """A container in a directory of its own."""

    def __init__(self, directory: str, writer: StorageWriterConfig) -> None:
        config = StandaloneConfig(
            data_dir=directory,
            cache_bytes=512 * MIB,
            container=replace(ContainerConfig(), storage_writer=writer),
        )
        self.plane = WiredStore(config, system_runtime(), 1)

    async def __aenter__(self) -> SegmentContainer:
        await self.plane.start()
        (container,) = self.plane.registry.running()
        return container

    async def __aexit__(self, *_: object) -> None:
        await self.plane.stop()


async def flush_many(container: SegmentContainer, segments: int, size: int, rounds: int) -> list[float]:
    """CPU of the loop's thread per flushed segment, in microseconds, per round."""
    names = [f"bench/many/{number}.#epoch.0" for number in range(segments)]
    found = [await container.create(name, {}) for name in names]
    data = memoryview(bytes(size))
    costs = []
    for number in range(1, rounds + 1):
        for at in range(0, segments, 500):
            await asyncio.gather(*(container.append(segment, data) for segment in found[at : at + 500]))
        began = time.thread_time()
        await container.flush_storage()
        costs.append((time.thread_time() - began) / segments * 1e6)
        assert all(segment.stored_length == number * size for segment in found)
    return costs


async def append_hot(container: SegmentContainer, count: int) -> float:
    """CPU of the loop's thread per append of 64 KiB to one segment, in microseconds."""
    segment = await container.create("bench/hot/0.#epoch.0", {})
    data = memoryview(bytes(HOT_BYTES))
    began = time.thread_time()
    for _ in range(count):
        await container.append(segment, data)
    cost = (time.thread_time() - began) / count * 1e6
    await container.flush_storage()
    assert segment.stored_length == count * HOT_BYTES
    return cost


async def flush_large(container: SegmentContainer, rounds: int) -> list[float]:
    """CPU of the loop's thread per MiB of a segment that is stored in one go, in microseconds, per round."""
    segment = await container.create("bench/large/0.#epoch.0", {})
    data = memoryview(bytes(MIB))
    costs = []
    for number in range(1, rounds + 1):
        for _ in range(LARGE_MIB):
            await container.append(segment, data)
        began = time.thread_time()
        await container.flush_storage()
        costs.append((time.thread_time() - began) / LARGE_MIB * 1e6)
        assert segment.stored_length == number * LARGE_MIB * MIB
    return costs


async def measure(
    directory: str, segments: int, rounds: int, count: int, profile: cProfile.Profile | None
) -> None:
    async with Bench(f"{directory}/many", NEVER) as container:
        await flush_many(container, segments, 4 * KIB, 1)
    shutil.rmtree(f"{directory}/many")
    async with Bench(f"{directory}/many", NEVER) as container:
        if profile is not None:
            profile.enable()
        costs = await flush_many(container, segments, 4 * KIB, rounds)
        if profile is not None:
            profile.disable()
    shown = " ".join(f"{cost:.0f}" for cost in costs)
    print(f"{segments} segments of 4 KiB: {shown} us per flush (the first creates the chunks)")
    async with Bench(f"{directory}/large", NEVER) as container:
        costs = await flush_large(container, rounds)
    print(f"one segment of {LARGE_MIB} MiB: {statistics.median(costs):.0f} us per MiB stored")
    without, with_flushes = [], []
    for number in range(3):
        for costs, writer in ((without, NEVER), (with_flushes, replace(NEVER, flush_bytes=HOT_BYTES))):
            async with Bench(f"{directory}/hot{number}{len(costs)}{id(costs)}", writer) as container:
                costs.append(await append_hot(container, count))
    base, full = statistics.median(without), statistics.median(with_flushes)
    print(
        f"one segment, 64 KiB: {full - base:.0f} us per flush ({full:.0f} with, {base:.0f} without flushes)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--segments", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--profile", action="store_true", help="say where the loop's time goes (it grows)")
    arguments = parser.parse_args()
    segments, count = (20, 10) if arguments.smoke else (arguments.segments, 1000)
    profile = cProfile.Profile(time.thread_time) if arguments.profile else None
    directory = tempfile.mkdtemp(prefix="headrace-bench-")
    try:
        asyncio.run(measure(directory, segments, arguments.rounds, count, profile))
    finally:
        shutil.rmtree(directory)
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
