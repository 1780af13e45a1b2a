"""Where streams were at a time: sampled by the owner of their bucket, answered by any controller."""

import asyncio

import grpc
import pytest

from headrace.controller.services.cut_sampling import CutSampling
from headrace.controller.settings.cut_series import CutSeriesConfig
from headrace.controller.store.layout import details_table
from headrace.errors import ConnectionLostError, ContainerOfflineError, InvalidArgumentError
from headrace.model.names import segment_name, transaction_segment_name
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import stream_time_pb2 as st
from headrace.rpc.generated.stream_time_pb2_grpc import StreamTimeServiceStub
from headrace.runtime.settings import validate
from tests.unit.controller.calls import begin, commit, info, refused, settled, shadow
from tests.unit.controller.conftest import World, serve

START_MS = 1_700_000_000_000
EPOCH_1 = 1 << 32


async def later(service, seconds=10):
    """Let time pass and the streams be sampled."""
    service.world.clock.now += seconds * 1000
    await service.controller.cut_sampling.sample_once()
    return service.world.clock.now


def write(service, size, segment_id=0, stream="t"):
    service.world.segments.write(segment_name("s", stream, segment_id), bytes(size))


async def cut_at(service, time_ms, stream="t"):
    answer = await StreamTimeServiceStub(service.channel).getCutAt(
        st.GetCutAtRequest(streamInfo=info(stream), timeMs=time_ms)
    )
    assert answer.cut.streamInfo == info(stream)
    return dict(answer.cut.cut), answer.timeMs, answer.isHead


async def rows_of(service, stream="t"):
    """Return every row of details of the stream."""
    found = await service.controller.context.directory.get("s", stream)
    page = await service.controller.context.store.scan(details_table(found.uid), b"", 10_000)
    return [key for key, _ in page.rows if key.startswith(found.uid)]


async def scale(service, sealed=(0,), ranges=((0.0, 0.5), (0.5, 1.0))):
    request = pb.ScaleRequest(
        streamInfo=info(),
        sealedSegments=sealed,
        newKeyRanges=[pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in ranges],
        scaleTimestamp=service.world.clock.now,
    )
    epoch = (await service.stub.scale(request)).epoch
    while True:
        state = await service.stub.checkScale(pb.ScaleStatusRequest(streamInfo=info(), epoch=epoch))
        if state.status == pb.ScaleStatusResponse.SUCCESS:
            return


async def test_a_stream_is_found_where_it_was(service):
    await service.create_stream(segments=2)
    write(service, 10)
    first = await later(service)
    write(service, 5, 1)
    second = await later(service)
    assert await cut_at(service, first) == ({0: 10, 1: 0}, first, False)
    assert await cut_at(service, second - 1) == ({0: 10, 1: 0}, first, False)
    assert await cut_at(service, second + 60_000) == ({0: 10, 1: 5}, second, False)


async def test_before_the_first_sample_it_is_the_head(service):
    await service.create_stream(segments=2)
    assert await cut_at(service, START_MS) == ({0: 0, 1: 0}, 0, True)
    write(service, 10)
    first = await later(service)
    assert await cut_at(service, first - 1) == ({0: 0, 1: 0}, 0, True)


async def test_a_sample_is_one_of_the_segments_of_one_epoch(service):
    await service.create_stream()
    write(service, 10)
    before = await later(service)
    await scale(service)
    write(service, 3, EPOCH_1 + 2)
    after = await later(service)
    assert await cut_at(service, before) == ({0: 10}, before, False)
    assert await cut_at(service, after) == ({EPOCH_1 + 1: 0, EPOCH_1 + 2: 3}, after, False)


async def test_what_was_truncated_is_not_answered(service):
    await service.create_stream(segments=2)
    times = []
    for _ in range(3):
        write(service, 10, 0)
        write(service, 10, 1)
        times.append(await later(service))
    await service.stub.truncateStream(pb.StreamCut(streamInfo=info(), cut={0: 15, 1: 20}))
    assert await cut_at(service, times[0]) == ({0: 15, 1: 20}, 0, True)
    assert await cut_at(service, times[2]) == ({0: 30, 1: 30}, times[2], False)
    await service.stub.truncateStream(pb.StreamCut(streamInfo=info(), cut={0: 15, 1: 25}))
    assert await cut_at(service, times[1]) == ({0: 20, 1: 25}, times[1], False)


async def test_idle_and_internal_streams_and_shadows_are_left_alone(service):
    await service.create_stream()
    await service.create_stream("idle")
    write(service, 1)
    write(service, 1, stream="idle")
    await later(service)
    txn = await begin(service)
    service.world.segments.write(shadow(txn), b"abc")
    write(service, 1)
    calls = service.world.segments.calls["segment_infos"]
    samples = service.controller.cut_sampling.statistics().samples
    now = await later(service)
    assert service.controller.cut_sampling.statistics().samples == samples + 1
    assert service.world.segments.calls["segment_infos"] == calls, "all lengths were known"
    assert (await cut_at(service, now, "idle"))[1] < now
    await commit(service, txn)
    await settled(service, txn)
    now = await later(service)
    assert await cut_at(service, now) == ({0: 5}, now, False)
    assert transaction_segment_name(segment_name("s", "t", 0), 7) not in service.world.segments.segments


