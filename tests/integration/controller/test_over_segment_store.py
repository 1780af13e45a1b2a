"""The controller over a real segment store: what the fakes promise, the store keeps."""

import asyncio
import re
from itertools import pairwise

import pytest

from headrace.controller.config import ControllerConfig
from headrace.controller.segments.remote.locator import OneStore
from headrace.controller.server import Controller
from headrace.controller.settings.retention import RetentionConfig
from headrace.controller.store.tables import TableStore
from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import NoSuchSegmentError, SegmentSealedError
from headrace.limits import INT64_MIN
from headrace.model.endpoint import Endpoint
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.context import system_runtime
from tests.remote_stores import calling, listening
from tests.unit.controller.calls import ask, eventually

INFO = pb.StreamInfo(scope="s", stream="t")


class World:
    """A segment store and one controller after the other."""

    def __init__(self, data_plane, runtime, segments):
        self.data_plane = data_plane
        self.segments = segments
        self.runtime = runtime
        self.tables = self.controller = None

    async def start(self, config=None):
        self.tables = TableStore(self.segments, self.runtime.entropy)
        self.controller = Controller(
            self.tables,
            self.segments,
            self.runtime.clock,
            self.runtime.entropy,
            config or ControllerConfig(),
            OneStore(Endpoint("127.0.0.1", 12345)),
            MemoryCoordinator(),
        )
        await self.controller.start()

    async def stop(self):
        await self.controller.stop()
        await self.tables.close()

    async def restart(self, config=None):
        await self.stop()
        await self.start(config)

    async def call(self, name, request):
        return await ask(self.controller, name, request)

    async def idle(self):
        async with asyncio.timeout(120):
            while not self.controller.is_idle():  # noqa: ASYNC110 - nobody is there to set an event
                await asyncio.sleep(0.005)

    async def make_stream(self, segments):
        await self.call("create_scope", pb.ScopeInfo(scope="s"))
        config = pb.StreamConfig(streamInfo=INFO, scalingPolicy=pb.ScalingPolicy(minNumSegments=segments))
        assert (await self.call("create_stream", config)).status == pb.CreateStreamStatus.SUCCESS

    async def append(self, segment_id, data, suffix=""):
        name = f"s/t/{segment_id & 0xFFFFFFFF}.#epoch.{segment_id >> 32}{suffix}"
        return await self.data_plane.store.append(name, data)

    async def begin(self, data):
        txn = await self.call("create_transaction", pb.CreateTxnRequest(streamInfo=INFO, lease=30_000))
        await self.fill(txn, data)
        return txn

    async def fill(self, txn, data):
        for each in txn.activeSegments:
            suffix = f"#transaction.{txn_id_from_message(txn.txnId):032x}"
            await self.append(each.segmentId.segmentId, data, suffix)

    async def decide(self, call, txn):
        request = pb.TxnRequest(streamInfo=INFO, txnId=txn.txnId, timestamp=INT64_MIN)
        return (await self.call(call, request)).status

    async def read(self, segment_id):
        name = f"s/t/{segment_id & 0xFFFFFFFF}.#epoch.{segment_id >> 32}"
        info = await self.data_plane.store.segment_info(name)
        data, offset = b"", info.start_offset
        while offset < info.length:
            piece = (await self.data_plane.store.read(name, offset, 1 << 20, wait=False)).to_bytes()
            data, offset = data + piece, offset + len(piece)
        return data

    async def read_everything(self):
        """Follow the stream from its head to its tail and return what was read, segment by segment."""
        head = await self.call("get_segments", pb.GetSegmentsRequest(streamInfo=INFO))
        todo = sorted(each.segmentId.segmentId for each in head.segments)
        seen, found = set(), []
        while todo:
            segment = todo.pop(0)
            if segment in seen:
                continue
            seen.add(segment)
            found.append(await self.read(segment))
            answer = await self.call(
                "get_segments_immediately_following", pb.SegmentId(streamInfo=INFO, segmentId=segment)
            )
            todo += sorted(each.segment.segmentId.segmentId for each in answer.segments)
        return found

    async def scale(self, sealed, bounds):
        entries = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in pairwise(bounds)]
        request = pb.ScaleRequest(streamInfo=INFO, sealedSegments=sealed, newKeyRanges=entries)
        answer = await self.call("scale", request)
        assert answer.status == pb.ScaleResponse.STARTED
        await self.idle()
        return [each.segmentId.segmentId for each in answer.segments]


