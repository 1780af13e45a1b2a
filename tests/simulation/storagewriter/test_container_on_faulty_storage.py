"""A real container - log, read index, cache, storage writer - on storage that fails, with kills in between.

Whatever was acknowledged is read back, from whichever place it is in; at the end storage alone has all of it.
"""

import asyncio

import pytest

from headrace.errors import NoSuchSegmentError, SegmentTruncatedError
from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, fail_reads
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal
from tests.effort import seeds
from tests.table_rows import storage_rows_of

FAULTS = [Fault.FAIL, Fault.FULL, Fault.LOSE_REPLY, Fault.TEAR, Fault.HANG]


class Model:
    """What was acknowledged: bytes and start by segment name."""

    def __init__(self):
        self.content = {}
        self.start = {}


class World:
    def __init__(self, sim):
        self.sim = sim
        self.entropy = SeededEntropy(f"container-{sim.seed}")
        self.logs = MemoryLogStore()
        self.objects = MemoryChunkProvider()
        self.provider = FaultyChunkProvider(self.objects, self.inject)
        self.provider.delay_s = lambda _: self.entropy.random() * 0.02
        self.faults_per_thousand = self.entropy.randbelow(150)
        # In some seconds of each seven storage is away, or full, as a whole.
        self.bad_seconds = {self.entropy.randbelow(14) for _ in range(self.entropy.randbelow(4))}
        self.bad = [Fault.FAIL, Fault.FULL, Fault.HANG][self.entropy.randbelow(3)]
        self.model = Model()
        self.transactions = 0
        self.container = None
        draw = self.entropy.randbelow
        self.config = ContainerConfig(
            checkpoint_frames=5 + draw(40),
            checkpoint_bytes=4 * KIB,
            storage=SegmentStorageConfig(
                rollover_bytes=1000 + draw(3000),
                block_bytes=64 + draw(200),
                concat_copy_bytes_max=draw(1000),
                garbage_delay_s=0.0,
                garbage_retry_s=0.1,
                provider_timeout_s=1.0,
            ),
            storage_writer=StorageWriterConfig(
                flush_bytes=1 + draw(1000),
                write_bytes_max=1000 + draw(3000),
                flush_age_s=self.entropy.random() * (0.3 if draw(2) else 30.0),
                change_age_s=self.entropy.random() * 2.0,
                checkpoint_age_s=self.entropy.random() * 2.0,
                slow_flush_s=self.entropy.random() * 0.2,
                flushes_max=1 + draw(4),
                retry_initial_s=0.01,
                retry_max_s=0.2,
                garbage_interval_s=0.1,
                stop_flush_s=60.0,
            ),
        )

    def inject(self, _):
        if self.sim.clock.now_ms() // 1000 % 7 in self.bad_seconds:
            return self.bad
        if self.entropy.randbelow(1000) < self.faults_per_thousand:
            return FAULTS[self.entropy.randbelow(len(FAULTS))]
        return None

    async def open(self):
        self.failures = []
        components = ContainerComponents(
            wal=MemoryWal(self.logs, "log", WalConfig(frame_bytes_max=4 * KIB, segment_file_bytes=64 * KIB)),
            chunks=self.provider,
            cache=BlockCache(CacheConfig(bytes_max=MIB, arena_bytes=MIB // 2, extent_bytes_max=8 * KIB)),
            clock=self.sim.clock,
            entropy=self.entropy.fork("names"),
        )
        self.container = SegmentContainer(
            0, components, self.config, lambda _, error: self.failures.append(error)
        )
        await self.container.start()

    async def kill(self):
        """Kill it: nothing is flushed; what the storage layer has begun may still happen."""
        self.container.log.fail(NoSuchSegmentError("killed"))
        self.container.tiers.read_index.close()
        await self.container.tiers.supervisor.stop()
        assert not [error for error in self.failures if not isinstance(error, NoSuchSegmentError)]

    # ---- clients

    async def work(self, steps):
        self.stopping = False
        for _ in range(steps):
            if self.stopping:
                return
            name = f"s{self.entropy.randbelow(3)}"
            await self.step(name)
            if self.entropy.randbelow(3) == 0:
                await asyncio.sleep(self.entropy.random() * 0.1)

    async def step(self, name):
        model, container, entropy = self.model, self.container, self.entropy
        if name not in model.content:
            await container.create(name, {})
            model.content[name], model.start[name] = bytearray(), 0
        state = await container.resolve(name)
        match entropy.randbelow(12):
            case 0 | 1 | 2 | 3 | 4:
                data = entropy.token(1 + entropy.randbelow(400))
                offset = await container.append(state, data)
                assert offset == len(model.content[name])
                model.content[name] += data
            case 5 | 6 | 7:
                self.transactions += 1
                source_name = f"{name}#transaction.{self.transactions:032x}"
                source = await container.create(source_name, {})
                content = b""
                for _ in range(entropy.randbelow(4)):
                    data = entropy.token(1 + entropy.randbelow(900))
                    await container.append(source, data)
                    content += data
                    if entropy.randbelow(2):
                        await asyncio.sleep(entropy.random() * 0.4)
                if entropy.randbelow(5):
                    await container.merge(state, source_name)
                    model.content[name] += content
                else:
                    await container.delete(source)
            case 8:
                offset = entropy.randbelow(state.durable_length + 1)
                if offset >= model.start[name]:
                    await container.truncate(state, offset)
                    model.start[name] = offset
            case _:
                await self.read_somewhere(name)

    async def append(self, name, size):
        data = self.entropy.token(size)
        state = await self.container.resolve(name)
        assert await self.container.append(state, data) == len(self.model.content[name])
        self.model.content[name] += data

    async def read_somewhere(self, name):
        model, state = self.model, await self.container.resolve(name)
        if model.start[name] == len(model.content[name]):
            return
        offset = model.start[name] + self.entropy.randbelow(len(model.content[name]) - model.start[name])
        result = await self.container.read(state, offset, 1 + self.entropy.randbelow(2000), wait=False)
        data = result.to_bytes()
        assert data == model.content[name][offset : offset + len(data)]
        assert data

    async def read_everything(self):
        for name, content in self.model.content.items():
            state = await self.container.resolve(name)
            assert (state.durable_length, state.start_offset) == (len(content), self.model.start[name])
            offset = self.model.start[name]
            while offset < len(content):
                data = (await self.container.read(state, offset, 700, wait=False)).to_bytes()
                assert data
                assert data == content[offset : offset + len(data)]
                offset += len(data)
        for name, start in self.model.start.items():
            if start:
                with pytest.raises(SegmentTruncatedError):
                    await self.container.read(await self.container.resolve(name), start - 1, 1, wait=False)


async def scenario(sim):
    world = World(sim)
    for _ in range(5):
        await world.open()
        await world.read_everything()
        work = asyncio.ensure_future(world.work(60))
        await asyncio.wait([work], timeout=world.entropy.random() * 12.0)
        world.stopping = True  # between two steps, so that the model knows what happened
        await work
        world.container.check()
        await world.kill()
    world.faults_per_thousand = 0
    world.bad_seconds = ()
    await world.open()
    await world.read_everything()
    storage = world.container.tiers.storage
    await world.container.tiers.writer.flush_all()
    for name, content in world.model.content.items():
        info = await storage.info((await world.container.resolve(name)).storage_name)
        assert info is None or (info.length, info.start_offset) == (len(content), world.model.start[name])
        assert info is not None or not content
    rows = await storage_rows_of(world.container)
    assert sum(key.startswith("s/") for key in rows) <= len(world.model.content)
    await world.container.stop()
    await world.open()
    await world.read_everything()
    await world.kill()


async def without_storage(sim):
    """Storage neither answers nor takes anything from before the start on; then it recovers."""
    world = World(sim)
    world.faults_per_thousand = 0
    await world.open()
    await world.container.create("s", {})
    world.model.content["s"], world.model.start["s"] = bytearray(), 0
    await world.append("s", 300)
    await world.container.tiers.writer.flush_all()
    await world.append("s", 200)
    await world.kill()
    kind = [Fault.FAIL, Fault.HANG, Fault.FULL][sim.seed % 3]
    world.provider.inject = lambda _: kind
    world.provider.on_read = fail_reads
    await world.open()
    for _ in range(20):
        await world.append("s", 100)
        await asyncio.sleep(1.0)
    state = await world.container.resolve("s")
    data = (await world.container.read(state, 500, 3000, wait=False)).to_bytes()
    assert data == world.model.content["s"][500 : 500 + len(data)]
    assert not world.failures
    assert world.container.tiers.writer.statistics().segments_failing
    world.provider.inject = lambda _: None
    world.provider.on_read = lambda _: None
    await world.container.tiers.writer.flush_all()
    assert state.stored_length == 2500
    await world.read_everything()
    await world.container.stop()


@pytest.mark.parametrize("seed", seeds(6))
def test_a_container_is_online_and_accepts_while_storage_is_away_and_stores_all_when_it_is_back(seed):
    simulate(seed, without_storage)


@pytest.mark.parametrize("seed", seeds(8))
def test_what_was_acknowledged_is_read_back_whatever_storage_does(seed):
    simulate(seed, scenario)