async def test_a_clock_that_is_set_back_makes_no_sample_older_than_what_it_holds(service):
    await service.create_stream()
    write(service, 10)
    await later(service)
    await asyncio.sleep(0.05)
    service.world.clock.now += 50
    acknowledged_ms = service.world.clock.now
    write(service, 5)
    service.world.clock.now -= 3_600_000
    await service.controller.cut_sampling.sample_once()
    cut, _, _ = await cut_at(service, acknowledged_ms - 1)
    assert cut[0] <= 10, "what was acknowledged later lies behind it"
    service.world.clock.now += 2 * 3_600_000
    cut, _, _ = await cut_at(service, acknowledged_ms + 3_600_000)
    assert cut == {0: 15}


async def test_another_controller_goes_on_with_the_series(world):
    async with serve(world) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream(segments=2)
        write(service, 10)
        first = await later(service)
    async with serve(world) as service:
        write(service, 1, 1)
        second = await later(service, 60)
        assert await cut_at(service, first) == ({0: 10, 1: 0}, first, False)
        assert await cut_at(service, second) == ({0: 10, 1: 1}, second, False)
        assert len(await rows_of(service)) == 1


async def test_two_controllers_disturb_each_other_and_spoil_nothing(service):
    await service.create_stream()
    other = service.world.controller()
    await other.start()
    try:
        times = {}
        for number in range(5):
            write(service, 10)
            times[await later(service)] = 10 * number + 10
            await other.cut_sampling.sample_once()
        await later(service)
        for time_ms, length in times.items():
            assert await cut_at(service, time_ms) == ({0: length}, time_ms, False)
    finally:
        await other.stop()


async def test_a_store_that_does_not_answer_is_asked_again(service):
    await service.create_stream()
    write(service, 10)

    async def offline(call, segment):
        if call == "changed_segments":
            raise ContainerOfflineError("not now")

    service.world.segments.fault = offline
    with pytest.raises(ContainerOfflineError):
        await later(service)
    service.world.segments.fault = None
    now = await later(service)
    assert await cut_at(service, now) == ({0: 10}, now, False)


async def test_a_round_takes_a_bounded_number_of_samples_and_the_next_the_others():
    world = World()
    async with serve(
        world, cut_series=CutSeriesConfig(samples_per_round_max=2, series_cached_max=1)
    ) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        for name in "abcde":
            await service.create_stream(name)
            write(service, 7, stream=name)
        for left in (3, 1, 0):
            now = await later(service)
            assert service.controller.cut_sampling.statistics().streams_waiting == left
        for name in "abcde":
            assert (await cut_at(service, now, name))[0] == {0: 7}


@pytest.mark.slow
async def test_old_samples_are_in_blocks_and_all_go_with_the_stream(service):
    await service.create_stream()
    times = {}
    for number in range(300):
        write(service, 1)
        times[await later(service)] = number + 1
    assert len(await rows_of(service)) > 2
    for time_ms in list(times)[::17]:
        assert await cut_at(service, time_ms) == ({0: times[time_ms]}, time_ms, False)
    stream = await service.controller.context.directory.get("s", "t")
    await service.stub.sealStream(info())
    assert (await cut_at(service, service.world.clock.now))[0] == {0: 300}
    await service.stub.deleteStream(info())
    page = await service.controller.context.store.scan(details_table(stream.uid), b"", 10_000)
    assert [key for key, _ in page.rows if key.startswith(stream.uid)] == []


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_series_begun_while_its_stream_is_deleted_goes_as_well(service, is_answered):
    await service.create_stream()
    write(service, 1)
    stream = await service.controller.context.directory.get("s", "t")
    store = service.controller.context.store
    await service.stub.sealStream(info())
    late = CutSampling(service.controller.context)
    update = store.update

    async def update_late(table, writes):
        store.update = update
        await service.stub.deleteStream(info())
        versions = await update(table, writes)
        if not is_answered:
            raise ConnectionLostError("the answer")
        return versions

    store.update = update_late
    await late.sample_once()
    assert late.statistics().samples == 0
    page = await store.scan(details_table(stream.uid), b"", 10_000)
    assert [key for key, _ in page.rows if key.startswith(stream.uid)] == []


async def test_a_sample_whose_answer_is_lost_is_there_once(service):
    await service.create_stream()
    write(service, 5)
    store = service.controller.context.store
    update = store.update

    async def update_silently(table, writes):
        await update(table, writes)
        raise ConnectionLostError("the answer")

    store.update = update_silently
    first = await later(service)
    assert service.controller.cut_sampling.statistics().failures == 1
    store.update = update
    second = await later(service)
    assert await cut_at(service, first) == ({0: 5}, first, False)
    assert await cut_at(service, second) == ({0: 5}, first, False)


async def test_a_time_that_cannot_be_meant_and_a_stream_that_is_not_there_are_refused(service):
    await service.create_stream()
    now = service.world.clock.now
    for time_ms in (-1, 0, now // 1000, now + 3_600_000, (1 << 63) - 1):
        async with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await cut_at(service, time_ms)
    async with refused(grpc.StatusCode.NOT_FOUND):
        await cut_at(service, 1, "other")


def test_a_minute_is_a_multiple_of_the_period():
    validate(CutSeriesConfig(period_s=0.2))
    with pytest.raises(InvalidArgumentError, match="a minute"):
        validate(CutSeriesConfig(period_s=7))
