import grpc
import pytest

from headrace.model.endpoint import Endpoint
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import info, refused, scaled, seg
from tests.unit.controller.conftest import serve


def segment(segment_id, stream="t"):
    return pb.SegmentId(streamInfo=info(stream), segmentId=segment_id)


async def head(service, stream="t"):
    answer = await service.stub.getSegments(pb.GetSegmentsRequest(streamInfo=info(stream), timestamp=99))
    assert all(each.segmentId.streamInfo == info(stream) for each in answer.segments)
    return {each.segmentId.segmentId: each.offset for each in answer.segments}


async def between(service, lower, upper):
    request = pb.StreamCutRange(streamInfo=info(), **{"from": lower}, to=upper)
    answer = await service.stub.getSegmentsBetween(request)
    return sorted(each.segmentId for each in answer.segments)


async def truncate(service, cut, stream="t"):
    return (await service.stub.truncateStream(pb.StreamCut(streamInfo=info(stream), cut=cut))).status


async def valid(service, cut):
    answer = await service.stub.isStreamCutValid(pb.StreamCut(streamInfo=info(), cut=cut))
    return answer.response


async def history(service):
    """0 -> 1, 2 (epoch 1); 1, 2 -> 3 (epoch 2); 3 -> 4, 5 (epoch 3). Ten bytes in each."""
    await service.create_stream()
    ids = [[0]]
    for ranges in ([(0.0, 0.5), (0.5, 1.0)], [(0.0, 1.0)], [(0.0, 0.5), (0.5, 1.0)]):
        for each in ids[-1]:
            append(service, each)
        ids.append(await scaled(service, ids[-1], ranges))
    for each in ids[-1]:
        append(service, each)
    return [each for epoch in ids for each in epoch]


def append(service, segment_id, data=b"0123456789"):
    service.world.segments.write(name(segment_id), data)


def name(segment_id):
    return f"s/t/{segment_id & 0xFFFFFFFF}.#epoch.{segment_id >> 32}"


async def test_the_address_of_a_segment_needs_no_stream_to_exist(world):
    world.data = Endpoint("store.example", 777)
    async with serve(world) as service:
        for stream in ("t", "_RGx", "x_kvtable"):
            answer = await service.stub.getURI(segment(seg(3, 1), stream))
            assert (answer.endpoint, answer.port) == ("store.example", 777)


async def test_an_ipv6_address_is_told_in_brackets(world):
    world.data = Endpoint("::1", 777)
    async with serve(world) as service:
        answer = await service.stub.getURI(segment(seg(3, 1)))
        assert (answer.endpoint, answer.port) == ("[::1]", 777)


async def test_nobody_needs_a_token(service):
    request = pb.StreamInfo(scope="s", stream="anything", accessOperation=pb.StreamInfo.READ_WRITE)
    assert (await service.stub.getDelegationToken(request)).delegationToken == ""


async def test_the_head_of_a_stream_is_its_first_epoch_until_it_is_truncated(service):
    zero, one, two, *_ = await history(service)
    assert await head(service) == {zero: 0}
    assert await truncate(service, {one: 3, two: 4}) == pb.UpdateStreamStatus.SUCCESS
    assert await head(service) == {one: 3, two: 4}
    assert name(zero) not in service.world.segments.segments
    assert service.world.segments.segments[name(one)].start_offset == 3
    async with refused(grpc.StatusCode.NOT_FOUND):
        await head(service, "nowhere")


async def test_successors_of_deleted_segments_are_still_known(service):
    zero, one, two, *_ = await history(service)
    await truncate(service, {one: 3, two: 4})
    answer = await service.stub.getSegmentsImmediatelyFollowing(segment(zero))
    assert sorted(each.segment.segmentId.segmentId for each in answer.segments) == [one, two]


