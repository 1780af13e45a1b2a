import asyncio

import grpc
import pytest

from headrace.controller.services import housekeeping
from headrace.controller.store.layout import DAY_MS, finished_table, txns_table
from headrace.controller.store.rows.stream_row import decode_stream
from headrace.errors import ContainerOfflineError, NoSuchTableError, UnknownOutcomeError
from headrace.limits import INT64_MIN
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.memory_metadata_store import MemoryStore
from tests.unit.controller.calls import (
    State,
    abort,
    begin,
    commit,
    content,
    eventually,
    info,
    ping,
    refused,
    settled,
    shadow,
    state,
    write,
)
from tests.unit.controller.conftest import serve

Status, Ping = pb.TxnStatus, pb.PingTxnStatus


async def test_a_transaction_has_a_segment_for_each_of_the_stream(service):
    await service.create_stream(segments=3)
    txn = await begin(service)
    assert [(each.segmentId.segmentId, each.minKey, each.maxKey) for each in txn.activeSegments] == (
        await service.current()
    )
    assert all(shadow(txn, index) in service.world.segments.segments for index in range(3))
    assert await state(service, txn) == State.OPEN


async def test_ids_are_unique_with_the_epoch_on_top_and_a_low_half_that_is_not_negative(service):
    await service.create_stream()
    txns = await asyncio.gather(*(begin(service) for _ in range(50)))
    assert len({txn_id_from_message(txn.txnId) for txn in txns}) == 50
    for txn in txns:
        assert txn.txnId.highBits >> 32 == 0
        assert txn.txnId.lowBits >= 0


async def test_committed_data_appears_in_the_order_of_commits(service):
    await service.create_stream(segments=2)
    first, second, third = [await begin(service) for _ in range(3)]
    for txn, data in ((first, b"1"), (second, b"2"), (third, b"3")):
        write(service, txn, data, 0)
        write(service, txn, data * 2, 1)
    for txn in (third, first, second):
        assert await commit(service, txn) == Status.SUCCESS
    for txn in (first, second, third):
        assert await settled(service, txn) == State.COMMITTED
    assert (content(service, 0), content(service, 1)) == (b"312", b"331122")
    assert not [name for name in service.world.segments.segments if "#transaction" in name]


async def test_a_commit_that_may_wait_is_answered_when_the_transaction_is_visible(service):
    await service.create_stream()
    txn = await begin(service)
    write(service, txn, b"seen")
    request = pb.TxnRequest(streamInfo=info(), txnId=txn.txnId, timestamp=INT64_MIN, waitMs=10_000)
    assert (await service.stub.commitTransaction(request)).state == State.COMMITTED
    assert content(service, 0) == b"seen"
    assert (await service.stub.commitTransaction(request)).state == State.COMMITTED


async def test_one_question_after_a_decision_waits_for_its_outcome(service):
    await service.create_stream()
    one, other = await begin(service), await begin(service)
    await commit(service, one)
    await abort(service, other)
    assert [await state(service, each) for each in (one, other)] == [State.COMMITTED, State.ABORTED]


async def test_an_answer_does_not_wait_longer_than_it_may(service, monkeypatch):
    await service.create_stream()
    txn, may_merge = await begin(service), asyncio.Event()
    segments = service.world.segments
    merge = segments.merge_batch

    async def merge_later(target, sources):
        await may_merge.wait()
        return await merge(target, sources)

    monkeypatch.setattr(segments, "merge_batch", merge_later)
    request = pb.TxnRequest(streamInfo=info(), txnId=txn.txnId, timestamp=INT64_MIN, waitMs=1)
    assert (await service.stub.commitTransaction(request)).state == State.COMMITTING
    assert await state(service, txn) == State.COMMITTING
    may_merge.set()
    assert await settled(service, txn) == State.COMMITTED


async def test_what_is_visible_is_answered_before_it_is_recorded(service, monkeypatch):
    await service.create_stream()
    txn, after, may_record = await begin(service), await begin(service), asyncio.Event()
    write(service, txn, b"seen")
    write(service, after, b", too")
    store = service.world.store
    update = store.update

    async def record_later(table, writes):
        if table.startswith("finished-"):
            await may_record.wait()
        return await update(table, writes)

    monkeypatch.setattr(store, "update", record_later)
    request = pb.TxnRequest(streamInfo=info(), txnId=txn.txnId, timestamp=INT64_MIN, waitMs=600_000)
    assert (await service.stub.commitTransaction(request)).state == State.COMMITTED
    assert (content(service, 0), await state(service, txn)) == (b"seen", State.COMMITTED)
    assert await abort(service, txn) == Status.FAILURE
    assert await ping(service, txn) == Ping.COMMITTED
    assert await commit(service, after) == Status.SUCCESS
    may_record.set()
    assert await settled(service, after) == State.COMMITTED
    assert content(service, 0) == b"seen, too"


