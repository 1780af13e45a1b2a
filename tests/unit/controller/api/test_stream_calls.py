import asyncio

import grpc
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import idle_controller, info
from tests.unit.controller.conftest import stream_config

Create, Update, Delete = pb.CreateStreamStatus, pb.UpdateStreamStatus, pb.DeleteStreamStatus


async def list_streams(service, scope="s", tag=None):
    names, token, pages = [], "", 0
    while True:
        fields = {"scope": pb.ScopeInfo(scope=scope), "continuationToken": pb.ContinuationToken(token=token)}
        if tag is None:
            page = await service.stub.listStreamsInScope(pb.StreamsInScopeRequest(**fields))
        else:
            page = await service.stub.listStreamsInScopeForTag(
                pb.StreamsInScopeWithTagRequest(tag=tag, **fields)
            )
        assert page.HasField("continuationToken")
        if not page.streams:
            return names, pages
        assert all(each.scope == scope for each in page.streams)
        assert page.continuationToken.token
        names += [each.stream for each in page.streams]
        token = page.continuationToken.token
        pages += 1


async def test_a_created_stream_has_segments_that_divide_the_key_space(service):
    assert await service.create_stream(segments=3) == Create.SUCCESS
    assert await service.current() == [(0, 0.0, 1 / 3), (1, 1 / 3, 2 / 3), (2, 2 / 3, 1.0)]
    assert {name for name in service.world.segments.segments if name.startswith("s/t/")} == {
        f"s/t/{number}.#epoch.0" for number in range(3)
    }


async def test_the_stream_of_watermarks_is_created_and_listed_with_its_stream(service):
    await service.create_stream(segments=3)
    assert sorted((await list_streams(service))[0]) == ["_MARKt", "t"]
    assert await service.current("_MARKt") == [(0, 0.0, 1.0)]


async def test_creating_a_stream_again_says_so_and_keeps_its_configuration(service):
    await service.create_stream(segments=2)
    assert await service.create_stream(segments=5) == Create.STREAM_EXISTS
    assert len(await service.current()) == 2


async def test_of_many_that_create_a_stream_at_once_one_wins(service):
    statuses = await asyncio.gather(*(service.create_stream(segments=n) for n in range(1, 9)))
    assert sorted(statuses) == [Create.SUCCESS] + [Create.STREAM_EXISTS] * 7
    segments = await service.current()
    assert len(segments) == 1 + statuses.index(Create.SUCCESS)


async def test_a_stream_needs_its_scope(service):
    assert await service.create_stream(scope="nowhere") == Create.SCOPE_NOT_FOUND


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a_b", "__a", "ä", "x" * 256])
async def test_illegal_stream_names_are_refused(service, name):
    assert await service.create_stream(name) == Create.INVALID_STREAM_NAME


@pytest.mark.parametrize("name", ["_RGgroup", "_MARKother"])
async def test_internal_streams_are_created_like_others_and_have_no_watermarks(service, name):
    assert await service.create_stream(name) == Create.SUCCESS
    assert (await list_streams(service))[0] == [name]


@pytest.mark.parametrize(
    "request_",
    [
        stream_config(segments=0),
        stream_config(segments=-1),
        stream_config(tags=["x" * 256]),
        stream_config(tags=[str(n) for n in range(128)]),
        stream_config(rolloverSizeBytes=-1),
        pb.StreamConfig(
            streamInfo=pb.StreamInfo(scope="s", stream="t"),
            scalingPolicy=pb.ScalingPolicy(scaleType=2, targetRate=0, minNumSegments=1),
        ),
    ],
)
async def test_an_impossible_configuration_is_refused_for_good_and_changes_nothing(service, request_):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await service.stub.createStream(request_)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert not (await service.stub.checkStreamExists(info())).exists


async def test_the_configuration_is_returned_as_it_was_given(service):
    request = stream_config(
        tags=["b", "a"],
        retentionPolicy=pb.RetentionPolicy(retentionType=1, retentionParam=5, retentionMax=7),
        timestampAggregationTimeout=3,
        rolloverSizeBytes=1 << 20,
    )
    request.scalingPolicy.scaleType, request.scalingPolicy.targetRate = 2, 100
    await service.stub.createStream(request)
    answer = await service.stub.getStreamConfiguration(info())
    assert sorted(answer.tags.tag) == ["a", "b"]
    del answer.tags.tag[:], request.tags.tag[:]
    assert answer == request
    segment = service.world.segments.segments["s/t/0.#epoch.0"]
    assert (segment.scale_type, segment.target_rate, segment.rollover_bytes) == (2, 100, 1 << 20)


