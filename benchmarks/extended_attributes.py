"""What a segment costs that has more attributes than fit into memory: writers by the hundred thousand, then
attributes by the million.

    python -m benchmarks.extended_attributes [--writers 100000] [--attributes 10000000] [--smoke]

One container, its log in memory, its chunks in files. First every writer sets up, appends once and leaves,
a hundred at a time. Then an index is loaded, and looked up at random: with no page in memory, with the inner
pages, and with all that fit. Memory is that of the container alone: log, stored objects and the pages of
indexes, which have a bound of their own, are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import random
import tempfile
import time
import tracemalloc
from array import array
from collections.abc import Sequence

import numpy as np

from headrace.errors import HeadraceError
from headrace.limits import MIB
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.attributes.segment_index import SegmentIndex
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.state.metadata_checkpoint import CheckpointSnapshot
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal

_NOT_COUNTED = ("*/wal/memory.py", "*/btree/*", "*/tracemalloc.py")
_EVENT = b"x" * 100
_AT_ONCE = 100
_LOOKUPS = 5000


class World:
    """One container after the other over the same log and chunks."""

    def __init__(self, directory: str, pool: BlockingPool) -> None:
        self._logs = MemoryLogStore()
        self._chunks = FilesystemChunkProvider(directory, OsFilesystem(), ChunkThreads.shared(pool))
        self.index_pages = PageCache(32 * MIB)
        self._config = dataclasses.replace(
            ContainerConfig(),
            storage_writer=StorageWriterConfig(flush_age_s=0.05, acknowledge_interval_s=0.05),
        )

    async def start(self) -> SegmentContainer:
        components = ContainerComponents(
            wal=MemoryWal(self._logs, "c0", WalConfig(frames_max=24)),
            chunks=self._chunks,
            cache=BlockCache(CacheConfig(bytes_max=32 * MIB)),
            index_pages=self.index_pages,
            clock=SystemClock(),
            entropy=SeededEntropy(1),
        )
        container = SegmentContainer(0, components, self._config, _on_failed)
        await container.start()
        return container


def _on_failed(_container: SegmentContainer, error: BaseException) -> None:
    raise SystemExit(f"the container failed: {error!r}")


class Writer:
    """Where the answer to one append goes."""

    def __init__(self, number: int) -> None:
        self.writer_id = _id_of(number)
        self.acknowledged = asyncio.get_running_loop().create_future()

    def on_durable(self, last_event_number: int, *_: int) -> None:
        self.acknowledged.set_result(last_event_number)

    def on_failed(self, error: HeadraceError) -> None:
        self.acknowledged.set_exception(error)


def _id_of(number: int) -> bytes:
    """Return one of the ids, which are as random as those of writers."""
    return random.Random(number).randbytes(16).replace(b"\x80", b"\x81")


async def write_once(container: SegmentContainer, segment: SegmentState, number: int) -> None:
    writer = Writer(number)
    target = container.target_of(segment)
    await target.settle(writer.writer_id)
    target.check_writer(writer.writer_id)
    if target.last_event_number(writer.writer_id) != ATTRIBUTE_NULL:
        raise SystemExit(f"writer {number} is said to have written")
    target.append_block(
        writer,
        [memoryview(_EVENT)],
        len(_EVENT),
        previous_event_number=ATTRIBUTE_NULL,
        last_event_number=number,
        event_count=1,
        request_id=1,
    )
    target.end_of_read()
    await writer.acknowledged
    target.close()


def counted_bytes() -> int:
    gc.collect()
    snapshot = tracemalloc.take_snapshot()
    filters = [tracemalloc.Filter(False, pattern) for pattern in _NOT_COUNTED]
    return sum(trace.size for trace in snapshot.filter_traces(filters).traces)


async def write(container: SegmentContainer, first: int, end: int) -> float:
    """Let each of these writers write once; return microseconds of CPU for one."""
    segment = await container.resolve("scope/stream/0.#epoch.0")
    began = time.process_time()
    for begin in range(first, end, _AT_ONCE):
        some = range(begin, min(begin + _AT_ONCE, end))
        await asyncio.gather(*(write_once(container, segment, number) for number in some))
    return (time.process_time() - began) / (end - first) * 1e6


async def measure_writers(world: World, count: int) -> None:
    container = await world.start()
    segment = await container.create("scope/stream/0.#epoch.0", {})
    first = count // 10
    per_writer = [await write(container, 0, first)]
    tracemalloc.start()
    before = counted_bytes()
    await write(container, first, 2 * first)
    few = counted_bytes() - before
    tracemalloc.stop()
    per_writer.append(await write(container, 2 * first, count - first))
    tracemalloc.start()
    before_last = counted_bytes()
    await write(container, count - first, count)
    many = counted_bytes() - before_last
    tracemalloc.stop()
    attributes = segment.attributes
    row = sum(map(len, CheckpointSnapshot(container.state).segment_rows))
    written = container.tiers.index_writer.statistics()
    print(f"writers                         {count:12,}")
    print(f"CPU for one, of the first       {per_writer[0]:12,.0f} us")
    print(f"CPU for one, of the others      {per_writer[1]:12,.0f} us")
    print(f"memory for the second tenth     {few:12,} bytes, for the last one {many:,}")
    print(f"values in memory                {len(attributes.accepted):12,}, newer {len(attributes.newer):,}")
    print(f"rows of a checkpoint            {row:12,} bytes")
    size = written.index_bytes_written / MIB
    print(f"writes of the index             {written.index_writes:12,}, {size:,.1f} MiB")
    for number in random.Random(3).sample(range(count), 200):
        if await container.read_attribute(segment.name, _id_of(number)) != number:
            raise SystemExit(f"writer {number} was forgotten")
    container.check()
    await container.stop()
    began = time.process_time()
    container = await world.start()
    print(f"recovery                        {(time.process_time() - began) * 1e3:12,.1f} ms of CPU")
    await container.stop()


async def load(container: SegmentContainer, name: str, count: int) -> None:
    """Write the index of a segment, beside its container."""
    segment = await container.create(name, {})
    segment.note_index()
    storage = container.tiers.storage
    assert storage is not None
    config = ContainerConfig().attributes
    index = SegmentIndex(segment.index_storage_name, 16, lambda: storage, PageCache(64 * MIB), config)
    step = 200_000
    for first in range(0, count, step):
        numbers = np.arange(first, min(first + step, count))
        keys = np.zeros((len(numbers), 2), ">u8")
        keys[:, 1] = numbers
        await index.update(keys.tobytes(), array("q", numbers.tobytes()))
    root = await index.open()
    print(f"attributes                      {root.entries:12,}")
    print(f"index                           {root.live_bytes / MIB:12,.0f} MiB, height {root.height}")


async def look_up(container: SegmentContainer, name: str, numbers: Sequence[int]) -> tuple[float, float]:
    """Return microseconds of one look-up, and pages read."""
    before = container.tiers.index_writer.statistics().pages_read
    began = time.perf_counter()
    for number in numbers:
        if await container.read_attribute(name, number.to_bytes(16, "big")) != number:
            raise SystemExit(f"attribute {number} has another value")
    taken = (time.perf_counter() - began) / len(numbers) * 1e6
    return taken, (container.tiers.index_writer.statistics().pages_read - before) / len(numbers)


async def measure_attributes(world: World, count: int) -> None:
    container = await world.start()
    name = "scope/stream/1.#epoch.0"
    began = time.perf_counter()
    await load(container, name, count)
    print(f"bulk load                       {time.perf_counter() - began:12,.1f} s")
    await container.stop()
    began = time.process_time()
    container = await world.start()
    print(f"recovery                        {(time.process_time() - began) * 1e3:12,.1f} ms of CPU")
    dice = random.Random(5)
    lookups = min(_LOOKUPS, count)
    first_us, first_pages = await look_up(container, name, [dice.randrange(count)])
    print(f"first look-up                   {first_us:12,.0f} us, {first_pages:.0f} pages read")
    await look_up(container, name, range(0, count, max(1, count // 500)))
    us, pages = await look_up(container, name, [dice.randrange(count) for _ in range(lookups)])
    print(f"random look-up                  {us:12,.0f} us, {pages:.2f} pages read")
    near = dice.randrange(max(1, count - 20 * lookups))
    us, pages = await look_up(
        container, name, [near + dice.randrange(min(count, 20 * lookups)) for _ in range(lookups)]
    )
    print(f"look-up among near ones         {us:12,.0f} us, {pages:.2f} pages read")
    segment = await container.resolve(name)
    began = time.perf_counter()
    for _ in range(lookups // 10):
        key = dice.randrange(count).to_bytes(16, "big")
        await container.update_attributes(segment, [AttributeUpdate(key, UpdateKind.ACCUMULATE, 0)])
    us = (time.perf_counter() - began) / (lookups // 10) * 1e6
    print(f"random ACCUMULATE               {us:12,.0f} us")
    print(f"pages in memory                 {world.index_pages.size_bytes / MIB:12,.1f} MiB")
    print(f"values in memory                {len(segment.attributes.accepted):12,}")
    await container.stop()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--writers", type=int, default=100_000)
    parser.add_argument("--attributes", type=int, default=10_000_000)
    args = parser.parse_args(arguments)
    writers, attributes = (3000, 20_000) if args.smoke else (args.writers, args.attributes)

    async def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            world = World(directory, BlockingPool(4, "chunks"))
            await measure_writers(world, writers)
            await measure_attributes(world, attributes)

    asyncio.run(run())


if __name__ == "__main__":
    main()
