"""A cache that fills because storage takes nothing: appends wait long before it is full; if it is full after
all, the container ends, and what was acknowledged is there for the next owner.
"""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from headrace.errors import HeadraceError
from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.hosting.assignment import ContainerAssignment
from headrace.segmentstore.hosting.registry import ContainerRegistry
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, FaultyChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal
from tests.given_containers import give_all

CACHE_BYTES = 8 * MIB
CONFIG = dataclasses.replace(
    ContainerConfig(),
    storage_writer=StorageWriterConfig(flush_bytes=64 * KIB, flush_age_s=0.1, stop_flush_s=0.1),
)


def cache_of(bytes_max: int) -> BlockCache:
    return BlockCache(CacheConfig(bytes_max=bytes_max, arena_bytes=1 * MIB, extent_bytes_max=256 * KIB))


class Containers:
    """Some containers of one process on storage that is stalled."""

    def __init__(self, sim, count: int) -> None:
        self.sim = sim
        self.logs = MemoryLogStore()
        self.cache = cache_of(CACHE_BYTES)
        self.config = CONFIG
        self.failures: list[Exception] = []
        self.chunks = FaultyChunkProvider(MemoryChunkProvider(), lambda _: Fault.HANG)
        self.containers = [self.make(number, self.cache) for number in range(count)]

    def make(self, number: int, cache: BlockCache) -> SegmentContainer:
        components = ContainerComponents(
            wal=MemoryWal(self.logs, f"log{number}", WalConfig(frame_bytes_max=64 * KIB)),
            chunks=self.chunks,
            cache=cache,
            clock=self.sim.clock,
            entropy=SeededEntropy(number),
        )
        return SegmentContainer(number, components, self.config, lambda _, error: self.failures.append(error))

    async def start(self) -> None:
        for container in self.containers:
            await container.start()
            await container.create("s", {})

    async def stop(self) -> None:
        for container in self.containers:
            await container.stop()


class Writer:
    """Appends blocks of its own number as fast as it may, and counts what is durable."""

    def __init__(self, container: SegmentContainer, number: int) -> None:
        self.target = container.append_target("s")
        self.writer_id = number.to_bytes(16, "big")
        self.block = bytes([number]) * (1 + number * 4093 % (32 * KIB))
        self.sent = -(1 << 63)
        self.durable_length = 0
        self.failed: HeadraceError | None = None

    def on_durable(self, last_event_number: int, request_id: int, segment_length: int) -> None:
        self.durable_length = segment_length

    def on_failed(self, error: HeadraceError) -> None:
        self.failed = error

    async def run(self) -> None:
        while self.failed is None:
            if not self.target.can_accept(len(self.block)):
                capacity = asyncio.Event()
                self.target.wait_capacity(1, capacity.set)
                await capacity.wait()
                continue
            last = max(self.sent, 0) + 1
            self.target.append_block(
                self, [self.block], len(self.block), previous_event_number=self.sent, last_event_number=last,
                event_count=1, request_id=last,
            )  # fmt: skip
            self.sent = last
            self.target.end_of_read()
            await asyncio.sleep(0)


def test_writers_wait_before_the_cache_is_full_however_many_containers_share_it():
    async def scenario(sim):
        world = Containers(sim, 3)
        await world.start()
        writers = [
            Writer(container, 1 + 5 * number + place)
            for number, container in enumerate(world.containers)
            for place in range(5)
        ]
        tasks = [asyncio.ensure_future(writer.run()) for writer in writers]
        await asyncio.sleep(120)
        assert world.failures == []
        assert not any(task.done() for task in tasks), "they wait"
        statistics = world.cache.statistics()
        assert statistics.essential_bytes < statistics.bytes_max
        assert statistics.essential_bytes > statistics.bytes_max // 8, "they got somewhere"
        for container in world.containers:
            segment = container.find_segment("s")
            assert segment.durable_length > 0
            result = await container.read(segment, segment.durable_length - 1, 10, wait=False)
            assert result.to_bytes()
        world.cache.check()
        for task in tasks:
            task.cancel()
        await world.stop()

    simulate(1, scenario, limit_s=600)


