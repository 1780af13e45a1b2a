"""Retention of whole streams: what goes, what stays, and what a dead or a second controller changes."""

import asyncio
from itertools import pairwise

import pytest

from headrace.controller.store.layout import RETENTION, details_table, retention_key
from headrace.controller.streams.bucket_index import BucketMember
from headrace.errors import ContainerOfflineError
from headrace.model.policies import RetentionPolicy, StreamConfiguration
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.api.test_reader_group_calls import ID
from tests.unit.controller.api.test_reader_group_calls import config as group_config
from tests.unit.controller.calls import ask, info
from tests.unit.controller.conftest import World
from tests.unit.controller.mortality import check_world, every_death, every_misfortune, idle, simulated

PERIOD_MS = 60_000
YEAR_MS = 365 * 86_400_000


def by_size(*limits):
    return RetentionPolicy.by_size(*limits)


def by_periods(*limits):
    return RetentionPolicy.by_time(*(limit * PERIOD_MS for limit in limits))


async def make_stream(controller, policy, segments=1):
    await controller.context.scopes.create("s")
    await controller.streams.create("s", "t", StreamConfiguration(retention=policy))
    if segments > 1:
        await scale(controller, *(index / segments for index in range(segments + 1)))


async def scale(controller, *bounds):
    """Replace all segments; return the new ones."""
    stream = await controller.context.directory.get("s", "t")
    entries = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in pairwise(bounds)]
    request = pb.ScaleRequest(
        streamInfo=info(), sealedSegments=stream.row.epoch.segment_ids(), newKeyRanges=entries
    )
    assert (await ask(controller, "scale", request)).status == pb.ScaleResponse.STARTED
    await idle(controller)
    stream = await controller.context.directory.get("s", "t")
    return stream.row.epoch.segment_ids()


async def period(world, *controllers):
    """Let one period pass, and every controller do its work."""
    world.clock.now += PERIOD_MS
    for controller in controllers:
        await controller.retention.streams.enforce(await member_of(controller))
        await idle(controller)


async def pass_periods(world, count):
    """Let periods pass, on the loop as on the clock."""
    for _ in range(count):
        world.clock.now += PERIOD_MS
        await asyncio.sleep(PERIOD_MS / 1000)


async def member_of(controller):
    index = controller.context.bucket_index
    bucket = controller.context.buckets.bucket_of("s", "t")
    members, _ = await index.page(bucket, b"", 10)
    return members[0] if members else BucketMember(RETENTION, "s", "t", 0, 0)


async def write(world, controller, length, *segments):
    """Write to the given segments, or to the active ones."""
    stream = await controller.context.directory.get("s", "t")
    for segment in segments or stream.row.epoch.segment_ids():
        world.segments.write(stream.segment(segment), bytes(length))


async def head(controller):
    stream = await controller.context.directory.get("s", "t")
    return None if stream.row.truncation is None else dict(stream.row.truncation)


async def members(controller):
    stream = await controller.context.directory.get("s", "t")
    return (await controller.context.retention_sets.read(stream.uid)).members


def names(world):
    return {name.removeprefix("s/t/") for name in world.segments.segments if name.startswith("s/t/")}


async def join(controller):
    """Make a subscriber of the stream."""
    request = group_config("g", ["t"], retention=1)
    assert (await ask(controller, "create_reader_group", request)).status == 0
    await idle(controller)


async def report(controller, cut):
    request = pb.SubscriberStreamCut(
        subscriber="s/g",
        readerGroupId=ID,
        generation=0,
        streamCut=pb.StreamCut(streamInfo=info(), cut=cut),
    )
    status = (await ask(controller, "update_subscriber_stream_cut", request)).status
    assert status == pb.UpdateSubscriberStatus.SUCCESS


# ---- without subscribers


async def test_by_size_the_most_recent_cut_that_retains_the_minimum_is_the_head(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(250))
        for _ in range(3):
            await write(world, controller, 100)
            await period(world, controller)
        assert await head(controller) is None
        await write(world, controller, 100)
        await period(world, controller)
        assert await head(controller) == {0: 100}
        await write(world, controller, 500)
        await period(world, controller)
        assert await head(controller) == {0: 400}
        assert world.segments.segments["s/t/0.#epoch.0"].start_offset == 400
        assert [each.size_bytes for each in await members(controller)] == [900]