async def test_what_is_wanted_while_a_batch_is_cleared_away_has_its_turn_before_the_next_batch(
    service, monkeypatch
):
    await service.create_stream()
    one, other = await begin(service), await begin(service)
    stream = await service.controller.context.directory.get("s", "t")
    may_merge, removing, may_remove, batches = asyncio.Event(), asyncio.Event(), asyncio.Event(), []
    store, segments = service.world.store, service.world.segments
    update, merge = store.update, segments.merge_batch

    async def merge_later(target, sources):
        await may_merge.wait()
        return await merge(target, sources)

    async def update_watched(table, writes):
        if table == txns_table(stream.uid) and writes[0].value is None:
            removing.set()
            await may_remove.wait()
        versions = await update(table, writes)
        if (table, writes[0].key) == (stream.table, stream.key):
            commit = decode_stream(writes[0].value).commit
            batches.append(None if commit is None else commit.txn_ids)
        return versions

    monkeypatch.setattr(segments, "merge_batch", merge_later)
    monkeypatch.setattr(store, "update", update_watched)
    assert await commit(service, one) == Status.SUCCESS
    assert await commit(service, other) == Status.SUCCESS
    may_merge.set()
    await removing.wait()
    sealing = asyncio.ensure_future(service.stub.sealStream(info()))

    async def is_wanted():
        return (await service.controller.context.directory.get("s", "t")).row.wants.seal

    await eventually(is_wanted)
    may_remove.set()
    await sealing
    assert await settled(service, other) == State.COMMITTED
    first, then = [(txn_id_from_message(each.txnId),) for each in (one, other)]
    assert None in batches[batches.index(first) : batches.index(then)]


async def test_commit_and_abort_are_repeatable_and_exclude_each_other(service):
    await service.create_stream()
    one, other = await begin(service), await begin(service)
    for _ in range(3):
        assert await commit(service, one) == Status.SUCCESS
        assert await abort(service, other) == Status.SUCCESS
    assert (await settled(service, one), await settled(service, other)) == (State.COMMITTED, State.ABORTED)
    assert await commit(service, one) == Status.SUCCESS
    assert await abort(service, one) == Status.FAILURE
    assert await abort(service, other) == Status.SUCCESS
    assert await commit(service, other) == Status.TRANSACTION_NOT_FOUND


async def test_an_aborted_transaction_leaves_nothing(service):
    await service.create_stream(segments=2)
    txn = await begin(service)
    write(service, txn, b"gone")
    await abort(service, txn)
    assert await settled(service, txn) == State.ABORTED
    assert content(service, 0) == b""
    assert not [name for name in service.world.segments.segments if "#transaction" in name]


async def test_what_is_unknown_is_not_found(service):
    await service.create_stream()
    txn = pb.CreateTxnResponse(txnId=pb.TxnId(highBits=0, lowBits=10**15))
    assert await commit(service, txn) == Status.TRANSACTION_NOT_FOUND
    assert await abort(service, txn) == Status.TRANSACTION_NOT_FOUND
    assert await state(service, txn) == State.UNKNOWN
    assert await ping(service, txn) == Ping.UNKNOWN
    assert await commit(service, txn, "nowhere") == Status.STREAM_NOT_FOUND
    assert await state(service, txn, "nowhere") == State.UNKNOWN
    async with refused(grpc.StatusCode.NOT_FOUND):
        await begin(service, "nowhere")


@pytest.mark.parametrize("lease", [-1, 0, 9_999, 600_001])
async def test_leases_out_of_bounds_are_refused_for_good(service, lease):
    await service.create_stream()
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await begin(service, lease=lease)


async def test_pings_answer_what_became_of_the_transaction(service):
    await service.create_stream()
    txn = await begin(service)
    assert await ping(service, txn) == Ping.OK
    assert await ping(service, txn, 600_001) == Ping.LEASE_TOO_LARGE
    service.world.clock.now += 86_400_000
    assert await ping(service, txn) == Ping.MAX_EXECUTION_TIME_EXCEEDED
    await commit(service, txn)
    assert await ping(service, txn) == Ping.COMMITTED
    await settled(service, txn)
    assert await ping(service, txn) == Ping.COMMITTED
    other = await begin(service)
    await abort(service, other)
    assert await ping(service, other) == Ping.ABORTED
    await settled(service, other)
    assert await ping(service, other) == Ping.ABORTED


@pytest.mark.slow
async def test_an_expired_transaction_is_aborted_after_its_grace_and_a_pinged_one_is_not(world):
    async with serve(world, lease_ms_min=1, lease_grace_ms_min=0) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        kept, lost = await begin(service, lease=600), await begin(service, lease=300)

        async def expired():
            assert await ping(service, kept, 5_000) == Ping.OK
            return await state(service, lost) == State.ABORTED

        await eventually(expired)
        assert await state(service, kept) == State.OPEN
        assert await commit(service, lost) == Status.TRANSACTION_NOT_FOUND


