import asyncio

import grpc

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import info, refused, scale, scaled
from tests.unit.controller.conftest import stream_config
from tests.unit.controller.streams.history_model import read_history

Status = pb.UpdateStreamStatus


async def update(service, stream="t", segments=1, scale_type=0, rate=0, **fields):
    request = stream_config(stream, segments, **fields)
    request.scalingPolicy.scaleType, request.scalingPolicy.targetRate = scale_type, rate
    return (await service.stub.updateStream(request)).status


async def test_a_configuration_is_replaced_as_a_whole(service):
    await service.create_stream(tags=["a"], rolloverSizeBytes=7)
    assert await update(service, scale_type=2, rate=50, tags=["b"]) == Status.SUCCESS
    config = await service.stub.getStreamConfiguration(info())
    assert (list(config.tags.tag), config.rolloverSizeBytes, config.scalingPolicy.targetRate) == (
        ["b"],
        0,
        50,
    )
    segment = service.world.segments.segments["s/t/0.#epoch.0"]
    assert (segment.scale_type, segment.target_rate) == (2, 50)


async def test_an_identical_configuration_is_a_success_that_writes_nothing(service):
    await service.create_stream()
    before = service.world.segments.calls.copy()
    assert await update(service) == Status.SUCCESS
    assert service.world.segments.calls == before


async def test_a_fixed_stream_is_rescaled_to_its_new_number_of_segments(service):
    await service.create_stream(segments=2)
    for count in (5, 3):
        assert await update(service, segments=count) == Status.SUCCESS
        current = await service.current()
        assert [(low, high) for _, low, high in current] == [
            (index / count, (index + 1) / count) for index in range(count)
        ]


async def test_an_elastic_stream_is_rescaled_only_up_to_its_minimum(service):
    await service.create_stream()
    await scaled(service, [0], [(0.0, 0.1), (0.1, 0.2), (0.2, 1.0)])
    assert await update(service, segments=2, scale_type=2, rate=5) == Status.SUCCESS
    assert len(await service.current()) == 3
    assert await update(service, segments=4, scale_type=2, rate=5) == Status.SUCCESS
    assert len(await service.current()) == 4


async def test_missing_and_sealed_streams_are_not_updated(service):
    assert await update(service) == Status.STREAM_NOT_FOUND
    await service.create_stream()
    await service.stub.sealStream(info())
    assert await update(service, segments=2) == Status.STREAM_SEALED
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await update(service, segments=0)


async def test_many_workflows_at_once_are_carried_out_one_after_the_other(service):
    await service.create_stream(segments=2)
    outcomes = await asyncio.gather(
        *(update(service, segments=count) for count in range(2, 10)),
        scale(service, [0], [(0.0, 0.25), (0.25, 0.5)]),
        service.stub.truncateStream(pb.StreamCut(streamInfo=info(), cut={0: 0, 1: 0})),
        service.stub.sealStream(info()),
    )
    assert outcomes[-1].status == Status.SUCCESS
    assert set(outcomes[:8]) <= {Status.SUCCESS, Status.STREAM_SEALED, Status.FAILURE}
    stream = await service.controller.context.directory.get("s", "t")
    (await read_history(stream)).check()
    stream.row.check()
    assert await service.current() == []


async def test_whether_a_stream_has_records_stays_as_it_was_created(service):
    await service.create_stream(tags=["a", "headrace.records=1"])
    await service.create_stream(stream="plain", tags=["a"])
    assert await update(service, tags=["headrace.records=1"]) == Status.SUCCESS
    for stream, tags in (("t", []), ("t", ["headrace.records=2"]), ("plain", ["headrace.records=1"])):
        async with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await update(service, stream, tags=tags)
    config = await service.stub.getStreamConfiguration(info())
    assert list(config.tags.tag) == ["headrace.records=1"]
