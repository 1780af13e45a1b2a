import asyncio

import grpc
import pytest

from headrace.controller.store.contract import ABSENT, Write
from headrace.controller.store.layout import details_table, sink_names_key
from headrace.controller.store.rows.sink_row import SinkNamesRow, SinkPhase, encode_sink_names
from headrace.controller.store.rows.txn_row import TxnState
from headrace.controller.transactions import sinks
from headrace.controller.workflows.batch_commit import Batch
from headrace.errors import ThrottledError
from headrace.limits import TABLE_VALUE_BYTES_MAX
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import (
    State,
    abort,
    commit,
    content,
    eventually,
    info,
    ping,
    refused,
    scaled,
    settled,
    state,
    write,
)
from tests.unit.controller.conftest import serve

Created, Committed = bb.CreateTaggedTransactionResponse, bb.CommitTransactionBatchResponse
LEASE = 30_000


async def begin(service, batch=0, query="q", sink="sink", partition=0, lease=LEASE):
    tag = bb.TransactionTag(sink=sink, query=query, batch=batch, partition=partition, attempt=1)
    request = bb.CreateTaggedTransactionRequest(streamInfo=info(), leaseMs=lease, tag=tag)
    return await service.batch.createTaggedTransaction(request)


async def open_batch(service, count=2, **tag):
    """Open ``count`` transactions of a batch, each with an event."""
    txns = []
    for partition in range(count):
        answer = await begin(service, partition=partition, **tag)
        assert answer.status == Created.CREATED
        write(service, answer.transaction, b"<%d>" % partition)
        txns.append(answer.transaction)
    return txns


async def commit_batch(service, txns, batch=0, query="q", sink="sink", takeover=False, wait=True):
    return await service.batch.commitTransactionBatch(
        bb.CommitTransactionBatchRequest(
            streamInfo=info(),
            sink=sink,
            query=query,
            batch=batch,
            txnIds=[txn.txnId for txn in txns],
            takeover=takeover,
            waitUntilVisible=wait,
        )
    )


async def watermark(service, sink="sink"):
    request = bb.GetSinkWatermarkRequest(streamInfo=info(), sink=sink)
    answer = await service.batch.getSinkWatermark(request)
    return answer.watermark if answer.HasField("watermark") else None


@pytest.fixture
async def stream(service):
    await service.create_stream()
    return service


async def test_a_batch_becomes_visible_as_a_whole_in_the_order_given(stream):
    txns = await open_batch(stream, 3)
    answer = await commit_batch(stream, [txns[2], txns[0], txns[1]])
    assert answer.status == Committed.COMMITTED
    assert content(stream, 0) == b"<2><0><1>"
    mark = await watermark(stream)
    assert (mark.query, mark.batch, mark.phase, list(mark.txnIds)) == ("q", 0, bb.SinkWatermark.DONE, [])


async def test_a_repeated_batch_is_in_already_and_its_new_transactions_are_aborted(stream):
    txns = await open_batch(stream)
    await commit_batch(stream, txns)
    assert (await commit_batch(stream, txns)).status == Committed.ALREADY
    assert (await begin(stream)).status == Created.ALREADY
    (late,) = (await stream.stub.createTransaction(pb.CreateTxnRequest(streamInfo=info(), lease=LEASE)),)
    assert (await commit_batch(stream, [late])).status == Committed.ALREADY
    assert await settled(stream, late) == State.ABORTED
    assert content(stream, 0) == b"<0><1>"
    assert (await commit_batch(stream, [], batch=-1)).status == Committed.ALREADY


async def test_a_batch_of_nothing_moves_the_watermark(stream):
    assert await watermark(stream) is None
    assert (await commit_batch(stream, [], batch=5)).status == Committed.COMMITTED
    assert (await watermark(stream)).batch == 5
    assert (await begin(stream, batch=5)).status == Created.ALREADY
    assert (await begin(stream, batch=6)).status == Created.CREATED


async def test_a_sink_of_another_query_is_foreign_until_it_is_taken_over(stream):
    await commit_batch(stream, await open_batch(stream, batch=7), batch=7)
    txns = await open_batch(stream, query="other", batch=0)
    answer = await commit_batch(stream, txns, query="other")
    assert (answer.status, answer.watermark.query) == (Committed.FOREIGN, "q")
    assert [await state(stream, txn) for txn in txns] == [State.OPEN, State.OPEN]
    answer = await commit_batch(stream, txns, query="other", takeover=True)
    assert answer.status == Committed.COMMITTED
    assert (await watermark(stream)).query == "other"
    assert content(stream, 0) == b"<0><1><0><1>"


async def test_a_batch_with_a_transaction_that_is_gone_is_not_decided(stream):
    txns = await open_batch(stream)
    await abort(stream, txns[1])
    answer = await commit_batch(stream, txns)
    assert answer.status == Committed.MISSING
    assert answer.missing == txns[1].txnId
    assert await watermark(stream) is None
    assert content(stream, 0) == b""
    # The next attempt at the batch leaves nothing of this one.
    again = await open_batch(stream)
    assert (await commit_batch(stream, again)).status == Committed.COMMITTED
    assert await settled(stream, txns[0]) == State.ABORTED
    assert content(stream, 0) == b"<0><1>"


async def test_leftovers_of_a_batch_are_aborted_with_its_decision_and_others_are_not(stream):
    (leftover,) = await open_batch(stream, 1)
    (next_batch,) = await open_batch(stream, 1, batch=1)
    (elsewhere,) = await open_batch(stream, 1, sink="elsewhere")
    await commit_batch(stream, await open_batch(stream))
    assert await settled(stream, leftover) == State.ABORTED
    assert await state(stream, next_batch) == State.OPEN
    assert await state(stream, elsewhere) == State.OPEN


async def test_aborting_a_batch_undoes_no_decision(stream):
    async def abort_batch(batch):
        request = bb.AbortTransactionBatchRequest(streamInfo=info(), sink="sink", query="q", batch=batch)
        return (await stream.batch.abortTransactionBatch(request)).abortedCount

    txns = await open_batch(stream)
    assert await abort_batch(1) == 0
    assert await abort_batch(0) == 2
    assert (await commit_batch(stream, txns)).status == Committed.MISSING
    txns = await open_batch(stream)
    await commit_batch(stream, txns)
    assert await abort_batch(0) == 0
    assert [await state(stream, txn) for txn in txns] == [State.COMMITTED] * 2


async def pin(service, txns, batch=0):
    """Do the first half of a commit, as a controller that dies before the decision does."""
    batches = service.controller.transactions.batches
    found = await service.controller.context.directory.get("s", "t")
    ids = [txn_id_from_message(txn.txnId) for txn in txns]
    assert await batches._pin(found, Batch("sink", "q", batch), ids, []) is None
    return found


async def test_a_pinned_transaction_counts_as_open_and_is_committed_with_its_batch_only(stream):
    txns = await open_batch(stream)
    await pin(stream, txns)
    assert await state(stream, txns[0]) == State.OPEN
    assert await ping(stream, txns[0]) == pb.PingTxnStatus.OK
    assert await commit(stream, txns[0]) == pb.TxnStatus.FAILURE
    assert (await commit_batch(stream, txns)).status == Committed.COMMITTED


async def test_a_pinned_transaction_that_nobody_decided_can_be_aborted(stream):
    txns = await open_batch(stream)
    await pin(stream, txns)
    assert await abort(stream, txns[0]) == pb.TxnStatus.SUCCESS
    assert await settled(stream, txns[0]) == State.ABORTED
    assert (await commit_batch(stream, txns)).status == Committed.MISSING


@pytest.mark.slow
async def test_a_pinned_transaction_does_not_expire_within_its_lease(world):
    async with serve(world, lease_ms_min=1, lease_grace_ms_min=0, prepared_ms_max=60_000) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        txns = await open_batch(service, lease=300)
        (other,) = await open_batch(service, 1, lease=300, sink="other")
        await pin(service, txns)
        assert await expired(service, other)
        assert (await commit_batch(service, txns)).status == Committed.COMMITTED


@pytest.mark.slow
async def test_pinned_transactions_of_a_batch_that_cannot_be_decided_expire(world):
    async with serve(world, prepared_ms_max=50) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        txns = await open_batch(service)
        (lost,) = await open_batch(service, 1)
        assert await abort(service, lost) == pb.TxnStatus.SUCCESS
        assert await settled(service, lost) == State.ABORTED
        assert (await commit_batch(service, [*txns, lost])).status == Committed.MISSING
        for txn in txns:
            assert await expired(service, txn)
        assert not [name for name in world.segments.segments if "#transaction" in name]


