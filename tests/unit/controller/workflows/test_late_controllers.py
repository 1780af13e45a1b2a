"""A controller is so late with a step that another one has gone on, and beyond."""

import asyncio
import uuid
from dataclasses import replace

import pytest

from headrace.controller.store.contract import Write
from headrace.controller.store.rows.scope_row import ScopeState
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.workflows.delete_stream import delete_stream
from headrace.coordination.memory import MemoryCoordinator
from headrace.limits import INT64_MIN
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.api.test_reader_group_calls import ID
from tests.unit.controller.api.test_reader_group_calls import config as group_config
from tests.unit.controller.api.test_table_calls import config as table_config
from tests.unit.controller.calls import LEASE, ask, eventually, info
from tests.unit.controller.conftest import World, stream_config
from tests.unit.controller.mortality import simulated


class Gate:
    """Segment stores that block calls for some segments, creations at first, until the gate is open."""

    def __init__(self, target, mark, call="create_segment"):
        self._target = target
        self._mark = mark
        self._call = call
        self.arrived, self.open = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        method = getattr(self._target, name)

        async def call(segment, **options):
            if self._mark in segment:
                self.arrived.set()
                await self.open.wait()
            return await method(segment, **options)

        return call if name == self._call else method


class AfterDeletions:
    """Segment stores that block after deletions of the stream, once armed, until the gate is open."""

    def __init__(self, target):
        self._target = target
        self.armed = False
        self.arrived, self.open = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._target, name)

    async def delete_segments(self, segments):
        await self._target.delete_segments(segments)
        if self.armed and any(name.startswith("s/t/") for name in segments):
            self.arrived.set()
            await self.open.wait()


def scale_request(sealed, ranges):
    return pb.ScaleRequest(
        streamInfo=info(),
        sealedSegments=sealed,
        newKeyRanges=[pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in ranges],
    )


async def two_with_a_late_one(world, segments=None, late_segments=None):
    """Make a stream; let one controller start a scale and be late; the other one completes it.

    Each reaches the segment stores in the given way, if there is one.
    """
    gate = Gate(late_segments or world.segments, ".#epoch.1")
    late = world.controller(segments=gate, buckets=1)
    await late.start()
    await late.handlers["create_scope"](pb.ScopeInfo(scope="s"))
    await ask(late, "create_stream", stream_config())
    await ask(late, "scale", scale_request([0], [(0.0, 0.5), (0.5, 1.0)]))
    await gate.arrived.wait()
    world.coordinator = MemoryCoordinator()  # both believe that they own everything
    other = world.controller(segments=segments, buckets=1)
    await other.start()
    stream = await other.context.directory.get("s", "t")
    other.engine.wake(stream)

    async def completed():
        return (await other.context.directory.get("s", "t")).row.epoch.epoch == 1

    await eventually(completed)
    return late, other, gate


async def let_go(late, other, gate):
    gate.open.set()
    await asyncio.sleep(10)
    await other.stop()
    await late.stop()


