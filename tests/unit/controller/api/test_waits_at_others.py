"""Callers wait at a controller for work of another one, which tells when it is done.

On virtual time: whatever looks at rows with pauses takes some of it, and who is told takes none.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headrace.controller.api.call_front import snake_case
from headrace.controller.api.internal_calls import WAITING_MAX
from headrace.errors import ConnectionLostError, SessionExpiredError, ThrottledError
from headrace.model.buckets import bucket_of
from headrace.model.endpoint import Endpoint
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import internal_pb2 as ib
from headrace.testing.simulation import simulate
from tests.unit.controller.calls import info
from tests.unit.controller.conftest import World, stream_config

NO_TIME_S = 0.01
BUCKETS = 2


class Lines:
    """The calls of controllers at each other, made at once, or as a test wants."""

    def __init__(self):
        self.controllers = {}
        self.made = []
        self.instead = None

    async def ask(self, where, method, request, timeout_s):
        self.made.append(method)
        if self.instead is not None:
            return await self.instead(timeout_s)
        return await self.controllers[where].handlers[snake_case(method)](request)


class Pair:
    """Two controllers: ``asked`` by callers, and ``owner``, which does the work of stream ``s/<stream>``."""

    def __init__(self, world, lines, controllers):
        self.world, self.lines = world, lines
        self.asked, self.owner = controllers
        names = (f"stream-{number}" for number in range(100))
        self.stream = next(name for name in names if self.owner.context.buckets.owns_stream("s", name))
        self.info = info(self.stream)

    async def ask(self, call, request):
        return await self.asked.handlers[call](request)

    async def begin(self):
        return (
            await self.ask("create_transaction", pb.CreateTxnRequest(streamInfo=self.info, lease=30_000))
        ).txnId

    async def commit(self, txn_id, wait_ms=10_000):
        request = pb.TxnRequest(streamInfo=self.info, txnId=txn_id, timestamp=-(1 << 63), waitMs=wait_ms)
        return (await self.ask("commit_transaction", request)).state

    async def commit_batch(self, txn_ids):
        request = bb.CommitTransactionBatchRequest(
            streamInfo=self.info, sink="sink", query="query", batch=1, txnIds=txn_ids, waitUntilVisible=True
        )
        return (await self.ask("commit_transaction_batch", request)).status

    async def update(self):
        return (await self.ask("update_stream", stream_config(self.stream, tags=["new"]))).status

    async def ended(self, txn_id):
        stream = await self.asked.context.directory.get("s", self.stream)
        return await self.asked.context.outcomes.find(stream.uid, txn_id_from_message(txn_id))


def now():
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def a_pair():
    world, lines, controllers = World(), Lines(), []
    try:
        for number in range(2):
            where = Endpoint("127.0.0.1", 1000 + number)
            controller = world.controller(ask=lines.ask, rpc_host=where.host, rpc_port=where.port)
            lines.controllers[where] = controller
            controllers.append(controller)
            await controller.start()
        while [len(each.context.buckets.owned()) for each in controllers] != [1, 1]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await controllers[0].handlers["create_scope"](pb.ScopeInfo(scope="s"))
        pair = Pair(world, lines, controllers)
        await pair.ask("create_stream", stream_config(pair.stream))
        await asyncio.sleep(1)
        lines.made.clear()
        yield pair
    finally:
        for controller in controllers:
            await controller.stop()


def with_a_pair(scenario):
    async def main(_):
        async with a_pair() as pair:
            await scenario(pair)

    simulate(1, main, limit_s=1e6)


def test_a_commit_is_answered_when_the_owner_has_made_it_visible():
    async def scenario(pair):
        txn_id, began = await pair.begin(), now()
        assert await pair.commit(txn_id) == pb.TxnState.COMMITTED
        assert now() - began < NO_TIME_S
        assert pair.lines.made == ["waitTransactions"]

    with_a_pair(scenario)


def test_a_question_for_a_decided_transaction_waits_for_the_owner_as_well():
    async def scenario(pair):
        aborted = await pair.begin()
        request = pb.TxnRequest(streamInfo=pair.info, txnId=aborted)
        await pair.ask("abort_transaction", request)
        assert (await pair.ask("check_transaction_state", request)).state == pb.TxnState.ABORTED

    with_a_pair(scenario)


def test_a_batch_is_answered_when_the_owner_has_made_it_visible():
    async def scenario(pair):
        txn_ids = [await pair.begin() for _ in range(5)]
        began = now()
        assert await pair.commit_batch(txn_ids) == bb.CommitTransactionBatchResponse.COMMITTED
        assert now() - began < NO_TIME_S
        assert all([await pair.ended(each) for each in txn_ids])

    with_a_pair(scenario)


@pytest.mark.parametrize("call", ["update_stream", "seal_stream"])
def test_a_request_is_answered_when_the_owner_has_done_it(call):
    async def scenario(pair):
        request = stream_config(pair.stream, tags=["new"]) if call == "update_stream" else pair.info
        began = now()
        assert (await pair.ask(call, request)).status == pb.UpdateStreamStatus.SUCCESS
        assert now() - began < NO_TIME_S
        assert set(pair.lines.made) == {"waitStream"}

    with_a_pair(scenario)


async def refuse(_):
    raise SessionExpiredError("another one owns it now")


async def lose(timeout_s):
    await asyncio.sleep(timeout_s)
    raise ConnectionLostError("no answer")


async def lie(_):
    return ib.WaitResponse(isOver=True)


async def know_nothing(_):
    return ib.WaitResponse()


@pytest.mark.parametrize("instead", [refuse, lose, lie, know_nothing])
def test_whatever_an_owner_says_or_does_not_say_the_rows_are_looked_at(instead):
    async def scenario(pair):
        txn_ids = [await pair.begin() for _ in range(3)]
        pair.lines.instead = instead
        began = now()
        assert await pair.commit_batch(txn_ids) == bb.CommitTransactionBatchResponse.COMMITTED
        assert all([await pair.ended(each) for each in txn_ids])
        assert await pair.update() == pb.UpdateStreamStatus.SUCCESS
        assert (await pair.ask("seal_stream", pair.info)).status == pb.UpdateStreamStatus.SUCCESS
        assert (await pair.ask("delete_stream", pair.info)).status == pb.DeleteStreamStatus.SUCCESS
        assert now() - began < 60
        assert len(pair.lines.made) < 20  # a liar is not asked again and again

    with_a_pair(scenario)


def test_an_owner_that_leaves_is_not_waited_for():
    async def scenario(pair):
        reached = asyncio.Event()

        async def never(_):
            reached.set()
            await asyncio.Event().wait()

        txn_id = await pair.begin()
        pair.lines.instead = never
        committing = asyncio.ensure_future(pair.commit_batch([txn_id]))
        await reached.wait()
        pair.world.expire(pair.owner)
        began = now()
        assert await committing == bb.CommitTransactionBatchResponse.COMMITTED
        assert now() - began < 2

    with_a_pair(scenario)


def test_who_does_not_own_a_bucket_says_so_and_waits_are_bounded():
    async def scenario(pair):
        stream = await pair.asked.context.directory.get("s", pair.stream)
        request = ib.WaitTransactionsRequest(
            streamInfo=pair.info, streamUid=stream.uid, txnIds=[await pair.begin()], waitMs=10_000
        )
        with pytest.raises(SessionExpiredError):
            await pair.ask("wait_transactions", request)
        assert bucket_of("s", pair.stream, BUCKETS) in pair.owner.context.buckets.owned()
        wait = pair.owner.handlers["wait_transactions"]
        assert not (await wait(request)).isOver  # an open one is not waited for
        pair.world.segments.after = lambda call, segment: asyncio.Event().wait()  # no merge ends
        assert await pair.commit(request.txnIds[0], wait_ms=0) == pb.TxnState.UNKNOWN
        waiting = [asyncio.ensure_future(wait(request)) for _ in range(WAITING_MAX)]
        began = now()
        await asyncio.sleep(1)
        with pytest.raises(ThrottledError):
            await wait(request)
        assert not any([(await each).isOver for each in waiting])
        assert now() - began < 10

    with_a_pair(scenario)
