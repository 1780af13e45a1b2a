"""Every workflow is killed after every durable effect and finished by the next controller.

And every single effect is refused once, or loses its reply, while the controller lives on.
"""

from dataclasses import replace

import pytest

from headrace.controller.workflows import intents
from headrace.limits import INT64_MIN
from headrace.model.policies import ScalingPolicy
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import truncation_pb2 as tr
from tests.unit.controller.api.test_reader_group_calls import ID
from tests.unit.controller.api.test_reader_group_calls import config as group_config
from tests.unit.controller.api.test_table_calls import config as table_config
from tests.unit.controller.calls import ask, info, shadow
from tests.unit.controller.conftest import World, stream_config
from tests.unit.controller.mortality import every_death, every_misfortune, idle, simulated

pytestmark = pytest.mark.slow

SCOPE = pb.ScopeInfo(scope="s")


async def call(controller, name, request):
    return await ask(controller, name, request)


async def make_stream(controller, segments=2, stream="t", **fields):
    await call(controller, "create_scope", SCOPE)
    await call(controller, "create_stream", stream_config(stream, segments, **fields))


async def begin(controller, world, data=b"", index=0):
    """Open a transaction and write to one of its segments."""
    txn = await call(controller, "create_transaction", pb.CreateTxnRequest(streamInfo=info(), lease=30_000))
    if data:
        world.segments.write(shadow(txn, index), data)
    return txn


def request_of(txn):
    return pb.TxnRequest(streamInfo=info(), txnId=txn.txnId, timestamp=INT64_MIN)


def scale_request(sealed, ranges):
    entries = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in ranges]
    return pb.ScaleRequest(streamInfo=info(), sealedSegments=sealed, newKeyRanges=entries)


async def nothing(*args):
    return None


def all_data(world, stream="t"):
    """What readers of the stream can see, in no particular order."""
    return b"".join(
        bytes(segment.data)
        for name, segment in sorted(world.segments.segments.items())
        if name.startswith(f"s/{stream}/") and "#transaction" not in name
    )


class Deaths:
    """Runs one scenario with a world that the steps can reach."""

    def __init__(self, in_tables):
        self.in_tables = in_tables
        self.world = None

    def new_world(self):
        self.world = World(in_tables=self.in_tables)
        return self.world

    async def run(self, prepare, act, settle=nothing, check=nothing):
        """Return how many fates were tried."""
        if self.in_tables:
            return await every_misfortune(self.new_world, prepare, act, check)
        return await every_death(self.new_world, prepare, act, settle, check)


@pytest.fixture(params=[False, True], ids=["death", "misfortune"])
def deaths(request):
    return Deaths(request.param)


@simulated
async def test_creation_of_a_scope(deaths):

    async def act(controller, _):
        await call(controller, "create_scope", SCOPE)

    async def check(world, controller, _):
        await make_stream(controller)

    assert await deaths.run(nothing, act, act, check) >= 3


@simulated
async def test_deletion_of_a_scope(deaths):

    async def prepare(controller):
        await call(controller, "create_scope", SCOPE)

    async def act(controller, _):
        await call(controller, "delete_scope", SCOPE)

    async def check(world, controller, _):
        assert not (await call(controller, "check_scope_exists", SCOPE)).exists
        await make_stream(controller)

    assert await deaths.run(prepare, act, act, check) >= 3


@simulated
async def test_creation_of_a_stream(deaths):

    async def prepare(controller):
        await call(controller, "create_scope", SCOPE)

    async def act(controller, _):
        await call(controller, "create_stream", stream_config(segments=3))

    async def check(world, controller, _):
        ranges = await call(controller, "get_current_segments", info())
        assert len(ranges.segmentRanges) == 3
        assert (await call(controller, "check_stream_exists", info("_MARKt"))).exists

    assert await deaths.run(prepare, act, act, check) >= 5