async def test_by_time_what_is_older_than_the_minimum_goes_also_when_nothing_is_written(world):
    async with world.running() as controller:
        await make_stream(controller, by_periods(3))
        await write(world, controller, 100)
        await period(world, controller)
        await write(world, controller, 100)
        await period(world, controller)
        for expected in (None, {0: 100}, {0: 200}, {0: 200}):
            await period(world, controller)
            assert await head(controller) == expected
        assert await members(controller) == ()


async def test_the_first_run_comes_one_period_after_the_policy_is_set(world):
    async with world.running() as controller:
        await make_stream(controller, RetentionPolicy())
        await write(world, controller, 100)
        world.clock.now += 10 * PERIOD_MS
        await controller.streams.update("s", "t", StreamConfiguration(retention=by_size(1)))
        member = await member_of(controller)
        world.clock.now += PERIOD_MS - 1
        await controller.retention.streams.enforce(member)
        assert await members(controller) == ()
        world.clock.now += 1
        await controller.retention.streams.enforce(member)
        assert [each.size_bytes for each in await members(controller)] == [100]


async def test_segments_that_the_head_passes_are_deleted(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(100))
        await write(world, controller, 100)
        await period(world, controller)
        await scale(controller, 0.0, 0.5, 1.0)
        await write(world, controller, 30)
        await period(world, controller)
        await scale(controller, 0.0, 0.25, 1.0)
        assert len(names(world)) == 5
        await write(world, controller, 60)
        await period(world, controller)
        assert names(world) == {"1.#epoch.1", "2.#epoch.1", "3.#epoch.2", "4.#epoch.2"}
        await write(world, controller, 60)
        await period(world, controller)
        assert names(world) == {"3.#epoch.2", "4.#epoch.2"}
        assert [each.size_bytes for each in await members(controller)] == [400]
        await check_world(world, controller)


async def test_sizes_are_counted_over_scales_and_transactions_epochs(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(10_000))
        await period(world, controller)
        assert await members(controller) == ()  # there is nothing to retain yet
        await write(world, controller, 100)
        await scale(controller, 0.0, 0.5, 1.0)
        await write(world, controller, 10)
        first = await scale(controller, 0.0, 1.0)
        await write(world, controller, 7, *first)
        await period(world, controller)
        await write(world, controller, 3)
        await period(world, controller)
        assert [each.size_bytes for each in await members(controller)] == [127, 130]


async def test_what_is_written_while_a_cut_is_taken_is_retained_as_long_as_the_rest(world, monkeypatch):
    async with world.running() as controller:
        await make_stream(controller, by_periods(2))
        ask_stores = world.segments.segment_infos

        async def slow_infos(segments):
            world.clock.now += PERIOD_MS // 2  # calls are repeated, and data written meanwhile
            await write(world, controller, 100)
            return await ask_stores(segments)

        with monkeypatch.context() as patched:
            patched.setattr(world.segments, "segment_infos", slow_infos)
            await period(world, controller)
        written_ms = world.clock.now
        world.clock.now = written_ms + PERIOD_MS - 1
        await period(world, controller)
        assert await head(controller) is None, "the data are younger than two periods"
        world.clock.now = written_ms + PERIOD_MS
        await period(world, controller)
        assert await head(controller) == {0: 100}


async def test_cuts_are_taken_though_the_clock_was_ahead_once(world):
    async with world.running() as controller:
        world.clock.now += 1000 * PERIOD_MS
        await make_stream(controller, by_size(150))
        await write(world, controller, 100)
        await period(world, controller)
        world.clock.now -= 1000 * PERIOD_MS
        for _ in range(2):
            await write(world, controller, 100)
            await period(world, controller)
        assert await head(controller) == {0: 100}
        times = [each.time_ms for each in await members(controller)]
        assert times == sorted(set(times))


async def test_an_idle_stream_gets_no_further_cuts(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(1000))
        await write(world, controller, 100)
        for _ in range(5):
            await period(world, controller)
        assert len(await members(controller)) == 1


async def test_a_cut_is_taken_once_per_period(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(1000))
        await write(world, controller, 100)
        await period(world, controller)
        await write(world, controller, 100)
        await controller.retention.streams.enforce(await member_of(controller))
        assert len(await members(controller)) == 1


