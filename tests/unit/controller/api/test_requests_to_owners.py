"""Calls on a controller that does not own the stream: the owner does the work, whatever happens."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headrace.controller.buckets.shared_look import LOOK_AGAIN_S
from headrace.controller.events import queue
from headrace.controller.events.event import request_segment
from headrace.errors import ContainerOfflineError
from headrace.limits import INT64_MIN
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import ask, info, shadow
from tests.unit.controller.conftest import World, stream_config
from tests.unit.controller.mortality import Life, check_world, idle, mortal_controller, simulated
from tests.unit.controller.segment_stores import FakeSegmentStores

Updated = pb.UpdateStreamStatus


class Doubling(FakeSegmentStores):
    """Every request event is there twice."""

    async def append(self, segment, data, *, expected_offset=-1):
        await super().append(segment, data)
        return await super().append(segment, data)


class Pair:
    """Two controllers; the stream's bucket is owned by ``owner``."""

    def __init__(self, world, asked, owner):
        self.world, self.asked, self.owner = world, asked, owner
        names = (f"t{number}" for number in range(100))
        self.stream = next(name for name in names if owner.context.buckets.owns_stream("s", name))
        assert not asked.context.buckets.owns_stream("s", self.stream)

    async def ask(self, name, request):
        return await ask(self.asked, name, request)

    def info(self):
        return info(self.stream)

    async def create(self, segments=1):
        await self.ask("create_scope", pb.ScopeInfo(scope="s"))
        await self.ask("create_stream", stream_config(self.stream, segments))

    async def scale(self):
        entries = [pb.ScaleRequest.KeyRangeEntry(start=low, end=low + 0.5) for low in (0.0, 0.5)]
        request = pb.ScaleRequest(streamInfo=self.info(), sealedSegments=[0], newKeyRanges=entries)
        return (await self.ask("scale", request)).status

    async def begin(self, data):
        txn = await self.ask("create_transaction", pb.CreateTxnRequest(streamInfo=self.info(), lease=30_000))
        self.world.segments.write(shadow(txn, stream=self.stream), data)
        return pb.TxnRequest(streamInfo=self.info(), txnId=txn.txnId, timestamp=INT64_MIN)

    async def state(self, txn):
        return (await self.ask("check_transaction_state", txn)).state

    async def segments(self):
        return len((await self.ask("get_current_segments", self.info())).segmentRanges)

    async def until(self, condition):
        async with asyncio.timeout(600):
            while not await condition():  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0.1)


async def shared(*controllers):
    """Wait until the buckets are divided."""
    async with asyncio.timeout(60):
        while not all(any(map(each.context.buckets.owns, range(2))) for each in controllers):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # time is virtual


@asynccontextmanager
async def pair(world):
    async with world.running() as asked, world.running() as owner:
        await shared(asked, owner)
        yield Pair(world, asked, owner)


async def every_call(pair):
    """Make each call that is work for the owner, and see it done."""
    await pair.create()
    answer = await pair.ask("update_stream", stream_config(pair.stream, tags=["x"]))
    assert answer.status == Updated.SUCCESS
    assert await pair.scale() == pb.ScaleResponse.STARTED

    async def scaled():
        return await pair.segments() == 2

    await pair.until(scaled)
    committed, aborted = await pair.begin(b"<yes>"), await pair.begin(b"<no>")
    assert (await pair.ask("commit_transaction", committed)).status == pb.TxnStatus.SUCCESS
    assert (await pair.ask("abort_transaction", aborted)).status == pb.TxnStatus.SUCCESS

    async def ended():
        states = [await pair.state(committed), await pair.state(aborted)]
        return states == [pb.TxnState.COMMITTED, pb.TxnState.ABORTED]

    await pair.until(ended)
    first = pair.world.segments.segments[f"s/{pair.stream}/1.#epoch.1"]
    assert bytes(first.data) == b"<yes>"
    cut = pb.StreamCut(streamInfo=pair.info(), cut={(1 << 32) + 1: 2, (1 << 32) + 2: 0})
    assert (await pair.ask("truncate_stream", cut)).status == Updated.SUCCESS
    assert first.start_offset == 2
    assert (await pair.ask("seal_stream", pair.info())).status == Updated.SUCCESS
    assert first.sealed
    answer = await pair.ask("delete_stream", pair.info())
    assert answer.status == pb.DeleteStreamStatus.SUCCESS
    assert pair.world.segments.of_users() == []


