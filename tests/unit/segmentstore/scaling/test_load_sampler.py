"""What the sampler reports about the segments of a real container."""

import asyncio

import pytest

from headrace.model import attributes as attr
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.names import segment_name, transaction_segment_name
from headrace.model.segment_report import Load
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.segmentstore.scaling.load_sampler import LoadSampler
from tests.unit.segmentstore.container.container_bench import Bench, append

CONFIG = ScalingConfig(sample_s=0.3, slow_s=5.0, hot_s=1.5, cold_s=60.0, cool_down_s=3.0)
"""Ten times as fast as the defaults: a *decisecond* below is what a second is to them."""
SEGMENT = segment_name("s", "t", 0)
KIB_PER_S = {attr.SCALE_POLICY_TYPE: 1, attr.SCALE_POLICY_RATE: 10}
EVENTS_PER_S = {attr.SCALE_POLICY_TYPE: 2, attr.SCALE_POLICY_RATE: 10}
WRITER = bytes(15) + b"\x07"


class LoopClock:
    def now_ms(self):
        return int(1000 * asyncio.get_running_loop().time())


class Reports:
    is_full = False

    def __init__(self):
        self.put_ones = []

    def put(self, report):
        self.put_ones.append(report)

    def loads(self, segment=SEGMENT):
        return [each.load for each in self.put_ones if each.segment == segment]


class World:
    """One container, a sampler over it."""

    def __init__(self, bench):
        self.bench = bench
        self.reports = Reports()
        self.sampler = LoadSampler(self, self.reports, LoopClock(), CONFIG)

    def running(self):
        return [self.bench.container]

    async def pass_time(self, deciseconds, each=None):
        """Let time pass; ``each`` is awaited before each sample."""
        for _ in range(int(deciseconds / 10 / CONFIG.sample_s)):
            if each is not None:
                await each()
            await asyncio.sleep(CONFIG.sample_s)
            await self.sampler.sample()

    def appends(self, size, segment=SEGMENT):
        return lambda: append(self.bench.container, segment, bytes(size))


@pytest.fixture
async def world():
    bench = Bench()
    await bench.start()
    yield World(bench)
    await bench.stop()


async def test_only_stream_segments_with_a_rate_policy_are_metered(world):
    create = world.bench.container.create
    await create(SEGMENT, KIB_PER_S)
    await create(segment_name("s", "fixed", 0), {attr.SCALE_POLICY_TYPE: 0, attr.SCALE_POLICY_RATE: 5})
    await create(segment_name("s", "plain", 0), {})
    await create("no-stream", KIB_PER_S)
    await create(transaction_segment_name(SEGMENT, 7), KIB_PER_S)
    await world.pass_time(6)
    assert world.sampler.statistics().metered == 1


@pytest.mark.slow
async def test_a_segment_with_ten_times_its_bytes_is_hot_and_later_cold(world):
    await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.pass_time(60, world.appends(30 * 1024))
    assert set(world.reports.loads()) == {Load.HOT}
    assert world.reports.put_ones[0].pieces in {9, 10}
    await world.pass_time(900, world.appends(100))
    assert world.reports.loads()[-2:] == [Load.HOT, Load.COLD]
    await world.pass_time(700)
    assert world.reports.loads()[-2:] == [Load.COLD, Load.SILENT]


@pytest.mark.slow
async def test_a_changed_policy_is_metered_from_then_on(world):
    state = await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.pass_time(30, world.appends(30 * 1024))
    updates = [AttributeUpdate(attr.SCALE_POLICY_RATE, UpdateKind.REPLACE, 1000)]
    await world.bench.container.update_attributes(state, updates)
    world.reports.put_ones.clear()
    await world.pass_time(120, world.appends(30 * 1024))
    assert world.reports.put_ones == []


async def test_a_sealed_segment_is_forgotten(world):
    state = await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.pass_time(6)
    await world.bench.container.seal(state)
    await world.pass_time(6)
    assert world.sampler.statistics().metered == 0


async def test_a_deleted_segment_is_forgotten(world):
    state = await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.pass_time(6)
    await world.bench.container.delete(state)
    await world.pass_time(6)
    assert world.sampler.statistics().metered == 0


@pytest.mark.slow
async def test_an_evicted_segment_is_silent_and_forgotten_once_that_is_reported(world):
    await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.pass_time(6)
    await world.bench.evict(SEGMENT)
    await world.pass_time(300)
    assert world.sampler.statistics().inactive == 1
    await world.pass_time(400)
    assert world.reports.loads() == [Load.SILENT]
    assert world.sampler.statistics().metered == 0


@pytest.mark.slow
async def test_an_evicted_segment_that_comes_back_goes_on(world):
    await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.pass_time(60, world.appends(2000))
    await world.bench.evict(SEGMENT)
    await world.pass_time(60)
    await world.pass_time(900, world.appends(2000))
    assert world.reports.loads() == []
    assert (world.sampler.statistics().metered, world.sampler.statistics().inactive) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True], ids=["evicted", "restarted"])
async def test_a_segment_that_a_former_meter_called_silent_is_reported_warm(world, restarts):
    await world.bench.container.create(SEGMENT, KIB_PER_S | {attr.CREATION_TIME: LoopClock().now_ms()})
    await world.pass_time(6)
    if not restarts:
        await world.bench.evict(SEGMENT)
    await world.pass_time(700)
    if restarts:
        world.sampler = LoadSampler(world, world.reports, LoopClock(), CONFIG)
    await world.pass_time(300, world.appends(2000))
    assert world.reports.loads() == [Load.SILENT, Load.WARM]


@pytest.mark.slow
async def test_a_new_segment_is_not_reported_warm(world):
    await world.bench.container.create(SEGMENT, KIB_PER_S | {attr.CREATION_TIME: LoopClock().now_ms()})
    await world.pass_time(300, world.appends(2000))
    assert world.reports.loads() == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", [KIB_PER_S, EVENTS_PER_S], ids=["bytes", "events"])
@pytest.mark.parametrize(("rate", "loads"), [(0.8, set()), (3.0, {Load.HOT})])
async def test_a_transaction_counts_over_its_lifetime(world, policy, rate, loads):
    container = world.bench.container
    target = await container.create(SEGMENT, policy)
    for number in range(5):
        source = transaction_segment_name(SEGMENT, number)
        written = await container.create(source, {attr.CREATION_TIME: LoopClock().now_ms()})
        await world.pass_time(30)
        updates = [AttributeUpdate(attr.EVENT_COUNT, UpdateKind.ACCUMULATE, int(60 * rate))]
        await container.append(written, bytes(int(60 * rate) * 1024), updates)
        await world.pass_time(30)
        await container.merge(target, source)
    await world.pass_time(18)
    assert set(world.reports.loads()) == loads


@pytest.mark.slow
async def test_a_full_queue_holds_cold_reports_back_and_no_hot_ones(world):
    other = segment_name("s", "other", 0)
    await world.bench.container.create(SEGMENT, KIB_PER_S)
    await world.bench.container.create(other, KIB_PER_S)
    world.reports.is_full = True
    await world.pass_time(700, world.appends(30 * 1024, other))
    assert set(world.reports.loads(other)) == {Load.HOT}
    assert world.reports.loads() == []
    world.reports.is_full = False
    await world.pass_time(3)
    assert world.reports.loads() == [Load.SILENT]