def test_a_log_with_more_merged_and_deleted_bytes_than_the_cache_holds_is_recovered():
    async def scenario(sim):
        world = Containers(sim, 1)
        world.chunks = FaultyChunkProvider(MemoryChunkProvider())
        # Nothing is stored before it is merged or deleted.
        world.config = dataclasses.replace(CONFIG, storage_writer=StorageWriterConfig(stop_flush_s=0.1))
        world.containers = [world.make(0, world.cache)]
        await world.start()
        container = world.containers[0]
        piece = bytes(256 * KIB)
        for number in range(12):  # the log is not cut: there is no checkpoint before 64 MiB
            for ending in ("merged", "deleted"):
                name = f"s#{ending}{number}"
                await container.create(name, {})
                for _ in range(4):
                    await container.append(container.find_segment(name), piece)
                if ending == "merged":
                    await container.merge(container.find_segment("s"), name)
                else:
                    await container.delete(container.find_segment(name))
            await container.flush_storage()
        assert container.find_segment("s").durable_length == 12 * MIB
        await container.stop()

        world.containers = [world.make(0, cache_of(CACHE_BYTES))]
        await world.containers[0].start()
        container = world.containers[0]
        container.check()
        result = await container.read(container.find_segment("s"), 11 * MIB, 1 * MIB, wait=False)
        assert result.length
        await container.flush_storage()
        assert world.failures == []
        await world.stop()

    simulate(1, scenario, limit_s=600)


@pytest.mark.parametrize("replay_operations", [1, 500])
def test_logs_that_hold_more_than_the_cache_together_are_recovered_one_behind_the_other(replay_operations):
    """The cache was made smaller, or filled at different times: no log may block another one, nor itself by
    the part of it that is replayed.
    """

    async def scenario(sim):
        world = Containers(sim, 3)
        world.config = dataclasses.replace(CONFIG, replay_operations=replay_operations)
        world.cache = cache_of(64 * MIB)
        world.containers = [world.make(number, world.cache) for number in range(3)]
        await world.start()
        for container in world.containers:
            for number in range(20):
                await container.append(container.find_segment("s"), bytes([number]) * (256 * KIB))
        await world.stop()  # storage is stalled: only the logs have the bytes

        cache = cache_of(CACHE_BYTES)
        world.chunks = FaultyChunkProvider(MemoryChunkProvider())
        registry = ContainerRegistry(3)
        assignment = ContainerAssignment(registry, lambda number, _: world.make(number, cache))
        await give_all(assignment, registry.container_count)
        assert not any(found.last_failure for found in registry.health())
        for container in registry.running():
            segment = container.find_segment("s")
            for number in range(20):
                result = await container.read(segment, number * 256 * KIB, 10, wait=False)
                assert result.to_bytes() == bytes([number]) * 10
        cache.check()
        assert world.failures == []
        await assignment.take_all()

    simulate(1, scenario, limit_s=600)


def test_a_log_that_holds_more_than_the_whole_cache_is_recovered_and_accepts_once_it_is_stored():
    async def scenario(sim):
        world = Containers(sim, 1)
        world.cache = cache_of(64 * MIB)
        world.containers = [world.make(0, world.cache)]
        await world.start()
        for _ in range(40):
            await world.containers[0].append(world.containers[0].find_segment("s"), bytes(256 * KIB))
        await world.stop()

        cache = cache_of(CACHE_BYTES)
        world.chunks = FaultyChunkProvider(MemoryChunkProvider())
        registry = ContainerRegistry(1)
        assignment = ContainerAssignment(registry, lambda number, _: world.make(number, cache))
        await give_all(assignment, registry.container_count)
        (container,) = registry.running()
        assert cache.statistics().overdrawn_bytes
        segment = container.find_segment("s")
        await container.append(segment, b"more")
        result = await container.read(segment, 40 * 256 * KIB, 10, wait=False)
        assert result.to_bytes() == b"more"
        await assignment.take_all()

    simulate(1, scenario, limit_s=600)