@simulated
async def test_deletion_of_a_stream(deaths):

    async def prepare(controller):
        await make_stream(controller, 1)
        await call(controller, "scale", scale_request([0], [(0.0, 0.5), (0.5, 1.0)]))
        await idle(controller)
        await call(controller, "seal_stream", info())

    async def act(controller, _):
        await call(controller, "delete_stream", info())

    async def check(world, controller, _):
        assert world.segments.of_users() == []
        await call(controller, "create_stream", stream_config())
        ((first),) = (await call(controller, "get_current_segments", info())).segmentRanges
        assert first.segmentId.segmentId == 3
        stream = await controller.context.directory.get("s", "t")
        assert stream.epochs().last_epoch == 0

    assert await deaths.run(prepare, act, act, check) >= 8


@simulated
async def test_scale(deaths):

    async def prepare(controller):
        await make_stream(controller, 2)

    async def act(controller, _):
        answer = await call(controller, "scale", scale_request([1], [(0.5, 0.7), (0.7, 1.0)]))
        assert answer.status == pb.ScaleResponse.STARTED
        assert [each.segmentId.segmentId for each in answer.segments] == [(1 << 32) + 2, (1 << 32) + 3]

    async def check(world, controller, _):
        assert len((await call(controller, "get_current_segments", info())).segmentRanges) == 3

    assert await deaths.run(prepare, act, act, check) >= 8


@simulated
async def test_truncation(deaths):
    cut = {(1 << 32) + 1: 3, (1 << 32) + 2: 2}

    async def prepare(controller):
        await make_stream(controller, 1)
        await call(controller, "scale", scale_request([0], [(0.0, 0.5), (0.5, 1.0)]))
        await idle(controller)
        for segment in ("s/t/1.#epoch.1", "s/t/2.#epoch.1"):
            deaths.world.segments.write(segment, b"0123456789")

    async def act(controller, _):
        answer = await call(controller, "truncate_stream", pb.StreamCut(streamInfo=info(), cut=cut))
        assert answer.status == pb.UpdateStreamStatus.SUCCESS

    async def check(world, controller, _):
        head = await call(controller, "get_segments", pb.GetSegmentsRequest(streamInfo=info()))
        assert {each.segmentId.segmentId: each.offset for each in head.segments} == cut
        assert world.segments.segments["s/t/1.#epoch.1"].start_offset == 3

    assert await deaths.run(prepare, act, act, check) >= 5