async def test_what_does_not_exist_is_not_found(service):
    for call in (service.stub.getStreamConfiguration, service.stub.getCurrentSegments):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(info("nothing"))
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    assert not (await service.stub.checkStreamExists(info("nothing"))).exists
    assert (await service.stub.sealStream(info("nothing"))).status == Update.STREAM_NOT_FOUND
    assert (await service.stub.deleteStream(info("nothing"))).status == Delete.STREAM_NOT_FOUND


async def test_sealing_is_repeatable_and_leaves_no_current_segments(service):
    await service.create_stream(segments=2)
    for _ in range(2):
        assert (await service.stub.sealStream(info())).status == Update.SUCCESS
    assert await service.current() == []
    assert all(service.world.segments.segments[f"s/t/{n}.#epoch.0"].sealed for n in range(2))
    assert (await service.stub.checkStreamExists(info())).exists


async def test_only_a_sealed_stream_is_deleted_and_nothing_of_it_stays(service):
    await service.create_stream(segments=2)
    assert (await service.stub.deleteStream(info())).status == Delete.STREAM_NOT_SEALED
    await service.stub.sealStream(info())
    assert (await service.stub.deleteStream(info())).status == Delete.SUCCESS
    assert (await service.stub.deleteStream(info())).status == Delete.STREAM_NOT_FOUND
    assert not (await service.stub.checkStreamExists(info())).exists
    assert (await list_streams(service))[0] == []
    assert service.world.segments.of_users() == []
    assert (await service.stub.deleteScope(pb.ScopeInfo(scope="s"))).status == pb.DeleteScopeStatus.SUCCESS


async def test_a_new_stream_of_an_old_name_continues_its_numbers(service):
    for first in (0, 3, 6):
        await service.create_stream(segments=3)
        assert [segment for segment, _, _ in await service.current()] == [first, first + 1, first + 2]
        await service.stub.sealStream(info())
        await service.stub.deleteStream(info())


@pytest.mark.parametrize("first", ["t", "_MARKt"])
async def test_stream_and_watermarks_can_be_deleted_one_by_one_in_any_order(service, first):
    await service.create_stream()
    for name in (first, *({"t", "_MARKt"} - {first})):
        await service.stub.sealStream(info(name))
        await service.stub.deleteStream(info(name))
    assert (await list_streams(service))[0] == []
    assert service.world.segments.of_users() == []
    assert await service.create_stream() == Create.SUCCESS


async def test_streams_are_found_by_exact_tag(service):
    await service.create_stream("a", tags=["x", "xy"])
    await service.create_stream("b", tags=["y"])
    await service.create_stream("c", tags=["x"])
    assert sorted((await list_streams(service, tag="x"))[0]) == ["a", "c"]
    assert (await list_streams(service, tag="X"))[0] == []


async def test_listing_a_scope_that_does_not_exist_says_so_with_a_token(service):
    for call, request in (
        (service.stub.listStreamsInScope, pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="no"))),
        (
            service.stub.listStreamsInScopeForTag,
            pb.StreamsInScopeWithTagRequest(scope=pb.ScopeInfo(scope="no"), tag="x"),
        ),
    ):
        answer = await call(request)
        assert answer.status == pb.StreamsInScopeResponse.SCOPE_NOT_FOUND
        assert answer.HasField("continuationToken")


async def test_a_token_of_somebody_else_is_refused(service):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await list_streams_with_token(service, "bogus")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def list_streams_with_token(service, token):
    return await service.stub.listStreamsInScope(
        pb.StreamsInScopeRequest(
            scope=pb.ScopeInfo(scope="s"), continuationToken=pb.ContinuationToken(token=token)
        )
    )


async def test_a_deletion_leaves_nothing_to_warn_of(service, caplog):
    await service.create_stream()
    await service.stub.sealStream(info())
    assert (await service.stub.deleteStream(info())).status == Delete.SUCCESS
    await idle_controller(service.controller)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []
