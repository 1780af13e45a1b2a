"""Thousands of streams, page by page."""

import pytest

from headrace.controller.store.contract import ABSENT, Write
from headrace.controller.workflows.create_stream import new_stream_row
from headrace.model.policies import StreamConfiguration
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.api.test_stream_calls import list_streams
from tests.unit.controller.conftest import World, serve

COUNT = 3_000


@pytest.fixture(params=[False, True], ids=["memory", "tables"])
def world(request):
    return World(in_tables=request.param)


async def fill(controller):
    """Write the rows of many streams without their segments: listings look at rows only."""
    scope = await controller.context.scopes.get("s")
    for start in range(0, COUNT, 500):
        writes = []
        for number in range(start, start + 500):
            tags = frozenset({"hundredth"}) if number % 100 == 0 else frozenset()
            row, write = new_stream_row(
                controller.context, f"stream-{number}", StreamConfiguration(tags=tags), 0
            )
            writes.append(Write(write.key, write.value, ABSENT))
            assert row.uid
        await controller.context.store.update(scope.table, writes)


@pytest.mark.slow
async def test_thousands_of_streams_are_listed_once_each_in_full_pages(world):
    async with serve(world) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await fill(service.controller)
        names, pages = await list_streams(service)
        assert sorted(names) == sorted(f"stream-{number}" for number in range(COUNT))
        assert pages == COUNT // 1000
        tagged, _ = await list_streams(service, tag="hundredth")
        assert sorted(tagged) == sorted(f"stream-{number}" for number in range(0, COUNT, 100))
        assert await list_streams(service, tag="none") == ([], 0)


async def test_small_pages_that_hold_other_things_are_never_shown_empty(world):
    async with serve(world, page_rows_max=1) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        for number in range(5):
            table = pb.KeyValueTableConfig(
                scope="s", kvtName=f"k{number}", partitionCount=1, primaryKeyLength=8
            )
            await service.stub.createKeyValueTable(table)
            await service.create_stream(f"t{number}", tags=["x"] if number == 3 else [])
        names, pages = await list_streams(service)
        assert (len(names), pages) == (10, 10)
        assert await list_streams(service, tag="x") == (["t3"], 1)


async def test_a_token_outlives_the_controller(world):
    async with serve(world, page_rows_max=2) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        for number in range(3):
            await service.create_stream(f"t{number}")
        first = await service.stub.listStreamsInScope(pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="s")))
    async with serve(world, page_rows_max=100) as service:
        rest = await service.stub.listStreamsInScope(
            pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="s"), continuationToken=first.continuationToken)
        )
    names = [each.stream for page in (first, rest) for each in page.streams]
    assert sorted(names) == sorted(f"{prefix}t{n}" for n in range(3) for prefix in ("", "_MARK"))