@simulated
async def test_nothing_is_left_of_a_stream_that_was_deleted_meanwhile():
    world = World()
    late, other, gate = await two_with_a_late_one(world)
    assert (await ask(other, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS
    assert (await ask(other, "delete_stream", info())).status == pb.DeleteStreamStatus.SUCCESS
    await let_go(late, other, gate)
    assert not [name for name in world.segments.segments if name.startswith("s/")]


@simulated
async def test_nothing_is_left_in_front_of_a_head_and_what_is_needed_stays():
    world = World()
    late, other, gate = await two_with_a_late_one(world)
    ids = [segment.segment_id for segment in (await other.context.directory.get("s", "t")).row.epoch.segments]
    await ask(other, "scale", scale_request(ids[:1], [(0.0, 0.25), (0.25, 0.5)]))

    async def completed():
        return (await other.context.directory.get("s", "t")).row.epoch.epoch == 2

    await eventually(completed)
    newest = (await other.context.directory.get("s", "t")).row.epoch.segment_ids()
    cut = pb.StreamCut(streamInfo=info(), cut=dict.fromkeys(newest, 0))
    assert (await ask(other, "truncate_stream", cut)).status == pb.UpdateStreamStatus.SUCCESS
    await let_go(late, other, gate)
    present = {name for name in world.segments.segments if name.startswith("s/t/")}
    assert present == {f"s/t/{each & 0xFFFFFFFF}.#epoch.{each >> 32}" for each in newest}


@simulated
async def test_successors_of_a_later_scale_are_not_revealed_before_they_exist():
    world = World()
    later = world.segments = Gate(world.segments, ".#epoch.2")
    late, other, gate = await two_with_a_late_one(world)
    first = (await other.context.directory.get("s", "t")).row.epoch.segment_ids()[0]
    await ask(other, "scale", scale_request([first], [(0.0, 0.25), (0.25, 0.5)]))
    await later.arrived.wait()
    gate.open.set()
    await asyncio.sleep(10)
    asked = pb.SegmentId(streamInfo=info(), segmentId=first)
    assert not (await ask(other, "get_segments_immediately_following", asked)).segments
    later.open.set()

    async def completed():
        return len((await ask(other, "get_segments_immediately_following", asked)).segments) == 2

    await eventually(completed)
    await let_go(late, other, gate)


@simulated
async def test_nothing_is_left_of_a_stream_that_is_just_being_deleted():
    world = World()
    deletions, seals = AfterDeletions(world.segments), Gate(world.segments, "s/t/", "seal_segment")
    late, other, gate = await two_with_a_late_one(world, deletions, seals)
    assert (await ask(other, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS
    deletions.armed = True
    deleting = asyncio.ensure_future(ask(other, "delete_stream", info()))
    await deletions.arrived.wait()
    gate.open.set()
    await seals.arrived.wait()
    deletions.open.set()
    assert (await deleting).status == pb.DeleteStreamStatus.SUCCESS
    seals.open.set()
    await let_go(late, other, gate)
    assert not world.segments.of_users()


@simulated
async def test_nothing_is_left_in_front_of_a_head_that_is_just_being_moved():
    world = World()
    deletions = AfterDeletions(world.segments)
    late, other, gate = await two_with_a_late_one(world, deletions)
    ids = (await other.context.directory.get("s", "t")).row.epoch.segment_ids()
    await ask(other, "scale", scale_request(ids, [(0.0, 1.0)]))

    async def completed():
        return (await other.context.directory.get("s", "t")).row.epoch.epoch == 2

    await eventually(completed)
    deletions.armed = True
    newest = (await other.context.directory.get("s", "t")).row.epoch.segment_ids()
    cut = pb.StreamCut(streamInfo=info(), cut=dict.fromkeys(newest, 0))
    truncating = asyncio.ensure_future(ask(other, "truncate_stream", cut))
    await deletions.arrived.wait()
    gate.open.set()
    await asyncio.sleep(0.01)
    await late.stop()
    deletions.open.set()
    assert (await truncating).status == pb.UpdateStreamStatus.SUCCESS
    await other.stop()
    present = [name for name in world.segments.of_users() if name.startswith("s/t/")]
    assert present == [f"s/t/{each & 0xFFFFFFFF}.#epoch.{each >> 32}" for each in newest]


class SlowReads:
    """A store whose reads of one row wait until the gate is open, once it is armed."""

    def __init__(self, target, key):
        self._target = target
        self._key = key
        self.armed = False
        self.arrived, self.open = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._target, name)

    async def get(self, table, key):
        if self.armed and key == self._key:
            self.arrived.set()
            await self.open.wait()
        return await self._target.get(table, key)

    def skip(self):
        """Let the read that waits go on; the next one waits."""
        self.open.set()
        self.arrived, self.open = asyncio.Event(), asyncio.Event()


@simulated
async def test_a_late_deletion_spares_the_watermarks_of_a_later_stream():
    world = World()
    gate = SlowReads(world.store, b"s_MARKt")
    late = world.controller(store=gate, buckets=1)
    await late.start()
    await late.handlers["create_scope"](pb.ScopeInfo(scope="s"))
    await ask(late, "create_stream", stream_config())
    assert (await ask(late, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS
    gate.armed = True
    deleting = asyncio.ensure_future(ask(late, "delete_stream", info()))
    await gate.arrived.wait()
    world.coordinator = MemoryCoordinator()
    other = world.controller(buckets=1)
    await other.start()
    assert (await ask(other, "delete_stream", info())).status == pb.DeleteStreamStatus.SUCCESS
    assert (await ask(other, "create_stream", stream_config())).status == pb.CreateStreamStatus.SUCCESS
    await let_go(late, other, gate)
    await asyncio.gather(deleting, return_exceptions=True)
    mark = await other.context.directory.get("s", "_MARKt")
    assert not mark.row.deleting
    assert mark.segment(mark.row.epoch.segment_ids()[0]) in world.segments.segments


class LosingMarks:
    """A directory that finds streams of watermarks just before they are gone."""

    def __init__(self, target, store):
        self._target = target
        self._store = store

    def __getattr__(self, name):
        return getattr(self._target, name)

    async def find(self, scope, name):
        found = await self._target.find(scope, name)
        if name.startswith("_MARK"):
            await self._store.update(found.table, [Write(found.key, None, found.version)])
        return found


@simulated
async def test_a_deletion_ends_though_the_watermarks_are_deleted_meanwhile():
    world = World()
    async with world.running() as controller:
        await ask(controller, "create_scope", pb.ScopeInfo(scope="s"))
        await ask(controller, "create_stream", stream_config())
        assert (await ask(controller, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS
        stream = await controller.context.directory.get("s", "t")
        directory = LosingMarks(controller.context.directory, world.store)
        await delete_stream(replace(controller.context, directory=directory), stream)
        assert await controller.context.directory.find("s", "t") is None


@simulated
@pytest.mark.parametrize("deleted", [False, True], ids=["sealed", "deleted"])
async def test_nothing_is_left_of_a_transaction_whose_stream_was_sealed_before_it_was_complete(deleted):
    world = World()
    gate = Gate(world.segments, "#transaction.")
    late = world.controller(segments=gate, buckets=1)
    await late.start()
    await late.handlers["create_scope"](pb.ScopeInfo(scope="s"))
    await ask(late, "create_stream", stream_config())
    world.coordinator = MemoryCoordinator()  # both believe that they own everything
    other = world.controller(buckets=1)
    await other.start()
    request = pb.CreateTxnRequest(streamInfo=info(), lease=LEASE)
    beginning = asyncio.ensure_future(ask(late, "create_transaction", request))
    await gate.arrived.wait()
    assert (await ask(other, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS
    if deleted:
        assert (await ask(other, "delete_stream", info())).status == pb.DeleteStreamStatus.SUCCESS
    await let_go(late, other, gate)
    await asyncio.gather(beginning, return_exceptions=True)
    assert not [name for name in world.segments.of_users() if "#transaction" in name]


async def two_owners(world, **of_late):
    """Return a controller that will be late, and another one; both believe that they own everything."""
    late = world.controller(buckets=1, **of_late)
    await late.start()
    await late.handlers["create_scope"](pb.ScopeInfo(scope="s"))
    await ask(late, "create_stream", stream_config())
    world.coordinator = MemoryCoordinator()
    other = world.controller(buckets=1)
    await other.start()
    return late, other


@simulated
async def test_a_late_deletion_of_a_scope_spares_a_later_scope_of_that_name():
    world = World()
    gate = AfterDeletions(world.segments)
    late, other = await two_owners(world, segments=gate)
    request = pb.ScopeInfo(scope="s")
    gate.armed = True
    deleting = asyncio.ensure_future(ask(late, "delete_scope_recursive", request))
    await gate.arrived.wait()
    assert (await ask(other, "delete_scope_recursive", request)).status == pb.DeleteScopeStatus.SUCCESS
    await other.handlers["create_scope"](pb.ScopeInfo(scope="s"))
    assert (await ask(other, "create_stream", stream_config())).status == pb.CreateStreamStatus.SUCCESS
    await let_go(late, other, gate)
    assert (await deleting).status == pb.DeleteScopeStatus.SUCCESS
    stream = await other.context.directory.get("s", "t")
    assert stream.row.state is StreamState.ACTIVE
    assert (await other.context.scopes.get("s")).row.state is ScopeState.ACTIVE


@simulated
async def test_a_late_deletion_of_a_group_spares_a_later_group_of_that_name():
    world = World()
    gate = SlowReads(world.store, b"s_RGg")
    late, other = await two_owners(world, store=gate)
    await ask(late, "create_reader_group", group_config(retention=1))
    gate.armed = True
    request = pb.ReaderGroupInfo(scope="s", readerGroup="g", readerGroupId=ID)
    deleting = asyncio.ensure_future(ask(late, "delete_reader_group", request))
    await gate.arrived.wait()
    assert (await ask(other, "delete_reader_group", request)).status == pb.DeleteReaderGroupStatus.SUCCESS
    later = group_config(retention=1, group_id=str(uuid.UUID(int=8)))
    answer = await ask(other, "create_reader_group", later)
    assert answer.status == pb.CreateReaderGroupResponse.SUCCESS
    await let_go(late, other, gate)
    await asyncio.gather(deleting, return_exceptions=True)
    stream = await other.context.directory.get("s", "_RGg")
    assert stream.row.state is StreamState.ACTIVE
    subscribed = await other.context.directory.get("s", "t")
    assert await other.groups.subscribers.names(subscribed) == ["s/g"]


@simulated
async def test_a_late_creation_of_a_group_holds_no_data_for_a_group_that_is_gone():
    world = World()
    gate = SlowReads(world.store, b"st")
    late, other = await two_owners(world, store=gate)
    creating = asyncio.ensure_future(ask(late, "create_reader_group", group_config(retention=1)))
    gate.armed = True
    await gate.arrived.wait()
    gate.skip()
    await gate.arrived.wait()
    request = pb.ReaderGroupInfo(scope="s", readerGroup="g", readerGroupId=ID)
    assert (await ask(other, "delete_reader_group", request)).status == pb.DeleteReaderGroupStatus.SUCCESS
    await let_go(late, other, gate)
    await asyncio.gather(creating, return_exceptions=True)
    subscribed = await other.context.directory.get("s", "t")
    assert await other.groups.subscribers.names(subscribed) == []


@simulated
async def test_a_late_creation_of_a_group_leaves_a_later_group_its_subscription():
    world = World()
    gate = SlowReads(world.store, b"st")
    late, other = await two_owners(world, store=gate)
    creating = asyncio.ensure_future(ask(late, "create_reader_group", group_config(retention=1)))
    gate.armed = True
    await gate.arrived.wait()
    gate.skip()
    await gate.arrived.wait()
    request = pb.ReaderGroupInfo(scope="s", readerGroup="g", readerGroupId=ID)
    assert (await ask(other, "delete_reader_group", request)).status == pb.DeleteReaderGroupStatus.SUCCESS
    later = str(uuid.UUID(int=8))
    answer = await ask(other, "create_reader_group", group_config(retention=1, group_id=later))
    assert answer.status == pb.CreateReaderGroupResponse.SUCCESS
    await let_go(late, other, gate)
    await asyncio.gather(creating, return_exceptions=True)
    report = pb.SubscriberStreamCut(
        subscriber="s/g",
        generation=0,
        readerGroupId=later,
        streamCut=pb.StreamCut(streamInfo=info(), cut={0: 0}),
    )
    answer = await ask(other, "update_subscriber_stream_cut", report)
    assert answer.status == pb.UpdateSubscriberStatus.SUCCESS


class SlowOutcomes:
    """A store whose writes of outcomes wait until the gate is open."""

    def __init__(self, target):
        self._target = target
        self.arrived, self.open = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._target, name)

    async def update(self, table, writes):
        if table.startswith("finished-"):
            self.arrived.set()
            await self.open.wait()
        return await self._target.update(table, writes)


@simulated
@pytest.mark.parametrize("decision", ["commit_transaction", "abort_transaction"])
async def test_a_decided_transaction_is_known_at_every_moment(decision):
    world = World()
    gate = SlowOutcomes(world.store)
    late, other = await two_owners(world, store=gate)
    begun = await ask(late, "create_transaction", pb.CreateTxnRequest(streamInfo=info(), lease=LEASE))
    request = pb.TxnRequest(streamInfo=info(), txnId=begun.txnId, timestamp=INT64_MIN)
    await ask(late, decision, request)
    await gate.arrived.wait()
    state = (await ask(other, "check_transaction_state", request)).state
    assert state in {pb.TxnState.COMMITTING, pb.TxnState.ABORTING}
    assert (await ask(other, decision, request)).status == pb.TxnStatus.SUCCESS
    await let_go(late, other, gate)


@simulated
async def test_nothing_is_left_of_a_key_value_table_that_was_deleted_before_it_was_complete():
    world = World()
    gate = Gate(world.segments, "s/kv", "create_table")
    late, other = await two_owners(world, segments=gate)
    creating = asyncio.ensure_future(ask(late, "create_key_value_table", table_config("kv")))
    await gate.arrived.wait()
    request = pb.KeyValueTableInfo(scope="s", kvtName="kv")
    answer = await ask(other, "delete_key_value_table", request)
    assert answer.status == pb.DeleteKVTableStatus.SUCCESS
    await let_go(late, other, gate)
    await asyncio.gather(creating, return_exceptions=True)
    assert not [name for name in world.segments.tables if name.startswith("s/kv")]