async def test_the_set_is_bounded(world, monkeypatch):
    monkeypatch.setattr("headrace.controller.services.stream_retention.MEMBERS_MAX", 10)
    async with world.running() as controller:
        await make_stream(controller, by_periods(1000))
        for _ in range(40):
            await write(world, controller, 10)
            await period(world, controller)
        found = await members(controller)
        assert len(found) == 10
        assert found[0].size_bytes == 10
        assert found[-1].size_bytes == 400
        stream = await controller.context.directory.get("s", "t")
        page = await world.store.scan(details_table(stream.uid), b"", 1000)
        assert sum(key[16:17] == b"q" for key, _ in page.rows) == 10


async def test_a_manual_truncation_beyond_the_set_is_no_trouble(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(150))
        await write(world, controller, 100)
        await period(world, controller)
        (second,) = await scale(controller, 0.0, 1.0)
        await write(world, controller, 100)
        await controller.streams.truncate("s", "t", {second: 50})
        await period(world, controller)
        assert await head(controller) == {second: 50}
        await write(world, controller, 100)
        await period(world, controller)
        assert await head(controller) == {second: 50}
        await write(world, controller, 100)
        await period(world, controller)
        assert await head(controller) == {second: 100}


# ---- policies that come and go


async def test_a_stream_that_loses_its_policy_leaves_the_index(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(10))
        await write(world, controller, 100)
        await controller.streams.update("s", "t", StreamConfiguration())
        await period(world, controller)
        assert await head(controller) is None
        assert (await member_of(controller)).version == 0


async def test_a_deleted_stream_leaves_nothing_behind(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(1000))
        await write(world, controller, 100)
        await period(world, controller)
        stream = await controller.context.directory.get("s", "t")
        await controller.streams.seal("s", "t")
        await period(world, controller)  # a sealed stream stays as it is
        assert await head(controller) is None
        await controller.streams.delete("s", "t")
        await period(world, controller)
        assert (await member_of(controller)).version == 0
        keys = await controller.context.retention_sets.keys(stream.uid)
        assert keys == [retention_key(stream.uid)]
        assert await world.store.get(details_table(stream.uid), keys[0]) is None


# ---- with subscribers


async def test_by_size_a_subscriber_delays_the_head_up_to_the_maximum(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(100, 500))
        await join(controller)
        await write(world, controller, 300)
        await period(world, controller)
        await report(controller, {0: 50})
        await period(world, controller)
        assert await head(controller) == {0: 50}  # between minimum and maximum the bound is the head
        await write(world, controller, 200)
        await period(world, controller)
        assert await head(controller) == {0: 50}
        await write(world, controller, 200)
        await period(world, controller)
        assert await head(controller) == {0: 300}  # 650 bytes for one subscriber are too many
        await report(controller, {0: 690})
        await period(world, controller)
        assert await head(controller) == {0: 500}  # the minimum, though it is read


async def test_by_time_a_subscriber_delays_the_head_up_to_the_maximum(world):
    async with world.running() as controller:
        await make_stream(controller, by_periods(2, 4))
        await join(controller)
        await report(controller, {0: 0})
        heads = []
        for _ in range(7):
            await write(world, controller, 100)
            await period(world, controller)
            heads.append(await head(controller))
        # the cut of 4 periods ago is the first that the subscriber loses
        assert heads[:4] == [None, None, {0: 0}, {0: 0}]
        assert heads[4:] == [{0: 100}, {0: 200}, {0: 300}]
        await report(controller, {0: 650})
        await period(world, controller)
        assert await head(controller) == {0: 600}


async def test_the_slowest_subscriber_counts_over_a_scale(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(10))
        await join(controller)
        await write(world, controller, 100)
        await report(controller, {0: 40})
        second, third = await scale(controller, 0.0, 0.5, 1.0)
        await write(world, controller, 100)
        await period(world, controller)
        assert await head(controller) == {0: 40}
        await report(controller, {second: 30, third: 0})
        await period(world, controller)
        assert await head(controller) == {second: 30, third: 0}
        assert "0.#epoch.0" not in names(world)


async def test_a_subscriber_that_never_reported_retains_nothing(world):
    async with world.running() as controller:
        await make_stream(controller, by_size(50))
        await join(controller)
        for _ in range(2):
            await write(world, controller, 100)
            await period(world, controller)
        assert await head(controller) == {0: 100}


# ---- clocks