@pytest.fixture(params=["in process", "over connections"])
async def world(request):
    async with (
        listening(containers=4) as (data_plane, endpoint),
        calling(OneStore(endpoint)) as remote,
    ):
        segments = data_plane.store if request.param == "in process" else remote
        made = World(data_plane, system_runtime(), segments)
        await made.start()
        yield made
        await made.stop()


async def test_a_stream_lives_through_everything_and_loses_nothing(world):
    await world.make_stream(2)
    await world.append(0, b"a")
    await world.append(1, b"b")
    early = await world.begin(b"<early>")
    new = await world.scale([0, 1], [0.0, 0.25, 0.5, 1.0])
    with pytest.raises(SegmentSealedError):
        await world.append(0, b"late")
    await world.append(new[0], b"c")
    assert await world.decide("commit_transaction", early) == pb.TxnStatus.SUCCESS
    await world.idle()
    after = await world.begin(b"<after>")
    assert await world.decide("commit_transaction", after) == pb.TxnStatus.SUCCESS
    gone = await world.begin(b"<gone>")
    assert await world.decide("abort_transaction", gone) == pb.TxnStatus.SUCCESS
    await world.idle()
    found = await world.read_everything()
    # Epoch 0; the segments after the scale; epoch 0 again, with the transaction; the others again.
    assert found == [b"a", b"b", b"c", b"", b"", b"<early>", b"<early>", b"<after>", b"<after>", b"<after>"]
    await world.restart()
    assert await world.read_everything() == found


async def test_truncation_and_deletion_reach_the_data(world):
    await world.make_stream(1)
    await world.append(0, b"0123456789")
    (one, two) = await world.scale([0], [0.0, 0.5, 1.0])
    await world.append(one, b"0123456789")
    cut = pb.StreamCut(streamInfo=INFO, cut={one: 4, two: 0})
    for _ in range(2):
        answer = await world.call("truncate_stream", cut)
        assert answer.status == pb.UpdateStreamStatus.SUCCESS
    assert await world.read(one) == b"456789"
    with pytest.raises(NoSuchSegmentError):
        await world.read(0)
    beyond = pb.StreamCut(streamInfo=INFO, cut={one: 11, two: 0})
    assert (await world.call("truncate_stream", beyond)).status == pb.UpdateStreamStatus.FAILURE
    await world.call("seal_stream", INFO)
    assert (await world.call("delete_stream", INFO)).status == pb.DeleteStreamStatus.SUCCESS
    with pytest.raises(NoSuchSegmentError):
        await world.read(one)
    await world.make_stream(1)
    ranges = await world.call("get_current_segments", INFO)
    assert ranges.segmentRanges[0].segmentId.segmentId == 3


async def test_what_a_controller_had_begun_the_next_one_finishes(world):
    await world.make_stream(2)
    txns = [await world.begin(b"<%d>" % number) for number in range(20)]
    for txn in txns:
        await world.decide("commit_transaction", txn)
    await world.restart()  # most of them are decided and not merged
    await world.idle()
    assert await world.read(0) == await world.read(1) == b"".join(b"<%d>" % number for number in range(20))