class LosesReplies(MemoryStore):
    """Once told to, it loses the reply of the next update, and then answers nothing at all for a while."""

    loses_next = False
    silent = False

    async def get(self, table, key):
        if self.silent:
            raise ContainerOfflineError(table)
        return await super().get(table, key)

    async def update(self, table, writes):
        versions = await super().update(table, writes)
        if self.loses_next:
            self.loses_next, self.silent = False, True
            raise UnknownOutcomeError(table)
        return versions


async def batch_commit(service, txn):
    request = bb.CommitTransactionBatchRequest(
        streamInfo=info(), sink="sink", query="q", batch=0, txnIds=[txn.txnId]
    )
    await service.batch.commitTransactionBatch(request)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decide", "end"),
    [
        (lambda service, txn: ping(service, txn, 100), State.ABORTED),
        (abort, State.ABORTED),
        (batch_commit, State.ABORTED),
        (commit, State.COMMITTED),
    ],
)
async def test_a_transaction_whose_row_was_written_unnoticed_ends_though_nobody_asks_again(
    world, decide, end
):
    world.store = LosesReplies()
    async with serve(world, lease_ms_min=1, lease_grace_ms_min=0, prepared_ms_max=50) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        txn = await begin(service, lease=100)
        world.store.loses_next = True
        with pytest.raises(grpc.aio.AioRpcError):
            await decide(service, txn)
        assert world.store.silent
        world.store.silent = False

        async def ended():
            return await state(service, txn) == end

        await eventually(ended)
        assert not [name for name in world.segments.segments if "#transaction" in name]


async def test_a_sealed_stream_begins_no_transaction(service):
    await service.create_stream()
    await service.stub.sealStream(info())
    async with refused(grpc.StatusCode.PERMISSION_DENIED):
        await begin(service)
    assert not [name for name in service.world.segments.segments if "#transaction" in name]


async def test_sealing_aborts_what_is_open_and_finishes_what_is_decided(service):
    await service.create_stream(segments=2)
    txns = [await begin(service) for _ in range(6)]
    for number, txn in enumerate(txns):
        write(service, txn, b"%d" % number)
    for txn in txns[:3]:
        await commit(service, txn)
    assert (await service.stub.sealStream(info())).status == pb.UpdateStreamStatus.SUCCESS
    assert [await state(service, txn) for txn in txns] == [State.COMMITTED] * 3 + [State.ABORTED] * 3
    assert content(service, 0) == b"012"
    assert not [name for name in service.world.segments.segments if "#transaction" in name]


async def test_finished_transactions_are_listed_and_remembered_for_a_day(service):
    await service.create_stream()
    txns = [await begin(service) for _ in range(4)]
    for txn in txns[:2]:
        await commit(service, txn)
    for txn in txns[2:]:
        await abort(service, txn)
    for txn in txns:
        await settled(service, txn)
    request = pb.ListCompletedTxnRequest(streamInfo=info())
    listed = (await service.stub.listCompletedTransactions(request)).response
    assert {(txn_id_from_message(each.txnId), each.status) for each in listed} == {
        (txn_id_from_message(txn.txnId), pb.TxnResponse.COMMITTED if n < 2 else pb.TxnResponse.ABORTED)
        for n, txn in enumerate(txns)
    }
    service.world.clock.now += 86_400_000
    assert await state(service, txns[0]) == State.COMMITTED
    service.world.clock.now += 2 * 86_400_000
    assert await state(service, txns[0]) == State.UNKNOWN


async def test_a_resumed_transaction_is_told_its_segments_under_the_same_ids(service):
    await service.create_stream(segments=2)
    txn = await begin(service)
    request = pb.GetEpochSegmentsRequest(streamInfo=info(), epoch=txn.txnId.highBits >> 32)
    resumed = await service.stub.getEpochSegments(request)
    assert list(resumed.segmentRanges) == list(txn.activeSegments)


@pytest.mark.slow
async def test_a_hundred_transactions_at_once_all_commit_exactly_once(service):
    await service.create_stream(segments=2)

    async def run(number):
        txn = await begin(service)
        write(service, txn, b"<%03d>" % number, number % 2)
        assert await commit(service, txn) == Status.SUCCESS
        assert await settled(service, txn) == State.COMMITTED

    await asyncio.gather(*(run(number) for number in range(100)))
    data = content(service, 0) + content(service, 1)
    assert sorted(data.split(b">")[:-1]) == [b"<%03d" % number for number in range(100)]
    assert service.controller.transactions.statistics()["OPEN"] == 0


async def test_an_idle_controller_forgets_old_outcomes(world, monkeypatch):
    monkeypatch.setattr(housekeeping, "INTERVAL_S", 0.01)
    async with serve(world) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        txn = await begin(service)
        await commit(service, txn)
        await settled(service, txn)
        table = finished_table(world.clock.now_ms() // DAY_MS)
        world.clock.now += 30 * DAY_MS

        async def gone():
            try:
                await world.store.get(table, b"key")
            except NoSuchTableError:
                return True
            return False

        await eventually(gone)
