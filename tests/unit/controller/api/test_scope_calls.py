import pytest

from headrace.rpc.generated import controller_pb2 as pb

Create, Delete = pb.CreateScopeStatus, pb.DeleteScopeStatus


async def list_scopes(service):
    names, token = [], ""
    while True:
        page = await service.stub.listScopes(
            pb.ScopesRequest(continuationToken=pb.ContinuationToken(token=token))
        )
        assert page.HasField("continuationToken")
        assert page.continuationToken.token
        if not page.scopes:
            return names
        names += page.scopes
        token = page.continuationToken.token


async def test_a_scope_is_created_once_and_exists(service):
    assert (await service.stub.createScope(pb.ScopeInfo(scope="a"))).status == Create.SUCCESS
    assert (await service.stub.createScope(pb.ScopeInfo(scope="a"))).status == Create.SCOPE_EXISTS
    assert (await service.stub.checkScopeExists(pb.ScopeInfo(scope="a"))).exists
    assert not (await service.stub.checkScopeExists(pb.ScopeInfo(scope="b"))).exists


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a_b", "__a", "ä", "x" * 256])
async def test_illegal_scope_names_are_refused(service, name):
    assert (await service.stub.createScope(pb.ScopeInfo(scope=name))).status == Create.INVALID_SCOPE_NAME
    assert not (await service.stub.checkScopeExists(pb.ScopeInfo(scope=name))).exists


async def test_the_system_scope_exists_from_the_start_and_is_listed(service):
    await service.stub.createScope(pb.ScopeInfo(scope="b"))
    assert sorted(await list_scopes(service)) == ["_system", "b", "s"]


async def test_an_empty_scope_is_deleted_and_can_be_created_again(service):
    await service.stub.createScope(pb.ScopeInfo(scope="a"))
    assert (await service.stub.deleteScope(pb.ScopeInfo(scope="a"))).status == Delete.SUCCESS
    assert (await service.stub.deleteScope(pb.ScopeInfo(scope="a"))).status == Delete.SCOPE_NOT_FOUND
    assert (await service.stub.createScope(pb.ScopeInfo(scope="a"))).status == Create.SUCCESS
    assert await service.create_stream(scope="a") == pb.CreateStreamStatus.SUCCESS


async def test_a_scope_with_a_stream_is_not_deleted_and_stays_open(service):
    await service.create_stream()
    assert (await service.stub.deleteScope(pb.ScopeInfo(scope="s"))).status == Delete.SCOPE_NOT_EMPTY
    assert await service.create_stream("u") == pb.CreateStreamStatus.SUCCESS