async def test_a_batch_of_transactions_becomes_visible_as_a_whole(world):
    await world.make_stream(1)
    txns = []
    for partition in range(5):
        tag = bb.TransactionTag(sink="sink", query="q", batch=0, partition=partition)
        request = bb.CreateTaggedTransactionRequest(streamInfo=INFO, leaseMs=30_000, tag=tag)
        txns.append((await world.call("create_tagged_transaction", request)).transaction)
        await world.fill(txns[-1], b"<%d>" % partition)
    request = bb.CommitTransactionBatchRequest(
        streamInfo=INFO,
        sink="sink",
        query="q",
        batch=0,
        txnIds=[txn.txnId for txn in txns],
        waitUntilVisible=True,
    )
    answers = [await world.call("commit_transaction_batch", request) for _ in range(3)]
    assert [answer.status for answer in answers] == [
        bb.CommitTransactionBatchResponse.COMMITTED,
        bb.CommitTransactionBatchResponse.ALREADY,
        bb.CommitTransactionBatchResponse.ALREADY,
    ]
    assert re.findall(rb"<\d>", await world.read(0)) == [b"<%d>" % number for number in range(5)]


async def test_a_key_value_table_is_made_and_removed_in_the_data_plane(world):
    await world.call("create_scope", pb.ScopeInfo(scope="s"))
    config = pb.KeyValueTableConfig(
        scope="s", kvtName="k", partitionCount=2, primaryKeyLength=8, secondaryKeyLength=4
    )
    created = await world.call("create_key_value_table", config)
    assert created.status == pb.CreateKeyValueTableStatus.SUCCESS
    info = await world.data_plane.store.table_info("s/k_kvtable/1.#epoch.0")
    assert info.key_length == 12
    await world.call("delete_key_value_table", pb.KeyValueTableInfo(scope="s", kvtName="k"))
    with pytest.raises(NoSuchSegmentError):
        await world.data_plane.store.table_info("s/k_kvtable/1.#epoch.0")


async def test_many_segments_are_asked_for_and_deleted_with_one_call(world):
    store = world.segments
    names = [f"s/many/{number}.#epoch.0" for number in range(200)]
    for name in names[:150]:
        await store.create_segment(name)
    await store.append(names[7], b"seven")
    found = await store.segment_infos(names)
    assert [facts is not None for facts in found] == [True] * 150 + [False] * 50
    assert found[7].length == 5
    await store.delete_segments(names)
    await store.delete_segments(names)
    assert await store.segment_infos(names) == [None] * 200


async def test_a_stream_with_size_retention_shrinks_and_its_readers_go_on(world):
    await world.restart(ControllerConfig(retention=RetentionConfig(period_s=0.05)))
    await world.call("create_scope", pb.ScopeInfo(scope="s"))
    policy = pb.RetentionPolicy(retentionType=pb.RetentionPolicy.SIZE, retentionParam=3000)
    config = pb.StreamConfig(
        streamInfo=INFO, scalingPolicy=pb.ScalingPolicy(minNumSegments=1), retentionPolicy=policy
    )
    assert (await world.call("create_stream", config)).status == pb.CreateStreamStatus.SUCCESS
    context = world.controller.context
    stream = await context.directory.get("s", "t")

    async def latest_cut():
        members = (await context.retention_sets.read(stream.uid)).members
        return await context.retention_sets.find_cut(stream.uid, members[-1]) if members else None

    async def head():
        return dict((await stream.refresh()).truncation or ())

    written, segments = [0], [0]
    for number in range(12):
        await world.append(segments[-1], bytes([number]) * 1000)
        written[-1] += 1000
        await eventually(becomes(latest_cut, {segments[-1]: written[-1]}), 60)
        if number % 4 == 3:
            segments += await world.scale([segments[-1]], [0.0, 1.0])
            written.append(0)
    await eventually(becomes(head, {segments[-2]: 1000}), 60)
    await world.idle()
    names = stream.segments(segments)
    found = await world.data_plane.store.segment_infos(names)
    assert [facts is not None for facts in found] == [False, False, True, True]
    assert found[2].start_offset == 1000
    # A reader at the head reads what is retained, one at the tail what comes.
    assert await world.read_everything() == [bytes([9]) * 1000 + bytes([10]) * 1000 + bytes([11]) * 1000, b""]
    await world.append(segments[-1], b"next")
    assert await world.read(segments[-1]) == b"next"


def becomes(ask, wanted):
    async def is_so():
        return await ask() == wanted

    return is_so
