"""A container whose store cannot append merges what its flushes leave behind, in the background."""

import asyncio
import dataclasses

import pytest

from headrace.storage.chunks.optimiser_config import OptimiserConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.storage_faults import Fault, FaultyChunkProvider
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

NAMES = ["s/t/0", "s/t/1"]


class StoreBench(Bench):
    def __init__(self, *, supports_append=False, **optimiser):
        super().__init__()
        self.chunks = FaultyChunkProvider(MemoryChunkProvider(supports_append=supports_append))
        settings = OptimiserConfig(interval_s=0.3, retry_max_s=0.3, **optimiser)
        self.config = dataclasses.replace(self.config, optimiser=settings)

    async def fill(self, flushes=12):
        for name in NAMES:
            if name not in self.container.state.by_name:
                await self.container.create(name, {})
        for number in range(flushes):
            for name in NAMES:
                await append(self.container, name, bytes([number]) * 1000)
            await self.container.flush_storage()

    def chunk_count(self, name):
        found = self.container.tiers.storage.info_nowait(self.container.state.by_name[name].storage_name)
        return found.chunk_count

    @property
    def rounds(self):
        return self.container.tiers.optimiser.statistics().rounds


@pytest.fixture
async def bench():
    bench = StoreBench()
    await bench.start()
    yield bench
    assert bench.failures == []
    await bench.stop()


@pytest.mark.slow
async def test_small_chunks_are_merged_and_read_as_before(bench):
    await bench.fill()
    await until(lambda: bench.rounds >= 3)
    assert all(bench.chunk_count(name) <= 4 for name in NAMES)
    statistics = bench.container.statistics()["optimiser"]
    assert statistics.rewrites.chunks_replaced >= 16
    assert statistics.candidates_left == 0
    await bench.start()  # as after a crash: nothing is in the cache
    for name in NAMES:
        assert await read_all(bench.container, name) == b"".join(bytes([n]) * 1000 for n in range(12))


async def test_the_tables_of_the_container_are_merged_too(bench):
    await bench.fill(30)
    table = bench.container.tiers.table_rows.name
    await until(lambda: bench.chunk_count(table) < 12)


@pytest.mark.slow
async def test_an_inactive_segment_is_merged_by_a_round_over_the_rows(bench):
    bench.config = dataclasses.replace(
        bench.config, optimiser=dataclasses.replace(bench.config.optimiser, interval_s=1e6)
    )
    await bench.start()
    await bench.fill()
    storage_name = bench.container.state.by_name[NAMES[0]].storage_name
    await bench.evict(NAMES[0])
    bench.config = dataclasses.replace(
        bench.config, optimiser=dataclasses.replace(bench.config.optimiser, interval_s=0.3)
    )
    await bench.start()
    await until(lambda: bench.rounds >= 3)
    assert NAMES[0] not in bench.container.state.by_name
    assert (await bench.container.tiers.storage.info(storage_name)).chunk_count <= 4


@pytest.mark.slow
async def test_a_store_that_fails_makes_the_pauses_longer_and_ends_nothing(bench):
    await bench.fill()
    bench.chunks.inject = lambda call: Fault.FAIL if call.kind == "create" else None
    await until(lambda: bench.container.tiers.optimiser.statistics().rounds_failed >= 3)
    bench.chunks.inject = lambda _: None
    await until(lambda: bench.chunk_count(NAMES[0]) <= 4)


async def test_where_the_store_appends_nothing_is_merged_unless_it_is_asked_for():
    for mode, runs in (("auto", False), ("off", False), ("on", True)):
        bench = StoreBench(supports_append=True, mode=mode)
        await bench.start()
        assert (bench.container.tiers.optimiser is not None) is runs
        await bench.stop()


@pytest.mark.slow
async def test_while_paused_no_object_is_rewritten_and_then_it_goes_on(bench):
    bench.optimiser_switch.pause()
    await bench.fill()
    written = {name: bench.chunk_count(name) for name in NAMES}
    await asyncio.sleep(10)  # 30 rounds would begin in it: the time is virtual
    await bench.start()  # a container that restarts meanwhile stays paused
    await asyncio.sleep(10)
    statistics = bench.container.statistics()["optimiser"]
    assert (statistics.state, statistics.rewrites.bytes_rewritten) == ("paused", 0)
    storage, segments = bench.container.tiers.storage, bench.container.state.by_name
    found = {name: (await storage.info(segments[name].storage_name)).chunk_count for name in NAMES}
    assert found == written
    bench.optimiser_switch.resume()
    await until(lambda: all(bench.chunk_count(name) <= 4 for name in NAMES))
    await until(lambda: bench.container.statistics()["optimiser"].state == "resting")


async def slept_until(condition):
    while not condition():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.05)  # virtual


@pytest.mark.slow
async def test_a_pause_ends_the_work_after_the_current_step(bench):
    bench.optimiser_switch.pause()
    await bench.fill()
    bench.chunks.delay_s = lambda _: 2.0  # virtual
    bench.optimiser_switch.resume()
    optimiser = bench.container.tiers.optimiser
    await slept_until(lambda: optimiser.statistics().state == "working")
    bench.optimiser_switch.pause()
    assert optimiser.statistics().state == "pausing"
    await slept_until(lambda: optimiser.statistics().state == "paused")
    step = optimiser.statistics().rewrites.bytes_rewritten
    await asyncio.sleep(10)
    assert optimiser.statistics().rewrites.bytes_rewritten == step
    assert sum(bench.chunk_count(name) > 4 for name in NAMES) >= 1
    bench.optimiser_switch.resume()
    await slept_until(lambda: all(bench.chunk_count(name) <= 4 for name in NAMES))
