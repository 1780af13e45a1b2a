"""A container on a log and chunks in memory, that stops and vanishes as a test says."""

import asyncio
import dataclasses

from headrace.limits import KIB, MIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig, EvictionConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.optimiser_switch import OptimiserSwitch
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal

EVICTION = EvictionConfig(active_segments_max=100, eviction_interval_s=1e9, eviction_cut_s=20.0)


class HeldWal(MemoryWal):
    """A log that stores nothing while it is held."""

    held = False
    answers = None
    """An event without which nobody hears who owns it."""

    def _store_next(self):
        if not self.held:
            super()._store_next()

    async def is_fenced(self):
        if self.answers is not None:
            await self.answers.wait()
        return await super().is_fenced()

    def go_on(self):
        self.held = False
        for _ in range(len(self._in_flight)):
            asyncio.get_running_loop().call_soon(self._store_next)


class Bench:
    """Starts one container after the other on the same log and chunks."""

    def __init__(self, **eviction):
        self.logs, self.chunks = MemoryLogStore(), MemoryChunkProvider()
        self.config = dataclasses.replace(
            ContainerConfig(),
            eviction=dataclasses.replace(EVICTION, **eviction),
            checkpoint_frames=100_000,
            storage_writer=StorageWriterConfig(
                flush_bytes=64 * KIB,
                flush_age_s=0.01,
                acknowledge_interval_s=0.01,
                take_timeout_s=0.01,
                stop_flush_s=0.05,
            ),
        )
        self.container = None
        self.failures = []
        self.make_wal = MemoryWal
        self.cache_bytes = 32 * MIB
        self.index_cache_bytes = 1 * MIB
        self.system = None
        self.optimiser_switch = OptimiserSwitch()

    async def start(self):
        """Start a container, which fences the one before, as after a crash."""
        components = ContainerComponents(
            wal=self.make_wal(self.logs, "c0", WalConfig(frames_max=24)),
            chunks=self.chunks,
            cache=BlockCache(CacheConfig(bytes_max=self.cache_bytes)),
            index_pages=PageCache(self.index_cache_bytes),
            optimiser_switch=self.optimiser_switch,
            clock=SystemClock(),
            entropy=SeededEntropy(1),
            system=self.system,
        )
        former, self.container = self.container, None
        container = SegmentContainer(0, components, self.config, self._on_failed)
        await container.start()
        if former is not None:
            await former.stop()
        container.check()
        self.container = container
        return container

    def _on_failed(self, container, error):
        """As the registry does: a container that ends is stopped."""
        self.failures.append(error)
        self.stopping = asyncio.ensure_future(container.stop())

    async def evict(self, *names):
        """Evict segments now: everything is stored and the log is cut, as after a long idle time."""
        container = self.container
        await container.log.write_checkpoint()
        await container.flush_storage()
        await container.evictions.evict()
        await container.evictions.evict()
        container.check()
        for name in names:
            assert name not in container.state.by_name, f"{name} is still active"

    async def stop(self):
        await self.container.stop()


async def append(container, name, data, *args):
    segment = await container.resolve(name)
    return await container.append(segment, data, *args)


async def read_all(container, name):
    segment = await container.resolve(name)
    offset, pieces = segment.start_offset, []
    while offset < segment.durable_length:
        data = (await container.read(segment, offset, 1 * MIB, wait=False)).to_bytes()
        assert data
        pieces.append(data)
        offset += len(data)
    return b"".join(pieces)


async def until(condition):
    """Poll until a condition holds that has no event; virtual time passes if nothing else is to be done."""
    polls = 0
    while not condition():
        polls += 1
        await asyncio.sleep(0 if polls % 100 else 0.001)


class Owner:
    """Where the answers to append blocks go."""

    def __init__(self, number):
        self.writer_id = number.to_bytes(16, "big")
        self.acks = []
        self.failures = []

    def on_durable(self, last_event_number, request_id, segment_length):
        self.acks.append(last_event_number)

    def on_failed(self, error):
        self.failures.append(error)


def withhold_memory(container):
    """Let everybody wait in line until the function that is returned is called."""
    index = container.log._read_index
    index.has_free_capacity = lambda: False

    def give():
        del index.has_free_capacity
        container.log.processor.on_memory_freed()

    return give


def queued(container):
    """How many requests wait in the lines of a container's log."""
    return container.log.processor.statistics().requests_queued