async def expired(service, txn):
    async def gone():
        return await state(service, txn) == State.ABORTED

    return await eventually(gone)


async def test_sealing_aborts_what_is_pinned_and_refuses_the_batch(stream):
    txns = await open_batch(stream)
    await pin(stream, txns)
    assert (await stream.stub.sealStream(info())).status == pb.UpdateStreamStatus.SUCCESS
    assert [await state(stream, txn) for txn in txns] == [State.ABORTED] * 2
    async with refused(grpc.StatusCode.PERMISSION_DENIED):
        await commit_batch(stream, txns)


async def test_an_abort_that_is_overtaken_by_a_new_pin_leaves_the_decided_batch_whole(stream):
    """The abort has fenced and is about to write when the batch is pinned again and decided."""
    txns = await open_batch(stream)
    found = await pin(stream, txns)
    registry = stream.controller.context.registry
    txn = await registry.find(found.uid, txn_id_from_message(txns[0].txnId))
    reached, go_on = asyncio.Event(), asyncio.Event()
    write_row = registry.write

    async def held_back(which, row, expected=None):
        if row.state is TxnState.ABORTING:
            reached.set()
            await go_on.wait()
        return await write_row(which, row, expected)

    registry.write = held_back
    aborting = asyncio.ensure_future(stream.controller.transactions.abort_open(found, txn))
    await reached.wait()
    assert (await commit_batch(stream, txns)).status == Committed.COMMITTED
    go_on.set()
    assert not await aborting
    assert [await settled(stream, txn) for txn in txns] == [State.COMMITTED] * 2
    assert content(stream, 0) == b"<0><1>"


async def test_a_decision_that_is_overtaken_by_a_fence_begins_again(stream):
    """The batch is pinned and about to be decided when one of its transactions is aborted."""
    txns = await open_batch(stream)
    rows = stream.controller.context.sinks
    reached, go_on = asyncio.Event(), asyncio.Event()
    write_sinks = rows.write

    async def held_back(uid, view, row):
        if row.mark is not None and row.mark.phase is SinkPhase.DECIDED and not reached.is_set():
            reached.set()
            await go_on.wait()
        return await write_sinks(uid, view, row)

    rows.write = held_back
    committing = asyncio.ensure_future(commit_batch(stream, txns))
    await reached.wait()
    assert await abort(stream, txns[0]) == pb.TxnStatus.SUCCESS
    go_on.set()
    answer = await committing
    assert (answer.status, answer.missing) == (Committed.MISSING, txns[0].txnId)
    assert content(stream, 0) == b""


async def test_a_batch_over_a_scale_rolls_the_stream_and_is_whole(stream):
    txns = await open_batch(stream)
    await scaled(stream, [0], [(0.0, 0.5), (0.5, 1.0)])
    assert (await commit_batch(stream, txns)).status == Committed.COMMITTED
    assert content(stream, 2 << 32) == b"<0><1>"


@pytest.mark.parametrize("names", [{"sink": ""}, {"query": ""}, {"sink": "x" * 256}])
async def test_names_out_of_bounds_are_refused_for_good(stream, names):
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await commit_batch(stream, [], **names)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await begin(stream, **names)


async def test_a_transaction_listed_twice_is_refused(stream):
    txns = await open_batch(stream, 1)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await commit_batch(stream, txns * 2)


async def test_the_sinks_of_a_stream_are_bounded_and_old_ones_are_forgotten(stream, monkeypatch):
    monkeypatch.setattr(sinks, "SINKS_MAX", 20)
    for number in range(20):
        await commit_batch(stream, [], sink=f"sink-{number}")
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        await commit_batch(stream, [])
    assert (await commit_batch(stream, [], sink="sink-7", batch=1)).status == Committed.COMMITTED
    stream.world.clock.now += 31 * 86_400_000
    assert (await commit_batch(stream, [], sink="sink-7", batch=2)).status == Committed.COMMITTED
    assert (await commit_batch(stream, [])).status == Committed.COMMITTED
    assert await watermark(stream, "sink-8") is None
    assert (await watermark(stream, "sink-7")).batch == 2


