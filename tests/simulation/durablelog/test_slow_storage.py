"""A greedy writer and a slow storage: a container on virtual time, with and without its throttle."""

import asyncio
import dataclasses
from itertools import pairwise

import pytest

from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.simulation import simulate
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal

STORAGE_RATE = 1 * MIB
BLOCK = memoryview(bytes(8 * KIB))
SECONDS = 12
WARM_UP = 5

CONFIG = ContainerConfig(
    unstored_bytes_max=2 * MIB,
    throttle=ThrottleConfig(burst_bytes=32 * KIB),
    storage_writer=StorageWriterConfig(
        flush_bytes=128 * KIB, write_bytes_max=512 * KIB, pressure_bytes=256 * KIB
    ),
)
UNTHROTTLED = dataclasses.replace(CONFIG, throttle=ThrottleConfig(delay_max_s=0.0))


class SlowChunks(MemoryChunkProvider):
    """Takes as long as its rate says; ``is_stalled`` storage does not answer at all."""

    is_stalled = False

    async def _take(self, buffers):
        await asyncio.sleep(sum(map(len, buffers)) / STORAGE_RATE)
        while self.is_stalled:  # noqa: ASYNC110 - nothing could set an event
            await asyncio.sleep(1)

    async def create(self, name, buffers=(), beside=None):
        await self._take(buffers)
        await super().create(name, buffers, beside)

    async def append(self, name, offset, buffers, beside=None):
        await self._take(buffers)
        await super().append(name, offset, buffers, beside)


class GreedyWriter:
    """Appends whenever it may, and notes when."""

    writer_id = bytes(16)

    def __init__(self, target):
        self.target = target
        self.sent = -(1 << 63)
        self.accepted_at = []
        self.failure = None

    def on_durable(self, last_event_number, request_id, segment_length):
        pass

    def on_failed(self, error):
        self.failure = error

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            if not self.target.can_accept(len(BLOCK)):
                capacity = asyncio.Event()
                self.target.wait_capacity(1, capacity.set)
                await capacity.wait()
                continue
            last = max(self.sent, 0) + 1
            self.target.append_block(
                self, [BLOCK], len(BLOCK), previous_event_number=self.sent, last_event_number=last,
                event_count=1, request_id=last,
            )  # fmt: skip
            self.sent = last
            self.accepted_at.append(loop.time())
            if last % 4 == 0:
                self.target.end_of_read()
                await asyncio.sleep(0.001)


class World:
    def __init__(self, sim, config):
        self.chunks = SlowChunks()
        self.failures = []
        components = ContainerComponents(
            wal=MemoryWal(MemoryLogStore(), "log", WalConfig(frame_bytes_max=64 * KIB)),
            chunks=self.chunks,
            cache=BlockCache(
                CacheConfig(bytes_max=16 * MIB, arena_bytes=1 * MIB, extent_bytes_max=256 * KIB)
            ),
            clock=sim.clock,
            entropy=SeededEntropy("names"),
        )
        self.container = SegmentContainer(0, components, config, lambda _, error: self.failures.append(error))

    async def start(self):
        await self.container.start()
        await self.container.create("s", {})
        self.writer = GreedyWriter(self.container.append_target("s"))
        return self


def pauses(config):
    """Return the longest pause of a settled greedy writer, and its rate in parts of the storage's."""

    async def scenario(sim):
        world = await World(sim, config).start()
        task = asyncio.ensure_future(world.writer.run())
        await asyncio.sleep(SECONDS)
        task.cancel()
        begin = asyncio.get_running_loop().time() - SECONDS + WARM_UP
        settled = [at for at in world.writer.accepted_at if at >= begin]
        assert not world.failures
        await world.container.stop()
        longest = max(b - a for a, b in pairwise(settled))
        return longest, len(settled) * len(BLOCK) / (SECONDS - WARM_UP) / STORAGE_RATE

    return simulate(1, scenario, limit_s=600).value


def test_slow_storage_slows_appends_evenly_instead_of_stopping_them_again_and_again():
    throttled, rate = pauses(CONFIG)
    unthrottled, full_rate = pauses(UNTHROTTLED)
    assert rate == pytest.approx(1, abs=0.15), "appends go as fast as storage"
    assert rate > 0.9 * full_rate, "and no slower than without the throttle"
    assert throttled < unthrottled / 2
    assert unthrottled > 0.1


def test_a_container_whose_storage_is_stuck_stops_at_once_and_tells_its_writer():
    async def scenario(sim):
        world = await World(
            sim,
            dataclasses.replace(
                CONFIG,
                storage_writer=dataclasses.replace(CONFIG.storage_writer, stop_flush_s=1.0),
            ),
        ).start()
        world.chunks.is_stalled = True
        task = asyncio.ensure_future(world.writer.run())
        await asyncio.sleep(60)
        assert not task.done(), "it waits"
        statistics = world.container.log.statistics().processor
        assert statistics.throttle.delay_s == CONFIG.throttle.delay_max_s
        assert statistics.throttle.delayed_total_s > 30
        async with asyncio.timeout(5):
            await world.container.stop()
        with pytest.raises(Exception, match="stopped"):
            await task
        assert not world.failures

    simulate(1, scenario, limit_s=600)