@simulated
async def test_truncation_of_a_sealed_stream(deaths):
    cut = {(1 << 32) + 1: 3, (1 << 32) + 2: 2}

    async def prepare(controller):
        await make_stream(controller, 1)
        await call(controller, "scale", scale_request([0], [(0.0, 0.5), (0.5, 1.0)]))
        await idle(controller)
        for segment in ("s/t/1.#epoch.1", "s/t/2.#epoch.1"):
            deaths.world.segments.write(segment, b"0123456789")
        assert (await call(controller, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS

    async def act(controller, _):
        await call(controller, "truncate_any_stream", tr.TruncateAnyStreamRequest(streamInfo=info(), cut=cut))

    async def check(world, controller, _):
        head = await call(controller, "get_segments", pb.GetSegmentsRequest(streamInfo=info()))
        assert {each.segmentId.segmentId: each.offset for each in head.segments} == cut
        assert world.segments.segments["s/t/1.#epoch.1"].start_offset == 3
        compatible = pb.StreamCut(streamInfo=info(), cut={**cut, (1 << 32) + 2: 5})
        answer = await call(controller, "truncate_stream", compatible)
        assert answer.status == pb.UpdateStreamStatus.STREAM_SEALED
        assert (await call(controller, "delete_stream", info())).status == pb.DeleteStreamStatus.SUCCESS

    assert await deaths.run(prepare, act, act, check) >= 3


@simulated
async def test_update_with_a_rescale(deaths):

    async def prepare(controller):
        await make_stream(controller, 2)

    async def act(controller, _):
        answer = await call(controller, "update_stream", stream_config(segments=3, tags=["x"]))
        assert answer.status == pb.UpdateStreamStatus.SUCCESS

    async def check(world, controller, _):
        assert len((await call(controller, "get_current_segments", info())).segmentRanges) == 3
        config = await call(controller, "get_stream_configuration", info())
        assert list(config.tags.tag) == ["x"]

    assert await deaths.run(prepare, act, act, check) >= 10


async def accept_all(deaths, controller, *more):
    """Have an update, a truncation and a seal wait in the stream's row, with nobody at work on them."""
    await make_stream(controller, 2)
    txn = await begin(controller, deaths.world, b"<x>")
    for segment in ("s/t/0.#epoch.0", "s/t/1.#epoch.0"):
        deaths.world.segments.write(segment, b"0123456789")
    stream = await controller.context.directory.get("s", "t")
    config = replace(stream.row.config, scaling=ScalingPolicy(segments_min=3), tags=frozenset({"x"}))
    for accept in (
        intents.accept_update(config, wait=True),
        intents.accept_truncate(((0, 3), (1, 2)), None, wait=True),
        intents.accept_seal(wait=True),
        *more,
    ):
        await stream.update(accept)
    return txn


@simulated
async def test_requests_that_wait_are_carried_out_without_anybody_asking_again(deaths):

    async def act(controller, _):
        controller.context.wake(await controller.context.directory.get("s", "t"))

    async def check(world, controller, txn):
        stream = await controller.context.directory.get("s", "t")
        assert stream.row.state.name == "SEALED"
        assert stream.row.config.tags == {"x"}
        assert len(stream.row.epoch.segments) == 3
        assert stream.row.truncation == ((0, 3), (1, 2))
        assert world.segments.segments["s/t/0.#epoch.0"].start_offset == 3
        state = await call(controller, "check_transaction_state", request_of(txn))
        assert state.state == pb.TxnState.ABORTED

    assert await deaths.run(lambda c: accept_all(deaths, c), act, nothing, check) >= 12


@simulated
async def test_a_deletion_that_waits_for_a_seal_that_waits(deaths):

    async def act(controller, _):
        controller.context.wake(await controller.context.directory.get("s", "t"))

    async def check(world, controller, txn):
        assert not (await call(controller, "check_stream_exists", info())).exists
        assert not [name for name in world.segments.segments if name.startswith("s/")]

    def prepare(controller):
        return accept_all(deaths, controller, intents.accept_delete)

    assert await deaths.run(prepare, act, nothing, check) >= 15


async def prepare_three(deaths, controller):
    await make_stream(controller, 2)
    return [await begin(controller, deaths.world, b"<%d>" % n, n % 2) for n in range(3)]


@simulated
async def test_commits(deaths):

    async def act(controller, txns):
        for txn in txns:
            answer = await call(controller, "commit_transaction", request_of(txn))
            assert answer.status == pb.TxnStatus.SUCCESS

    async def check(world, controller, txns):
        assert sorted(all_data(world).split(b">")[:-1]) == [b"<0", b"<1", b"<2"]
        for txn in txns:
            state = await call(controller, "check_transaction_state", request_of(txn))
            assert state.state == pb.TxnState.COMMITTED

    assert await deaths.run(lambda c: prepare_three(deaths, c), act, act, check) >= 8


@simulated
async def test_decisions_that_were_acknowledged_hold_without_anybody_asking_again(deaths):
    acknowledged = []

    async def prepare(controller):
        acknowledged.clear()
        return await prepare_three(deaths, controller)

    async def act(controller, txns):
        for txn in txns[:2]:
            await call(controller, "commit_transaction", request_of(txn))
            acknowledged.append(txn)
        await call(controller, "abort_transaction", request_of(txns[2]))
        acknowledged.append(txns[2])

    async def check(world, controller, txns):
        for txn in acknowledged:
            state = (await call(controller, "check_transaction_state", request_of(txn))).state
            assert state == (pb.TxnState.ABORTED if txn is txns[2] else pb.TxnState.COMMITTED)
        data = all_data(world)
        for number, txn in enumerate(txns):
            state = (await call(controller, "check_transaction_state", request_of(txn))).state
            assert data.count(b"<%d>" % number) == (state == pb.TxnState.COMMITTED)

    assert await deaths.run(prepare, act, nothing, check) >= 8


@simulated
async def test_commits_that_roll_the_stream(deaths):

    async def prepare(controller):
        txns = await prepare_three(deaths, controller)
        await call(controller, "scale", scale_request([0, 1], [(0.0, 0.3), (0.3, 0.6), (0.6, 1.0)]))
        await idle(controller)
        deaths.world.segments.write("s/t/2.#epoch.1", b"<x>")
        return txns

    async def act(controller, txns):
        for txn in txns:
            await call(controller, "commit_transaction", request_of(txn))

    async def check(world, controller, txns):
        assert sorted(all_data(world).split(b">")[:-1]) == [b"<0", b"<1", b"<2", b"<x"]
        stream = await controller.context.directory.get("s", "t")
        assert stream.row.epoch.reference == 1
        assert len(stream.row.epoch.segments) == 3

    assert await deaths.run(prepare, act, act, check) >= 18


@simulated
async def test_aborts(deaths):

    async def act(controller, txns):
        for txn in txns:
            answer = await call(controller, "abort_transaction", request_of(txn))
            assert answer.status == pb.TxnStatus.SUCCESS

    async def check(world, controller, txns):
        assert all_data(world) == b""
        for txn in txns:
            state = await call(controller, "check_transaction_state", request_of(txn))
            assert state.state == pb.TxnState.ABORTED

    assert await deaths.run(lambda c: prepare_three(deaths, c), act, act, check) >= 10


@simulated
async def test_sealing_with_transactions_in_every_state(deaths):

    async def prepare(controller):
        await make_stream(controller, 2)
        return [await begin(controller, deaths.world, b"<%d>" % n, n % 2) for n in range(4)]

    async def act(controller, txns):
        await call(controller, "commit_transaction", request_of(txns[0]))
        await call(controller, "abort_transaction", request_of(txns[1]))
        assert (await call(controller, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS

    async def settle(controller, txns):
        assert (await call(controller, "seal_stream", info())).status == pb.UpdateStreamStatus.SUCCESS

    async def check(world, controller, txns):
        data = all_data(world)
        for number, txn in enumerate(txns):
            state = (await call(controller, "check_transaction_state", request_of(txn))).state
            assert state in {pb.TxnState.COMMITTED, pb.TxnState.ABORTED}
            assert data.count(b"<%d>" % number) == (state == pb.TxnState.COMMITTED)
            assert number == 0 or state == pb.TxnState.ABORTED

    assert await deaths.run(prepare, act, settle, check) >= 15


@simulated
async def test_a_batch_commit(deaths):

    def batch_request(txns):
        return bb.CommitTransactionBatchRequest(
            streamInfo=info(), sink="sink", query="q", batch=0, txnIds=[txn.txnId for txn in txns]
        )

    async def act(controller, txns):
        answer = await call(controller, "commit_transaction_batch", batch_request(txns))
        assert answer.status in {answer.COMMITTED, answer.ALREADY}

    async def check(world, controller, txns):
        assert sorted(all_data(world).split(b">")[:-1]) == [b"<0", b"<1", b"<2"]

    assert await deaths.run(lambda c: prepare_three(deaths, c), act, act, check) >= 8


@simulated
async def test_a_batch_is_all_or_nothing_without_anybody_asking_again(deaths):

    async def act(controller, txns):
        request = bb.CommitTransactionBatchRequest(
            streamInfo=info(), sink="sink", query="q", batch=0, txnIds=[txn.txnId for txn in txns]
        )
        await call(controller, "commit_transaction_batch", request)

    async def check(world, controller, txns):
        mark = await call(
            controller, "get_sink_watermark", bb.GetSinkWatermarkRequest(streamInfo=info(), sink="sink")
        )
        assert len(all_data(world)) == (9 if mark.HasField("watermark") else 0)

    assert await deaths.run(lambda c: prepare_three(deaths, c), act, nothing, check) >= 8


@simulated
async def test_a_reader_group_from_its_creation_to_its_end(deaths):

    async def prepare(controller):
        await make_stream(controller, 1)
        await call(controller, "create_stream", stream_config("u"))

    async def create(controller, _):
        answer = await call(controller, "create_reader_group", group_config(retention=1))
        assert answer.status == pb.CreateReaderGroupResponse.SUCCESS

    async def created(world, controller, _):
        answer = await call(controller, "list_subscribers", info())
        assert list(answer.subscribers) == ["s/g"]

    assert await deaths.run(prepare, create, create, created) >= 4

    async def prepare_group(controller):
        await prepare(controller)
        await create(controller, None)

    async def update(controller, _):
        await call(controller, "update_reader_group", group_config(streams=("u",), retention=2))

    async def updated(world, controller, _):
        config = (
            await call(controller, "get_reader_group_config", pb.ReaderGroupInfo(scope="s", readerGroup="g"))
        ).config
        assert config.generation == 1
        assert list((await call(controller, "list_subscribers", info())).subscribers) == []
        assert list((await call(controller, "list_subscribers", info("u"))).subscribers) == ["s/g"]

    assert await deaths.run(prepare_group, update, update, updated) >= 4

    async def delete(controller, _):
        request = pb.ReaderGroupInfo(scope="s", readerGroup="g", readerGroupId=ID)
        await call(controller, "delete_reader_group", request)

    async def deleted(world, controller, _):
        assert list((await call(controller, "list_subscribers", info())).subscribers) == []
        assert not (await call(controller, "check_stream_exists", info("_RGg"))).exists

    assert await deaths.run(prepare_group, delete, delete, deleted) >= 8


@simulated
async def test_a_key_value_table_from_its_creation_to_its_end(deaths):
    table = pb.KeyValueTableInfo(scope="s", kvtName="k")

    async def prepare(controller):
        await call(controller, "create_scope", SCOPE)

    async def create(controller, _):
        await call(controller, "create_key_value_table", table_config(partitions=3))

    async def created(world, controller, _):
        answer = await call(controller, "get_current_segments_key_value_table", table)
        assert len(answer.segmentRanges) == 3

    assert await deaths.run(prepare, create, create, created) >= 5

    async def prepare_table(controller):
        await prepare(controller)
        await create(controller, None)

    async def delete(controller, _):
        await call(controller, "delete_key_value_table", table)

    async def deleted(world, controller, _):
        assert not [name for name in world.segments.tables if name.startswith("s/")]
        assert (await call(controller, "delete_scope", SCOPE)).status == pb.DeleteScopeStatus.SUCCESS

    assert await deaths.run(prepare_table, delete, delete, deleted) >= 5


@simulated
async def test_recursive_deletion_goes_on_without_anybody_asking_again(deaths):
    begun = []

    async def prepare(controller):
        begun.clear()
        await make_stream(controller, 1)
        await call(controller, "create_stream", stream_config("u"))
        await call(controller, "create_reader_group", group_config(retention=1))
        await call(controller, "create_key_value_table", table_config())
        await begin(controller, deaths.world, b"x")

    async def act(controller, _):
        await call(controller, "delete_scope_recursive", SCOPE)

    async def check(world, controller, _):
        exists = (await call(controller, "check_scope_exists", SCOPE)).exists
        if exists:  # it died before anything was written
            assert (await call(controller, "check_stream_exists", info())).exists
        else:
            assert world.segments.of_users() == []

    assert await deaths.run(prepare, act, nothing, check) >= 30
