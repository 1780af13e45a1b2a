"""Calls about scopes as wholes, writers, controllers."""

import uuid

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.api.test_reader_group_calls import config as group_config
from tests.unit.controller.api.test_table_calls import config as table_config
from tests.unit.controller.calls import begin, info
from tests.unit.controller.conftest import serve

Delete, Noted, Removed = pb.DeleteScopeStatus, pb.TimestampResponse, pb.RemoveWriterResponse
SCOPE = pb.ScopeInfo(scope="s")


async def test_a_scope_is_deleted_with_everything_in_it(service):
    for name in ("a", "b", "c"):
        await service.create_stream(name, 2)
    await begin(service, "a")
    await service.stub.sealStream(info("b"))
    await service.stub.createKeyValueTable(table_config())
    await service.stub.createReaderGroup(
        group_config(streams=("a",), retention=1, group_id=str(uuid.UUID(int=1)))
    )
    assert (await service.stub.deleteScopeRecursive(SCOPE)).status == Delete.SUCCESS
    assert not (await service.stub.checkScopeExists(SCOPE)).exists
    assert service.world.segments.of_users() == []
    assert [name for name in service.world.segments.tables if name.startswith("s/")] == []
    assert (await service.stub.deleteScopeRecursive(SCOPE)).status == Delete.SUCCESS
    assert (await service.stub.createScope(SCOPE)).status == pb.CreateScopeStatus.SUCCESS


async def test_a_scope_that_is_being_deleted_takes_nothing_new(service):
    await service.create_stream()
    statuses = []

    async def watch(call, segment):
        if call == "seal_segment":
            statuses.append(await service.create_stream("new"))
            statuses.append((await service.stub.createScope(SCOPE)).status)
            statuses.append((await service.stub.createKeyValueTable(table_config())).status)
            statuses.append((await service.stub.createReaderGroup(group_config())).status)

    service.world.segments.fault = watch
    assert (await service.stub.deleteScopeRecursive(SCOPE)).status == Delete.SUCCESS
    assert statuses[:4] == [
        pb.CreateStreamStatus.SCOPE_NOT_FOUND,
        pb.CreateScopeStatus.SCOPE_EXISTS,
        pb.CreateKeyValueTableStatus.SCOPE_NOT_FOUND,
        pb.CreateReaderGroupResponse.SCOPE_NOT_FOUND,
    ]


async def test_the_scope_of_the_system_is_not_deleted(service):
    system = pb.ScopeInfo(scope="_system")
    assert (await service.stub.deleteScope(system)).status == Delete.SCOPE_NOT_EMPTY
    assert (await service.stub.deleteScopeRecursive(system)).status == Delete.FAILURE


async def test_neither_time_nor_position_of_a_writer_goes_back(service):
    await service.create_stream()

    async def note(time, cut, writer="w"):
        position = pb.StreamCut(streamInfo=info(), cut=cut)
        request = pb.TimestampFromWriter(writer=writer, position=position, timestamp=time)
        return (await service.stub.noteTimestampFromWriter(request)).result

    assert await note(10, {0: 5}) == Noted.SUCCESS
    assert await note(10, {0: 5}) == Noted.SUCCESS
    assert await note(9, {0: 6}) == Noted.INVALID_TIME
    assert await note(11, {0: 4}) == Noted.INVALID_POSITION
    assert await note(11, {-1: 4}) == Noted.INVALID_POSITION
    assert await note(11, {1: 4}) == Noted.SUCCESS

    async def remove(writer, stream="t"):
        request = pb.RemoveWriterRequest(writer=writer, stream=info(stream))
        return (await service.stub.removeWriter(request)).result

    assert await remove("w") == await remove("w") == Removed.SUCCESS
    assert await remove("x") == Removed.UNKNOWN_WRITER
    assert await remove("w", "nowhere") == Removed.STREAM_DOES_NOT_EXIST


async def test_a_single_controller_is_the_whole_cluster(world):
    async with serve(world, rpc_host="controller.example", rpc_port=9, buckets=16) as service:
        answer = await service.stub.getControllerServerList(pb.ServerRequest())
        assert [(each.endpoint, each.port) for each in answer.nodeURI] == [("controller.example", 9)]
        for service_type in (0, 1):
            request = pb.ControllerToBucketMappingRequest(serviceType=service_type)
            mapping = (await service.stub.getControllerToBucketMapping(request)).mapping
            assert {name: list(ids.id) for name, ids in mapping.items()} == {
                "controller.example:9": list(range(16))
            }
