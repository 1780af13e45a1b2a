import asyncio
import uuid

import grpc
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import info, refused, scaled

Create, Update, Delete = (
    pb.CreateReaderGroupResponse,
    pb.UpdateReaderGroupResponse,
    pb.DeleteReaderGroupStatus,
)
Get, Report = pb.ReaderGroupConfigResponse, pb.UpdateSubscriberStatus
ID = str(uuid.UUID(int=7))


def config(name="g", streams=("t",), retention=0, group_id=ID, generation=0, scope="s", **fields):
    return pb.ReaderGroupConfiguration(
        scope=scope,
        readerGroupName=name,
        groupRefreshTimeMillis=3000,
        automaticCheckpointIntervalMillis=-1,
        maxOutstandingCheckpointRequest=3,
        retentionType=retention,
        generation=generation,
        readerGroupId=group_id,
        startingStreamCuts=[pb.StreamCut(streamInfo=info(stream, scope)) for stream in streams],
        endingStreamCuts=[pb.StreamCut(streamInfo=info(stream, scope), cut={5: -1}) for stream in streams],
        **fields,
    )


async def subscribers(service, stream="t"):
    return list((await service.stub.listSubscribers(info(stream))).subscribers)


async def get(service, name="g"):
    return await service.stub.getReaderGroupConfig(pb.ReaderGroupInfo(scope="s", readerGroup=name))


async def delete(service, name="g", group_id=ID):
    request = pb.ReaderGroupInfo(scope="s", readerGroup=name, readerGroupId=group_id)
    return (await service.stub.deleteReaderGroup(request)).status


async def report(service, cut, stream="t", name="s/g", generation=0, group_id=ID):
    return (
        await service.stub.updateSubscriberStreamCut(
            pb.SubscriberStreamCut(
                subscriber=name,
                generation=generation,
                readerGroupId=group_id,
                streamCut=pb.StreamCut(streamInfo=info(stream), cut=cut),
            )
        )
    ).status


async def test_a_created_group_is_returned_unchanged_and_has_its_stream(service):
    await service.create_stream()
    answer = await service.stub.createReaderGroup(config())
    assert answer.status == Create.SUCCESS
    assert answer.config == config()
    assert (await get(service)).config == config()
    assert await service.current("_RGg") == [(0, 0.0, 1.0)]
    assert service.world.segments.segments["s/_RGg/0.#epoch.0"].rollover_bytes == 4 << 20


async def test_creating_a_group_again_answers_what_is_stored(service):
    await service.create_stream()
    await service.stub.createReaderGroup(config())
    answer = await service.stub.createReaderGroup(config(retention=1, group_id=str(uuid.UUID(int=8))))
    assert answer.status == Create.SUCCESS
    assert answer.config == config()


async def test_of_many_that_create_a_group_at_once_all_are_answered_alike(service):
    await service.create_stream()
    answers = await asyncio.gather(
        *(service.stub.createReaderGroup(config(group_id=str(uuid.UUID(int=n)))) for n in range(1, 9))
    )
    assert len({answer.config.readerGroupId for answer in answers}) == 1
    assert all(answer.status == Create.SUCCESS for answer in answers)


@pytest.mark.parametrize("group_id", ["", str(uuid.UUID(int=0))])
async def test_a_group_without_an_id_is_given_one(service, group_id):
    answer = await service.stub.createReaderGroup(config(group_id=group_id))
    assert uuid.UUID(answer.config.readerGroupId).int


async def test_impossible_groups_are_refused_and_nothing_is_created(service):
    assert (await service.stub.createReaderGroup(config("a_b"))).status == Create.INVALID_RG_NAME
    missing = config()
    missing.scope = "nowhere"
    assert (await service.stub.createReaderGroup(missing)).status == Create.SCOPE_NOT_FOUND
    assert (await service.stub.createReaderGroup(config(retention=1))).status == Create.FAILURE
    for wrong in (config(retention=3), config(group_id="x"), config(streams=())):
        async with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await service.stub.createReaderGroup(wrong)
    assert (await get(service)).status == Get.RG_NOT_FOUND
    assert not (await service.stub.checkStreamExists(info("_RGg"))).exists


async def test_only_groups_that_hold_data_subscribe(service):
    await service.create_stream()
    await service.create_stream("u")
    await service.stub.createReaderGroup(config("free"))
    await service.stub.createReaderGroup(config("holding", ["t", "u"], 2))
    assert await subscribers(service) == await subscribers(service, "u") == ["s/holding"]
    answer = await service.stub.listSubscribers(info("nowhere"))
    assert answer.status == pb.SubscribersResponse.STREAM_NOT_FOUND


async def test_an_update_needs_the_present_generation_and_moves_subscriptions(service):
    for stream in ("t", "u"):
        await service.create_stream(stream)
    await service.stub.createReaderGroup(config(retention=1))
    for wrong in (config(generation=1), config(group_id=str(uuid.UUID(int=9)))):
        assert (await service.stub.updateReaderGroup(wrong)).status == Update.INVALID_CONFIG
    assert (await service.stub.updateReaderGroup(config("no"))).status == Update.RG_NOT_FOUND
    answer = await service.stub.updateReaderGroup(config(streams=("u",), retention=2))
    assert (answer.status, answer.generation) == (Update.SUCCESS, 1)
    assert (await get(service)).config == config(streams=("u",), retention=2, generation=1)
    assert (await subscribers(service), await subscribers(service, "u")) == ([], ["s/g"])
    await service.stub.updateReaderGroup(config(streams=("u",), retention=0, generation=1))
    assert await subscribers(service, "u") == []


async def test_a_group_is_deleted_under_its_id_only_and_leaves_nothing(service):
    await service.create_stream()
    await service.stub.createReaderGroup(config(retention=1))
    assert await delete(service, group_id=str(uuid.UUID(int=9))) == Delete.RG_NOT_FOUND
    assert await delete(service) == Delete.SUCCESS
    assert await delete(service) == Delete.RG_NOT_FOUND
    assert await subscribers(service) == []
    assert not (await service.stub.checkStreamExists(info("_RGg"))).exists


async def test_a_group_whose_stream_is_gone_already_is_deleted(service):
    await service.stub.createReaderGroup(config())
    await service.stub.sealStream(info("_RGg"))
    await service.stub.deleteStream(info("_RGg"))
    assert await delete(service) == Delete.SUCCESS


async def test_reports_are_taken_from_the_group_as_it_is_and_never_go_back(service):
    await service.create_stream()
    assert await report(service, {0: 5}) == Report.SUBSCRIBER_NOT_FOUND
    await service.stub.createReaderGroup(config(retention=1))
    assert await report(service, {0: 5}) == Report.SUCCESS
    assert await report(service, {0: 5}) == Report.SUCCESS
    assert await report(service, {0: 4}) == Report.STREAM_CUT_NOT_VALID
    assert await report(service, {7: 4}) == Report.STREAM_CUT_NOT_VALID
    assert await report(service, {0: 6}, generation=1) == Report.GENERATION_MISMATCH
    assert await report(service, {0: 6}, group_id=str(uuid.UUID(int=9))) == Report.SUBSCRIBER_NOT_FOUND
    assert await report(service, {0: 6}, stream="nowhere") == Report.STREAM_NOT_FOUND
    one, two = await scaled(service, [0], [(0.0, 0.5), (0.5, 1.0)])
    assert await report(service, {one: 1, two: 1}) == Report.SUCCESS
    assert await report(service, {0: 9}) == Report.STREAM_CUT_NOT_VALID
