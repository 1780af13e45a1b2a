import grpc
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import refused

Create, Delete = pb.CreateKeyValueTableStatus, pb.DeleteKVTableStatus


def config(name="k", partitions=2, primary=8, secondary=4, scope="s", rollover=0):
    return pb.KeyValueTableConfig(
        scope=scope,
        kvtName=name,
        partitionCount=partitions,
        primaryKeyLength=primary,
        secondaryKeyLength=secondary,
        rolloverSizeBytes=rollover,
    )


def table(name="k", scope="s"):
    return pb.KeyValueTableInfo(scope=scope, kvtName=name)


async def create(service, **fields):
    return (await service.stub.createKeyValueTable(config(**fields))).status


async def listed(service):
    names, token = [], ""
    while True:
        request = pb.KVTablesInScopeRequest(
            scope=pb.ScopeInfo(scope="s"), continuationToken=pb.ContinuationToken(token=token)
        )
        page = await service.stub.listKeyValueTablesInScope(request)
        if not page.kvtables:
            return names
        names += [each.kvtName for each in page.kvtables]
        token = page.continuationToken.token


async def test_a_table_has_its_partitions_under_the_bare_name(service):
    assert await create(service, partitions=3) == Create.SUCCESS
    assert await create(service, partitions=5) == Create.TABLE_EXISTS
    ranges = (await service.stub.getCurrentSegmentsKeyValueTable(table())).segmentRanges
    assert [(each.segmentId.segmentId, each.segmentId.streamInfo.stream) for each in ranges] == [
        (0, "k"),
        (1, "k"),
        (2, "k"),
    ]
    assert ranges[-1].maxKey == 1.0
    tables = service.world.segments.tables
    assert {name for name in tables if name.startswith("s/")} == {
        f"s/k_kvtable/{number}.#epoch.0" for number in range(3)
    }
    assert tables["s/k_kvtable/0.#epoch.0"].key_length == 12
    answer = await service.stub.getKeyValueTableConfiguration(table())
    assert answer.config == config(partitions=3)


async def test_a_table_and_a_stream_may_have_one_name_and_are_listed_apart(service):
    await create(service)
    await service.create_stream("k")
    assert await listed(service) == ["k"]
    request = pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="s"))
    streams = (await service.stub.listStreamsInScope(request)).streams
    assert sorted(each.stream for each in streams) == ["_MARKk", "k"]


async def test_a_deleted_table_leaves_nothing_and_its_successor_numbers_on(service):
    await create(service, partitions=2)
    assert (await service.stub.deleteKeyValueTable(table())).status == Delete.SUCCESS
    assert (await service.stub.deleteKeyValueTable(table())).status == Delete.TABLE_NOT_FOUND
    assert [name for name in service.world.segments.tables if name.startswith("s/")] == []
    await create(service, partitions=2)
    ranges = (await service.stub.getCurrentSegmentsKeyValueTable(table())).segmentRanges
    assert [each.segmentId.segmentId for each in ranges] == [2, 3]


async def test_what_is_missing_is_said_to_be(service):
    assert await create(service, scope="nowhere") == Create.SCOPE_NOT_FOUND
    assert await create(service, name="a_b") == Create.INVALID_TABLE_NAME
    missing = await service.stub.getKeyValueTableConfiguration(table())
    assert missing.status == pb.KeyValueTableConfigResponse.TABLE_NOT_FOUND
    async with refused(grpc.StatusCode.NOT_FOUND):
        await service.stub.getCurrentSegmentsKeyValueTable(table())
    request = pb.KVTablesInScopeRequest(scope=pb.ScopeInfo(scope="nowhere"))
    answer = await service.stub.listKeyValueTablesInScope(request)
    assert answer.status == pb.KVTablesInScopeResponse.SCOPE_NOT_FOUND
    assert answer.HasField("continuationToken")


@pytest.mark.parametrize(
    "fields",
    [
        {"partitions": 0},
        {"primary": 0},
        {"secondary": -1},
        {"rollover": -1},
        {"primary": 250, "secondary": 10},
    ],
)
async def test_impossible_tables_are_refused_for_good(service, fields):
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await create(service, **fields)
    assert await listed(service) == []
