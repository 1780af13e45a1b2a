"""What a segment costs that is not in memory: bytes of memory and of checkpoints, and the way back.

Segments are created, appended to and left alone, in one container over a log and chunks in memory, which are
not counted. An inactive one is a row of the catalogue, and storage has rows of it in a table: what is counted
is what their indexes have in memory, which is bounded. That is some 1 KB for each that was made lately.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import random
import time
import tracemalloc

from headrace.limits import KIB, MIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig, EvictionConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.state.metadata_checkpoint import CheckpointSnapshot
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal

_NOT_COUNTED = ("*/providers/memory.py", "*/chunks/chunk_names.py", "*/wal/memory.py", "*/tracemalloc.py")
"""The names of chunks are keys of the chunks in memory."""
_EVENT = b"x" * 100


class World:
    """One container after the other over the same log and chunks."""

    def __init__(self, active_max: int) -> None:
        self._logs, self._chunks = MemoryLogStore(), MemoryChunkProvider()
        self._config = dataclasses.replace(
            ContainerConfig(),
            eviction=EvictionConfig(
                active_segments_max=active_max, eviction_interval_s=3600.0, eviction_batch=100_000
            ),
            storage_writer=StorageWriterConfig(flush_age_s=0.05, acknowledge_interval_s=0.05),
        )

    async def start(self) -> SegmentContainer:
        components = ContainerComponents(
            wal=MemoryWal(self._logs, "c0", WalConfig(frames_max=24)),
            chunks=self._chunks,
            cache=BlockCache(CacheConfig(bytes_max=32 * MIB)),
            clock=SystemClock(),
            entropy=SeededEntropy(1),
        )
        container = SegmentContainer(0, components, self._config, _on_failed)
        await container.start()
        return container


def _on_failed(_container: SegmentContainer, error: BaseException) -> None:
    raise SystemExit(f"the container failed: {error!r}")


def name_of(number: int) -> str:
    return f"scope/stream-{number // 100}/{number % 100}.#epoch.0"


def counted_bytes() -> int:
    gc.collect()
    snapshot = tracemalloc.take_snapshot()
    filters = [tracemalloc.Filter(False, pattern) for pattern in _NOT_COUNTED]
    return sum(trace.size for trace in snapshot.filter_traces(filters).traces)


def checkpoint_bytes(container: SegmentContainer) -> int:
    snapshot = CheckpointSnapshot(container.state)
    rows = sum(len(key) + len(row) for key, row in snapshot.storage_rows)
    return rows + sum(map(len, snapshot.segment_rows))


async def fill(container: SegmentContainer, first: int, end: int) -> None:
    for number in range(first, end):
        segment = await container.create(name_of(number), {})
        await container.append(segment, _EVENT)


async def settle(container: SegmentContainer) -> None:
    """Evict everything that is idle, as after a long time; let caches of a moment go."""
    for _ in range(3):
        await container.log.write_checkpoint()
        await container.flush_storage()
        await container.evictions.evict()


async def measure(count: int, active: int) -> None:
    world = World(active_max=max(64, active))
    container = await world.start()
    tracemalloc.start()
    try:
        empty, empty_checkpoint = counted_bytes(), checkpoint_bytes(container)
        few = active // 2
        await fill(container, 0, few)
        await container.flush_storage()
        per_active = (counted_bytes() - empty) / few
        per_active_checkpoint = (checkpoint_bytes(container) - empty_checkpoint) / few
        began = time.process_time()
        await fill(container, few, count)
        filling_s = time.process_time() - began
        await settle(container)
        left = len(container.state.by_name)
        per_inactive = (counted_bytes() - empty) / count
    finally:
        tracemalloc.stop()
    rows = dict.fromkeys("sckg", 0)
    for key in container.state.storage_rows:
        rows[key[0]] = rows.get(key[0], 0) + 1
    print(f"segments                        {count:12,} of which {left} active")
    print(f"memory for an active one        {per_active:12,.0f} bytes")
    print(f"memory for an inactive one      {per_inactive:12,.1f} bytes")
    print(f"checkpoint for an active one    {per_active_checkpoint:12,.0f} bytes")
    print(f"checkpoint of all               {checkpoint_bytes(container):12,} bytes, rows of storage {rows}")
    print(f"create, append and leave        {filling_s / (count - few) * 1e6:12,.0f} us of CPU, traced")
    await come_back(world, container, count)


async def come_back(world: World, former: SegmentContainer, count: int) -> None:
    """Start again, and read some of them."""
    await former.stop()
    began = time.process_time()
    container = await world.start()
    recovery_s = time.process_time() - began
    chosen = random.Random(7).sample(range(count), min(count, 1000))
    began = time.process_time()
    await container.resolve(name_of(chosen[0]))
    first_s = time.process_time() - began
    began = time.process_time()
    for number in chosen:
        segment = await container.resolve(name_of(number))
        result = await container.read(segment, 0, KIB, wait=False)
        if result.to_bytes() != _EVENT:
            raise SystemExit(f"{name_of(number)} came back with other bytes")
    print(f"recovery                        {recovery_s * 1e3:12,.1f} ms of CPU")
    print(f"first look into the catalogue   {first_s * 1e3:12,.1f} ms of CPU")
    back_s = (time.process_time() - began) / len(chosen)
    print(f"one segment back, and read      {back_s * 1e6:12,.0f} us of CPU")
    container.check()
    await container.stop()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--segments", type=int, default=20_000)
    parser.add_argument("--active", type=int, default=500)
    args = parser.parse_args(arguments)
    count, active = (600, 64) if args.smoke else (args.segments, args.active)
    asyncio.run(measure(count, active))


if __name__ == "__main__":
    main()
