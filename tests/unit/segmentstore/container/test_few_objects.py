"""In a store that cannot append every flush is an object: there are few, whatever the load."""

import asyncio
import dataclasses
from collections import Counter

import pytest

from headrace.limits import MIB
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper
from tests.effort import examples
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

HOUR_S = 3600


class Counting(ChunkProviderWrapper):
    """Counts every request, and creations by segment."""

    def __init__(self):
        super().__init__(MemoryChunkProvider(supports_append=False))
        self.requests, self.created, self.size = 0, Counter(), 0
        self.failing = False

    async def create(self, name, buffers=(), beside=None):
        self.requests += 1
        await self.provider.create(name, buffers, beside)
        parsed = parse_chunk_name(name)
        self.created["other" if parsed is None else parsed.segment.rpartition(".")[0]] += 1
        self.size += sum(map(len, buffers))

    async def read(self, *args):
        self.requests += 1
        return await self.provider.read(*args)

    async def info(self, name):
        self.requests += 1
        return await self.provider.info(name)

    async def delete(self, name):
        self.requests += 1
        await self.provider.delete(name)

    async def list(self, prefix=""):
        async for page in self.provider.list(prefix):
            self.requests += 1
            yield page


@pytest.fixture
async def bench():
    bench = Bench()
    bench.chunks = Counting()
    bench.config = dataclasses.replace(
        ContainerConfig(), storage_writer=StorageWriterConfig(stop_flush_s=0.1)
    )
    bench.cache_bytes = 512 * MIB
    await bench.start()
    yield bench
    await bench.stop()
    assert not bench.failures


@pytest.mark.slow
async def test_an_event_a_second_makes_at_most_four_objects_an_hour(bench):
    container, chunks = bench.container, bench.chunks
    await container.create("s/t", {})
    hours = examples(4)
    for _ in range(hours * HOUR_S):
        await append(container, "s/t", b"an event of some bytes")
        await asyncio.sleep(1.0)
    there = [name for name in chunks.provider.objects if name.startswith("c0/s/t.")]
    assert len(there) <= hours * 4
    assert hours * 4 - 1 <= chunks.created["s/t"] <= hours * 5, (
        "some of it is stored, in few objects, those merged included"
    )
    assert sum(chunks.created.values()) <= hours * 8


@pytest.mark.slow
async def test_segments_under_load_make_large_objects(bench):
    container, chunks = bench.container, bench.chunks
    names = [f"s/{number}" for number in range(8)]
    for name in names:
        await container.create(name, {})
    block = bytes(256 * 1024)
    blocks = examples(400)
    for _ in range(blocks):
        await asyncio.gather(*(append(container, name, block) for name in names))
        await asyncio.sleep(0.02)
    await asyncio.sleep(5.0)
    assert chunks.size > 0.75 * blocks * len(names) * len(block)
    assert chunks.requests / (chunks.size / MIB) < 0.2
    assert len(await read_all(container, names[0])) == blocks * len(block)


async def test_a_quiet_segment_does_not_keep_the_log_long_while_others_are_written(bench):
    bench.config = dataclasses.replace(
        bench.config,
        checkpoint_bytes=1 * MIB,
        storage_writer=StorageWriterConfig(
            stop_flush_s=0.1, object_bytes=1 * MIB, checkpoint_distance_bytes=4 * MIB
        ),
    )
    container = await bench.start()
    await container.create("s/quiet", {})
    await container.create("s/loaded", {})
    await append(container, "s/quiet", b"quiet")
    for _ in range(100):
        await append(container, "s/loaded", bytes(128 * 1024))
        await asyncio.sleep(0.1)
    quiet = container.state.by_name["s/quiet"]
    assert quiet.stored_length == 5
    assert bench.chunks.created["s/quiet"] == 1
    assert bench.chunks.created["s/loaded"] <= 20
    found = container.tiers.writer.statistics()
    assert found.acknowledged_sequence > 0


async def test_checkpoints_of_little_bytes_flush_what_they_wait_for(bench):
    """Attributes and names of segments are no bytes of segments, and make the log long all the same."""
    container = bench.container
    await container.create("s/quiet", {})
    await append(container, "s/quiet", b"quiet")
    for number in range(20):
        await append(container, "s/quiet", b".")
        await container.log.write_checkpoint()
        await asyncio.sleep(1.0)
        if number < 5:
            assert container.state.by_name["s/quiet"].stored_length == 0
    assert container.state.by_name["s/quiet"].stored_length > 5


@pytest.mark.slow
async def test_more_items_than_may_wait_are_flushed_though_they_are_young_and_small(bench):
    bench.config = dataclasses.replace(
        bench.config, storage_writer=StorageWriterConfig(stop_flush_s=0.1, pending_operations_max=60)
    )
    container = await bench.start()
    names = [f"s/{number}" for number in range(200)]
    for name in names:
        await container.create(name, {})
        await append(container, name, b"x")
    await asyncio.sleep(10.0)
    assert sum(container.state.by_name[name].stored_length for name in names) > 140
    assert not len(container.tiers.log.memory_log)


@pytest.mark.slow
async def test_no_append_waits_until_what_is_unstored_is_old(bench):
    """Each segment with an unstored byte counts with the blocks that it takes of the cache."""
    bench.config = dataclasses.replace(bench.config, unstored_bytes_max=1 * MIB)
    container = await bench.start()
    for number in range(300):
        await container.create(f"s/{number}", {})
        await asyncio.wait_for(append(container, f"s/{number}", b"x"), 30.0)