@pytest.mark.slow
async def test_a_list_of_long_names_is_full_before_it_outgrows_its_table(stream):
    """A name of 255 characters may take 1020 bytes, an entry of a table has room for a thousand of these."""
    rows, context = stream.world.store, stream.controller.context
    uid = (await context.directory.get("s", "t")).uid
    names = {f"{number:05}".rjust(255, "\N{BAR CHART}"): 0 for number in range(1100)}
    assert len(encode_sink_names(SinkNamesRow(names))) > TABLE_VALUE_BYTES_MAX
    taken = 690  # one after the other, each rewrites the list
    few = SinkNamesRow(dict.fromkeys([*names][:taken], 1000))
    await rows.update(details_table(uid), [Write(sink_names_key(uid), encode_sink_names(few), ABSENT)])
    for name in [*names][taken:]:
        try:
            await context.sinks.enlist(uid, name, 1000, 30 * 86_400_000)
        except ThrottledError:
            break
        taken += 1
    assert 700 < taken < 1000
    value = (await rows.get(details_table(uid), sink_names_key(uid))).value
    assert len(value) < TABLE_VALUE_BYTES_MAX
    await context.sinks.enlist(uid, "later", 1001 + 30 * 86_400_000, 30 * 86_400_000)
    assert await context.sinks.names(uid) == ["later"]


async def test_sinks_of_single_batches_are_forgotten_soon(stream, monkeypatch):
    """Thousands of jobs a week, each with a sink of its own, would fill the list for a month."""
    monkeypatch.setattr(sinks, "SINKS_MAX", 20)
    monkeypatch.setattr(sinks, "_FORGOTTEN_AT_ONCE", 5)
    for number in range(10):
        await commit_batch(stream, [], sink=f"application-{number}")
    await commit_batch(stream, [], sink="once", query="once")  # an application that is called like that
    for number in range(9):
        await commit_batch(stream, [], sink=f"job-{number}", query="once")
    stream.world.clock.now += sinks.SINGLE_RETENTION_MS
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        await commit_batch(stream, [], sink="job-x", query="once")
    assert (await commit_batch(stream, [], sink="job-0", query="once")).status == Committed.ALREADY
    stream.world.clock.now += 1
    txns = await open_batch(stream, sink="job-x", query="once")
    assert (await commit_batch(stream, txns, sink="job-x", query="once")).status == Committed.COMMITTED
    for number in range(10):
        assert await watermark(stream, f"application-{number}") is not None
    assert await watermark(stream, "once") is not None


async def test_a_single_batch_that_was_forgotten_is_not_committed_twice(stream, monkeypatch):
    monkeypatch.setattr(sinks, "SINKS_MAX", 1)
    txns = await open_batch(stream, sink="job-1", query="once")
    for _ in range(2):
        answer = await commit_batch(stream, txns, sink="job-1", query="once")
    assert answer.status == Committed.ALREADY
    stream.world.clock.now += sinks.SINGLE_RETENTION_MS + 1
    assert (await commit_batch(stream, [], sink="job-2", query="once")).status == Committed.COMMITTED
    assert await watermark(stream, "job-1") is None
    answer = await commit_batch(stream, txns, sink="job-1", query="once")
    assert (answer.status, answer.missing) == (Committed.MISSING, txns[0].txnId)
    assert content(stream, 0) == b"<0><1>"


async def test_old_sinks_in_use_do_not_hide_others_that_are_not(stream, monkeypatch):
    monkeypatch.setattr(sinks, "SINKS_MAX", 20)
    monkeypatch.setattr(sinks, "_FORGOTTEN_AT_ONCE", 5)
    for number in range(20):
        await commit_batch(stream, [], sink=f"sink-{number}")
    stream.world.clock.now += 31 * 86_400_000
    for number in range(12):
        await commit_batch(stream, [], sink=f"sink-{number}", batch=1)
    assert (await commit_batch(stream, [])).status == Committed.COMMITTED
    assert await watermark(stream, "sink-11") is not None


async def test_a_transaction_pinned_for_one_sink_is_not_given_to_another(stream):
    txns = await open_batch(stream)
    await pin(stream, txns)
    assert (await commit_batch(stream, txns, sink="other")).status == Committed.MISSING
    assert (await commit_batch(stream, txns)).status == Committed.COMMITTED


async def test_a_deleted_stream_leaves_no_rows_of_its_sinks(stream):
    for number in range(3):
        await commit_batch(stream, await open_batch(stream, sink=f"sink-{number}"), sink=f"sink-{number}")
    await stream.stub.sealStream(info())
    await stream.stub.deleteStream(info())
    tables = stream.world.store._tables
    assert not [key for name, table in tables.items() if name.startswith("details") for key in table.rows]