async def test_truncation_is_repeatable_and_goes_forward_only(service):
    zero, one, two, three, *_ = await history(service)
    Status = pb.UpdateStreamStatus  # noqa: N806 - an enumeration's name
    assert await truncate(service, {zero: 5}) == Status.SUCCESS
    assert await truncate(service, {zero: 5}) == Status.SUCCESS
    assert await truncate(service, {zero: 4}) == Status.FAILURE
    assert await truncate(service, {one: 5, two: 5}) == Status.SUCCESS
    assert await truncate(service, {zero: 6}) == Status.FAILURE
    assert await truncate(service, {one: 4, two: 6}) == Status.FAILURE
    assert await truncate(service, {three: 5}) == Status.SUCCESS
    assert await head(service) == {three: 5}
    assert await truncate(service, {0: 0}, "nowhere") == Status.STREAM_NOT_FOUND
    await service.stub.sealStream(info())
    assert await truncate(service, {three: 6}) == Status.STREAM_SEALED


@pytest.mark.slow
@pytest.mark.parametrize("cut", [{}, {77: 1}, {0: 11}, {0: 1, seg(1, 1): 1}, {seg(1, 1): 1}])
async def test_an_impossible_truncation_is_refused_and_changes_nothing(service, cut):
    await history(service)
    before = {each: segment.start_offset for each, segment in service.world.segments.segments.items()}
    assert await truncate(service, cut) == pb.UpdateStreamStatus.FAILURE
    assert {each: segment.start_offset for each, segment in service.world.segments.segments.items()} == before
    assert await head(service) == {0: 0}


async def test_a_truncation_may_leave_segments_for_the_future(service):
    _, one, two, three, *_ = await history(service)
    assert await truncate(service, {one: 5, two: 5, three: -1}) == pb.UpdateStreamStatus.SUCCESS
    assert await head(service) == {one: 5, two: 5, three: -1}


async def test_a_head_in_front_of_a_segment_is_its_beginning(service):
    """To clients, -1 would mean that there is nothing to read, unless something in front leads there."""
    zero, one, two, three, four, five = await history(service)
    assert await truncate(service, {zero: -1}) == pb.UpdateStreamStatus.SUCCESS
    assert await head(service) == {zero: 0}
    assert await truncate(service, {zero: -1}) == pb.UpdateStreamStatus.SUCCESS
    assert await truncate(service, {one: 5, two: -1, three: -1}) == pb.UpdateStreamStatus.SUCCESS
    assert await head(service) == {one: 5, two: 0, three: -1}
    assert await truncate(service, {four: 1, five: -1}) == pb.UpdateStreamStatus.SUCCESS
    assert await head(service) == {four: 1, five: 0}


async def test_cuts_are_valid_when_a_reader_can_be_there(service):
    zero, one, two, three, four, five = await history(service)
    for cut in ({zero: 1}, {one: 0, two: 9}, {three: 0}, {four: 1, five: 2}, {four: 1, five: -1}):
        assert await valid(service, cut)
    for cut in (
        {},
        {one: 1},
        {99: 0},
        {zero: 1, one: 1},
        {three: 1, two: -1, one: -1},
        {one: 1, five: -1},
    ):
        assert not await valid(service, cut)


async def test_segments_between_cuts_are_those_that_carry_data(service):
    zero, one, two, three, four, five = everything = await history(service)
    assert await between(service, {}, {four: 1, five: 1}) == everything
    assert await between(service, {zero: 1}, {}) == everything
    assert await between(service, {one: 1, two: 1}, {three: 1}) == [one, two, three]
    assert await between(service, {one: 1, two: 1}, {one: 5, two: 2}) == [one, two]
    assert await between(service, {three: 2}, {}) == [three, four, five]
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await between(service, {}, {})
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await between(service, {99: 1}, {})


async def test_only_active_segments_are_valid(service):
    zero, *_, five = await history(service)
    assert not (await service.stub.isSegmentValid(segment(zero))).response
    assert (await service.stub.isSegmentValid(segment(five))).response
    await service.stub.sealStream(info())
    assert not (await service.stub.isSegmentValid(segment(five))).response


async def test_a_truncated_and_scaled_stream_is_deleted_with_all_that_is_left(service):
    _, one, two, *_ = await history(service)
    await truncate(service, {one: 3, two: 4})
    await service.stub.sealStream(info())
    assert (await service.stub.deleteStream(info())).status == pb.DeleteStreamStatus.SUCCESS
    assert service.world.segments.of_users() == []
