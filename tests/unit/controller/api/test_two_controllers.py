"""Two controllers share one store of rows: whichever is asked, the answer is that of one."""

import asyncio

import pytest

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import (
    State,
    abort,
    begin,
    commit,
    content,
    eventually,
    info,
    ping,
    settled,
    state,
    write,
)
from tests.unit.controller.conftest import World, serve

Status = pb.TxnStatus


@pytest.fixture
async def both(world):
    async with serve(world, lease_ms_min=1, lease_grace_ms_min=0) as one, serve(world) as other:
        await one.stub.createScope(pb.ScopeInfo(scope="s"))
        await one.create_stream()
        yield one, other


async def test_commits_decided_by_either_appear_in_the_order_of_their_decisions(both):
    txns = [await begin(both[number % 2]) for number in range(12)]
    for number, txn in enumerate(txns):
        write(both[0], txn, b"%x" % number)
    for number, txn in enumerate(txns):
        assert await commit(both[number // 2 % 2], txn) == Status.SUCCESS
    for txn in txns:
        assert await settled(both[0], txn) == await settled(both[1], txn) == State.COMMITTED
    assert content(both[0], 0) == b"0123456789ab"


async def test_what_one_decided_the_other_knows_at_once(both):
    one, other = both
    committed, aborted = await begin(one), await begin(one)
    assert await state(other, committed) == await state(other, aborted) == State.OPEN
    assert await commit(other, committed) == Status.SUCCESS
    assert await abort(other, aborted) == Status.SUCCESS
    assert await commit(one, aborted) == Status.TRANSACTION_NOT_FOUND
    assert await abort(one, committed) == Status.FAILURE
    assert await commit(one, committed) == await abort(one, aborted) == Status.SUCCESS
    assert (await settled(one, committed), await settled(one, aborted)) == (State.COMMITTED, State.ABORTED)


@pytest.mark.slow
async def test_a_transaction_expires_although_the_controller_that_extended_its_lease_is_gone(world):
    async with serve(world, lease_ms_min=1, lease_grace_ms_min=0) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        txn = await begin(service, lease=100)
        async with serve(world) as other:
            assert await ping(other, txn, 150) == pb.PingTxnStatus.OK
        await state(service, txn)  # now it knows the row that the other one wrote

        async def expired():
            return await state(service, txn) == State.ABORTED

        await eventually(expired)


async def test_a_stream_that_was_replaced_is_the_new_one_for_both(both):
    one, other = both
    old = await begin(one)
    await commit(one, old)
    assert await settled(one, old) == State.COMMITTED
    await other.stub.sealStream(info())
    assert (await other.stub.deleteStream(info())).status == pb.DeleteStreamStatus.SUCCESS
    assert await other.create_stream(segments=2) == pb.CreateStreamStatus.SUCCESS
    assert len(await one.current()) == 2
    txn = await begin(one)
    assert len(txn.activeSegments) == 2
    assert await commit(one, txn) == Status.SUCCESS
    assert await settled(other, txn) == State.COMMITTED


async def test_a_scope_that_one_removed_takes_nothing_from_the_other(both):
    one, other = both
    await other.stub.createScope(pb.ScopeInfo(scope="empty"))
    assert (await one.stub.deleteScope(pb.ScopeInfo(scope="empty"))).status == pb.DeleteScopeStatus.SUCCESS
    assert await other.create_stream(scope="empty") == pb.CreateStreamStatus.SCOPE_NOT_FOUND
    assert await other.create_stream(stream="u") == pb.CreateStreamStatus.SUCCESS
    assert await one.create_stream(stream="u") == pb.CreateStreamStatus.STREAM_EXISTS


class SlowStore:
    """Rows that are a step of the loop away, there and back."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        async def call(*args, **kwargs):
            await asyncio.sleep(0)
            answer = await method(*args, **kwargs)
            await asyncio.sleep(0)
            return answer

        return call


async def test_controllers_start_at_once_where_nothing_is_yet():
    world = World()
    controllers = [world.controller(store=SlowStore(world.store)) for _ in range(3)]
    await asyncio.gather(*(each.start() for each in controllers))
    for number, each in enumerate(controllers):
        await each.context.scopes.create(f"scope{number}")
        await each.stop()