@pytest.mark.parametrize("segments", [FakeSegmentStores, Doubling], ids=["once", "twice"])
@simulated
async def test_the_owner_does_the_work_and_an_event_that_comes_twice_does_nothing_more(segments):
    async with pair(World(segments=segments())) as both:
        await every_call(both)
        await idle(both.owner)
        await idle(both.asked)
        assert both.asked.engine.statistics().runs == 0
        assert both.owner.engine.statistics().runs >= 6
        assert both.owner.processor.statistics().set_aside == 0
        await check_world(both.world, both.owner)


@simulated
async def test_a_call_is_accepted_although_its_event_cannot_be_posted_yet():
    async with pair(World()) as both:
        await both.create()
        away = [True]

        async def refuse(call, segment):
            if call == "append" and away[0]:
                raise ContainerOfflineError("moving")

        both.world.segments.fault = refuse
        assert await both.scale() == pb.ScaleResponse.STARTED
        await asyncio.sleep(60)
        assert await both.segments() == 1
        away[0] = False

        async def scaled():
            return await both.segments() == 2

        await both.until(scaled)


@simulated
async def test_the_owner_finds_a_request_whose_event_was_dropped(monkeypatch):
    async with pair(World()) as both:
        await both.create()
        monkeypatch.setattr(queue, "NOTIFYING_MAX", 0)
        assert await both.scale() == pb.ScaleResponse.STARTED
        await asyncio.sleep(2 * LOOK_AGAIN_S)
        assert await both.segments() == 2
        await idle(both.owner)
        await check_world(both.world, both.owner)


@simulated
async def test_a_controller_that_dies_between_row_and_event_loses_nothing():
    world = World()
    async with pair(world) as both:
        await both.create()

        async def refuse(call, segment):
            if call == "append":
                raise ContainerOfflineError("moving")

        world.segments.fault = refuse
        assert await both.scale() == pb.ScaleResponse.STARTED
        sealing = asyncio.ensure_future(both.ask("seal_stream", both.info()))
        await asyncio.sleep(1)
        sealing.cancel()
    world.segments.fault = None
    async with world.running() as successor:
        await idle(successor)
        stream = await successor.context.directory.get("s", both.stream)
        assert stream.row.state.name == "SEALED"
        await check_world(world, successor)


@simulated
async def test_the_successor_of_an_owner_that_dies_goes_on_with_its_events():
    world, life = World(), Life()
    async with world.running() as asked:
        owner = mortal_controller(world, life)
        await owner.start()
        await shared(asked, owner)
        both = Pair(world, asked, owner)
        await both.create()
        await idle(owner)
        life.over.set()  # it holds the bucket and does nothing any more
        updating = asyncio.ensure_future(
            both.ask("update_stream", stream_config(both.stream, segments=3, tags=["x"]))
        )
        await asyncio.sleep(10)
        assert not updating.done()
        bucket = asked.context.buckets.bucket_of("s", both.stream)
        assert world.segments.segments[request_segment(bucket)].length > 0
        await owner.stop()
        assert (await updating).status == Updated.SUCCESS
        assert await both.segments() == 3
        await idle(asked)
        await check_world(world, asked)


@simulated
async def test_a_request_during_the_reply_to_an_equal_event_is_posted_by_itself():
    async with pair(World()) as both:
        await both.create()
        reply, replies = asyncio.Event(), []

        async def delay(call, segment):
            if call == "append":
                replies.append(segment)
                await reply.wait()

        both.world.segments.after = delay
        assert await both.scale() == pb.ScaleResponse.STARTED
        await asyncio.sleep(1)
        bucket = both.asked.context.buckets.bucket_of("s", both.stream)
        assert replies == [request_segment(bucket)]
        appended, both.world.segments.appended = both.world.segments.appended, asyncio.Event()
        appended.set()  # the owner reads it before the reply is here
        await asyncio.sleep(1)
        updating = asyncio.ensure_future(both.ask("update_stream", stream_config(both.stream, tags=["x"])))
        await asyncio.sleep(1)
        reply.set()
        assert (await asyncio.wait_for(updating, 60)).status == Updated.SUCCESS
        assert len(replies) == 2