@simulated
async def test_a_clock_that_jumps_to_another_year_for_a_while_deletes_nothing_and_is_reported_once(caplog):
    world = World()
    async with world.running() as controller:
        await make_stream(controller, by_periods(100))
        await write(world, controller, 100)
        await pass_periods(world, 3)
        world.clock.now += 14 * YEAR_MS
        for _ in range(5):
            await asyncio.sleep(PERIOD_MS / 1000 / 6)
            await controller.retention.streams.enforce(await member_of(controller))
            await write(world, controller, 1)
        world.clock.now += PERIOD_MS - 14 * YEAR_MS
        await pass_periods(world, 10)
        assert await head(controller) is None
        assert all(each.time_ms <= world.clock.now for each in await members(controller))
        assert len([each for each in caplog.messages if "jumped ahead" in each]) == 1
        world.clock.now += 14 * YEAR_MS
        await pass_periods(world, 4)
        assert await head(controller) == {0: 105}, "it lasts, so it is the time"


# ---- trouble


async def test_two_owners_at_once_do_no_harm(world):
    async with world.running() as one, world.running() as other:
        await make_stream(one, by_size(250))
        for _ in range(8):
            await write(world, one, 100)
            await period(world, one, other)
        assert await head(one) == {0: 500}
        assert [each.size_bytes for each in await members(other)] == [600, 700, 800]
        await check_world(world, other)


@simulated
async def test_trouble_of_a_segment_store_is_over_in_the_next_period():
    world = World()

    async def fault(call, segment):
        if call == "segment_info":
            raise ContainerOfflineError("the container moves")

    async with world.running() as controller:
        await make_stream(controller, by_size(50))
        await write(world, controller, 100)
        await period(world, controller)
        await write(world, controller, 100)
        world.segments.fault = fault
        with pytest.raises(ContainerOfflineError):
            await period(world, controller)
        world.segments.fault = None
        await period(world, controller)
        assert await head(controller) == {0: 100}


async def prepare_old_cuts(world, controller):
    await make_stream(controller, by_size(150))
    await write(world, controller, 100)
    await period(world, controller)
    await scale(controller, 0.0, 0.5, 1.0)
    await write(world, controller, 100)


@simulated
async def test_a_controller_may_die_between_any_two_effects():
    worlds = []

    def make_world():
        worlds.append(World())
        return worlds[-1]

    async def prepare(controller):
        await prepare_old_cuts(worlds[-1], controller)

    async def act(controller, state):
        await period(worlds[-1], controller)

    async def settle(controller, state):
        await period(worlds[-1], controller)

    async def check(world, controller, state):
        assert await head(controller) == {0: 100}
        assert [each.size_bytes for each in await members(controller)] == [300]

    assert await every_death(make_world, prepare, act, settle, check)


@pytest.mark.slow
@simulated
async def test_any_effect_may_fail_once():
    worlds = []

    def make_world():
        worlds.append(World())
        return worlds[-1]

    async def prepare(controller):
        await prepare_old_cuts(worlds[-1], controller)

    async def act(controller, state):
        await period(worlds[-1], controller)

    async def check(world, controller, state):
        await period(world, controller)
        assert await head(controller) == {0: 100}
        assert [each.size_bytes for each in await members(controller)] == [300]

    assert await every_misfortune(make_world, prepare, act, check)


@simulated
async def test_the_service_runs_by_itself_and_one_stream_does_not_stop_another():
    world = World()

    async def fault(call, segment):
        if call == "segment_info" and segment.startswith("s/b/"):
            raise ContainerOfflineError("the container moves")

    async with world.running() as controller:
        policy = RetentionPolicy.by_time(1)
        await make_stream(controller, policy)
        for name in ("a", "b", "c"):
            await controller.streams.create("s", name, StreamConfiguration(retention=policy))
        for name in ("a", "b", "c", "t"):
            world.segments.write(f"s/{name}/0.#epoch.0", bytes(100))
        world.segments.fault = fault
        await pass_periods(world, 4)
        for name in ("a", "c", "t"):
            assert world.segments.segments[f"s/{name}/0.#epoch.0"].start_offset == 100
        assert world.segments.segments["s/b/0.#epoch.0"].start_offset == 0
        assert controller.retention.statistics().failures >= 1
        world.segments.fault = None
        await pass_periods(world, 3)
        assert world.segments.segments["s/b/0.#epoch.0"].start_offset == 100
