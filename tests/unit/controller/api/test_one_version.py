"""Calls during which the stream changes: each works on one version of it, whatever happens meanwhile."""

import grpc
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.memory_metadata_store import MemoryStore
from tests.unit.controller.api.test_reader_group_calls import Report, config, report
from tests.unit.controller.calls import State, begin, commit, info, refused, scaled, seg, settled
from tests.unit.controller.conftest import World, serve

HALVES = [(0.0, 0.5), (0.5, 1.0)]
ONE, TWO, THREE = seg(1, 1), seg(2, 1), seg(3, 2)


class InterruptedStore(MemoryStore):
    """Lets something happen before the next row of a table is read or written."""

    def __init__(self):
        super().__init__()
        self.table = ""
        self.interruption = None

    def interrupt(self, table, interruption):
        self.table, self.interruption = table, interruption

    async def get(self, table, key):
        await self._interrupted(table)
        return await super().get(table, key)

    async def get_many(self, table, keys):
        await self._interrupted(table)
        return await super().get_many(table, keys)

    async def update(self, table, writes):
        await self._interrupted(table)
        return await super().update(table, writes)

    async def _interrupted(self, table):
        if self.interruption is not None and table.startswith(self.table):
            interruption, self.interruption = self.interruption, None
            await interruption()


@pytest.fixture
async def scaling():
    """A service with a stream of the segments 0 -> 1, 2, to be interrupted by a scale to 3."""
    async with serve(World(store=InterruptedStore())) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        await scaled(service, [0], HALVES)
        yield service


def interrupt(service, table="details"):
    async def scale():
        assert await scaled(service, [ONE, TWO], [(0.0, 1.0)]) == [THREE]

    service.world.store.interrupt(table, scale)


async def check_interrupted(service):
    assert service.world.store.interruption is None
    assert [each for each, *_ in await service.current()] == [THREE]


async def test_segments_between_cuts_are_those_of_one_version(scaling):
    interrupt(scaling)
    request = pb.StreamCutRange(streamInfo=info(), **{"from": {0: 0}})
    answer = await scaling.stub.getSegmentsBetween(request)
    assert [each.segmentId for each in answer.segments] == [0, ONE, TWO]
    await check_interrupted(scaling)


async def test_a_cut_is_valid_while_the_stream_is_scaled(scaling):
    interrupt(scaling)
    cut = pb.StreamCut(streamInfo=info(), cut={0: 0, ONE: -1, TWO: -1})
    assert (await scaling.stub.isStreamCutValid(cut)).response
    await check_interrupted(scaling)


async def test_a_segment_that_is_sealed_meanwhile_has_no_successors_yet_or_all_of_them(scaling):
    interrupt(scaling)
    request = pb.SegmentId(streamInfo=info(), segmentId=0)
    answer = await scaling.stub.getSegmentsImmediatelyFollowing(request)
    assert [each.segment.segmentId.segmentId for each in answer.segments] == [ONE, TWO]
    await check_interrupted(scaling)


async def test_a_truncation_is_carried_out_though_the_stream_is_scaled_while_it_is_checked(scaling):
    segments = scaling.world.segments

    async def scale(call, _):
        if call == "segment_info":  # the check asks whether the offsets are within the segments
            segments.fault = None
            assert await scaled(scaling, [ONE, TWO], [(0.0, 1.0)]) == [THREE]

    segments.fault = scale
    cut = pb.StreamCut(streamInfo=info(), cut={ONE: 0, TWO: 0})
    assert (await scaling.stub.truncateStream(cut)).status == pb.UpdateStreamStatus.SUCCESS
    await check_interrupted(scaling)
    present = scaling.world.segments.segments
    assert "s/t/0.#epoch.0" not in present
    assert {"s/t/1.#epoch.1", "s/t/2.#epoch.1", "s/t/3.#epoch.2"} <= set(present)


async def test_a_position_is_reported_while_the_stream_is_scaled(scaling):
    await scaling.stub.createReaderGroup(config(retention=2))
    interrupt(scaling)
    assert await report(scaling, {0: 0}) == Report.SUCCESS
    await check_interrupted(scaling)
    assert await report(scaling, {ONE: 0, TWO: 0}) == Report.SUCCESS
    assert await report(scaling, {0: 0}) == Report.STREAM_CUT_NOT_VALID


async def test_a_transaction_has_segments_of_one_stream_epoch(scaling):
    interrupt(scaling, "txns")
    txn = await begin(scaling)
    await check_interrupted(scaling)
    assert [each.segmentId.segmentId & 0xFFFF_FFFF for each in txn.activeSegments] == [1, 2]
    assert await commit(scaling, txn) == pb.TxnStatus.SUCCESS
    assert await settled(scaling, txn) == State.COMMITTED


async def test_a_call_about_a_stream_that_is_deleted_meanwhile_says_so(scaling):
    async def delete():
        await scaling.stub.sealStream(info())
        assert (await scaling.stub.deleteStream(info())).status == pb.DeleteStreamStatus.SUCCESS

    scaling.world.store.interrupt("details", delete)
    async with refused(grpc.StatusCode.NOT_FOUND):
        await scaling.stub.getSegmentsBetween(pb.StreamCutRange(streamInfo=info(), **{"from": {0: 0}}))


async def test_more_segments_than_a_client_receives_are_refused(scaling, monkeypatch):
    monkeypatch.setattr("headrace.controller.api.segment_calls.ANSWER_BYTES_MAX", 60)
    request = pb.StreamCutRange(streamInfo=info(), **{"from": {0: 0}})
    with pytest.raises(grpc.aio.AioRpcError, match="a reply holds 60: request less"):
        await scaling.stub.getSegmentsBetween(request)
    request.to[0] = 5
    answer = await scaling.stub.getSegmentsBetween(request)
    assert [each.segmentId for each in answer.segments] == [0]
