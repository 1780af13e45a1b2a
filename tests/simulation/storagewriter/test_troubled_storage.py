"""Hundreds of segments on a storage that is slow, full or stalled: calls in flight are bounded, and end."""

import asyncio
import contextlib

import pytest

from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault
from tests.effort import seeds
from tests.simulation.worlds.writer_world import WriterWorld

SEGMENTS = 300
CONFIG = StorageWriterConfig(
    flush_bytes=1000, write_bytes_max=3000, pressure_bytes=16_000_000, flush_age_s=2.0, flushes_max=16
)
STORAGE = SegmentStorageConfig(rollover_bytes=100_000, block_bytes=64, provider_timeout_s=60.0)


class Gauge:
    """How many calls are active, the most that ever were, and how many there were."""

    def __init__(self):
        self.now = self.most = self.count = 0

    @contextlib.contextmanager
    def call(self):
        self.now += 1
        self.count += 1
        self.most = max(self.most, self.now)
        try:
            yield
        finally:
            self.now -= 1

    def watch(self, call):
        async def watched(*args, **keywords):
            with self.call():
                return await call(*args, **keywords)

        return watched


class World(WriterWorld):
    """Counts what the writer asks of objects and of rows; commits may be blocked."""

    def __init__(self, **arguments):
        super().__init__(**{"writer_config": CONFIG, "storage_config": STORAGE, **arguments})
        self.calls, self.commits = Gauge(), Gauge()
        self.rows_open = asyncio.Event()
        self.rows_open.set()
        self.provider.create = self.calls.watch(self.provider.create)
        self.provider.append = self.calls.watch(self.provider.append)
        commit = self.rows.commit

        async def commit_when_open(changes):
            await self.rows_open.wait()
            await commit(changes)

        self.rows.commit = self.commits.watch(commit_when_open)

    def append_to_all(self, size=500):
        for number in range(SEGMENTS):
            self.append(f"s{number}", b"x" * size)
        self.checkpoint()

    @property
    def stored_count(self):
        return sum(segment.stored_length == segment.durable_length for segment in self.segments.values())


@contextlib.asynccontextmanager
async def running(world):
    run = asyncio.ensure_future(world.writer.run())
    try:
        yield
    finally:
        done = run.done()
        run.cancel()
        await asyncio.wait([run])
        if done and not run.cancelled():
            run.result()


@pytest.fixture(params=seeds(4))
def simulated(request):
    return lambda scenario: simulate(request.param, lambda _: scenario())


def test_a_storage_that_takes_a_second_for_a_call_is_asked_by_as_many_as_have_places(simulated):
    async def scenario():
        world = World()
        world.provider.delay_s = lambda _: 1.0
        async with running(world):
            world.append_to_all()
            await asyncio.sleep(2.0 + SEGMENTS / 16 + 5.0)
            assert world.stored_count == SEGMENTS
            world.append_to_all()
            await asyncio.sleep(2.0 + SEGMENTS / 16 + 5.0)
        await world.check_stored()
        found = world.writer.statistics()
        assert world.calls.most == 16
        assert (found.flush_failures, found.segments_suspect) == (0, 0)
        assert world.acknowledged == world.sequence

    simulated(scenario)


def test_what_waits_for_a_slow_storage_is_written_in_larger_pieces(simulated):
    """Else a storage that is slow for each call would never catch up."""

    async def scenario():
        world = World()
        world.provider.delay_s = lambda _: 5.0  # a minute and a half for all of them
        async with running(world):
            for _ in range(30):
                world.append_to_all(100)
                await asyncio.sleep(10.0)
            await asyncio.sleep(150.0)
        await world.check_stored()
        assert world.storage.statistics().writes < 10 * SEGMENTS

    simulated(scenario)


def test_segments_that_all_hang_take_no_more_places_than_there_are_and_come_back(simulated):
    async def scenario():
        world = World()
        is_stalled = [True]
        world.provider.inject = lambda call: Fault.HANG if is_stalled[0] and call.kind != "commit" else None
        async with running(world):
            world.append_to_all()
            await asyncio.sleep(600.0)
            # Each call is given up after a minute, and each segment waits half a minute between two of them.
            assert world.calls.most == 32
            assert world.calls.count <= 32 * (600 / 60 + 1)
            assert world.stored_count == 0
            is_stalled[0] = False
            await asyncio.sleep(200.0)
        await world.check_stored()

    simulated(scenario)


@pytest.mark.slow
def test_a_full_storage_is_asked_seldom_and_takes_everything_once_it_has_room(simulated):
    async def scenario():
        world = World()
        full = [True]
        world.provider.inject = lambda call: Fault.FULL if full[0] and call.kind != "commit" else None
        async with running(world):
            world.append_to_all()
            await asyncio.sleep(60.0)
            settled = world.calls.count
            await asyncio.sleep(150.0)
            assert world.calls.most <= 32
            assert world.calls.count - settled <= SEGMENTS * (150 / 30 + 1)
            assert not world.objects.objects
            assert world.acknowledged == -1
            full[0] = False
            await asyncio.sleep(40.0)
        await world.check_stored()
        assert world.acknowledged == world.sequence

    simulated(scenario)


def test_while_rows_cannot_be_committed_flushes_wait_in_their_places_and_all_end_at_once_then(simulated):
    """The disk of the log is full, that of the chunks is not."""

    async def scenario():
        world = World()
        world.rows_open.clear()
        async with running(world):
            world.append_to_all()
            await asyncio.sleep(300.0)
            assert world.stored_count == 0
            assert world.commits.most == 1
            assert world.writer.statistics().flushes_active <= 32
            assert len(world.objects.objects) <= 32
            world.rows_open.set()
            await asyncio.sleep(60.0)
        await world.check_stored()
        # No write was repeated: the rows were late, not lost.
        assert len(world.objects.objects) == SEGMENTS
        assert world.writer.statistics().flush_failures == 0

    simulated(scenario)


def test_hundreds_of_small_flushes_take_far_fewer_commits(simulated):
    async def scenario():
        world = World()
        async with running(world):
            world.append_to_all()
            await asyncio.sleep(30.0)
        await world.check_stored()
        assert world.storage.statistics().commits >= SEGMENTS
        assert world.storage.statistics().row_commits == world.commits.count <= SEGMENTS / 4

    simulated(scenario)
