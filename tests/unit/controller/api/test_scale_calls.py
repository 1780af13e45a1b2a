import asyncio

import grpc
import pytest

from headrace.limits import INT64_MIN
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import (
    Check,
    Scale,
    State,
    begin,
    check,
    commit,
    content,
    eventually,
    info,
    scale,
    scale_done,
    scaled,
    seg,
    settled,
    successors,
    write,
)
from tests.unit.controller.streams.history_model import read_history


async def test_a_split_replaces_a_segment_by_the_next_numbers_of_the_next_epoch(service):
    await service.create_stream(segments=2)
    answer = await scale(service, [1], [(0.5, 0.75), (0.75, 1.0)])
    assert (answer.status, answer.epoch) == (Scale.STARTED, 0)
    assert [each.segmentId.segmentId for each in answer.segments] == [seg(2, 1), seg(3, 1)]
    await scaled(service, [1], [(0.5, 0.75), (0.75, 1.0)])
    assert await service.current() == [
        (0, 0.0, 0.5),
        (seg(2, 1), 0.5, 0.75),
        (seg(3, 1), 0.75, 1.0),
    ]
    segments = service.world.segments.segments
    assert segments["s/t/1.#epoch.0"].sealed
    assert not segments["s/t/2.#epoch.1"].sealed


async def test_successors_carry_all_predecessors(service):
    await service.create_stream()
    quarters = await scaled(service, [0], [(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)])
    middle = quarters[1:3]
    merged = await scaled(service, middle, [(0.25, 0.75)])
    assert merged == [seg(5, 2)]
    for old in middle:
        assert await successors(service, old) == {seg(5, 2): ((0.25, 0.75), middle)}
    split = await scaled(service, merged, [(0.25, 0.5), (0.5, 0.75)])
    assert await successors(service, merged[0]) == {
        split[0]: ((0.25, 0.5), merged),
        split[1]: ((0.5, 0.75), merged),
    }
    assert await successors(service, middle[0]) == {seg(5, 2): ((0.25, 0.75), middle)}
    assert sorted(await successors(service, 0)) == quarters


async def test_active_unknown_and_last_segments_have_no_successors(service):
    await service.create_stream(segments=2)
    assert await successors(service, 0) == {}
    assert await successors(service, seg(77, 3)) == {}
    await service.stub.sealStream(info())
    assert await successors(service, 0) == {}
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await successors(service, 0, "nowhere")
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


async def test_successors_are_known_before_anything_is_sealed(service):
    await service.create_stream()
    seen, ranges = [], []

    async def watch(call, segment):
        if call == "seal_segment":
            seen.append(await successors(service, 0))
            request = pb.GetEpochSegmentsRequest(streamInfo=info(), epoch=1)
            epoch = (await service.stub.getEpochSegments(request)).segmentRanges
            ranges.append([each.segmentId.segmentId for each in epoch])

    service.world.segments.fault = watch
    await scaled(service, [0], [(0.0, 0.5), (0.5, 1.0)])
    assert [sorted(each) for each in seen] == ranges == [[seg(1, 1), seg(2, 1)]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sealed", "ranges", "status"),
    [
        ([5], [(0.0, 1.0)], Scale.PRECONDITION_FAILED),
        ([], [], Scale.PRECONDITION_FAILED),
        ([0, 0], [(0.0, 0.5)], Scale.PRECONDITION_FAILED),
        ([0, 1], [(0.0, 1.0)], Scale.PRECONDITION_FAILED),
        ([0], [(0.0, 0.4)], Scale.FAILURE),
        ([0], [(0.0, 0.3), (0.2, 0.5)], Scale.FAILURE),
        ([0], [(0.0, 0.6)], Scale.FAILURE),
        ([0], [(0.5, 0.0)], Scale.FAILURE),
        ([0], [(float("nan"), 0.5)], Scale.FAILURE),
        ([0], [(-1.0, 0.5)], Scale.FAILURE),
        ([0], [(0.0, 0.5), (0.0, 0.5)], Scale.FAILURE),
    ],
)
async def test_an_impossible_scale_is_refused_and_changes_nothing(service, sealed, ranges, status):
    await service.create_stream(segments=2)
    assert (await scale(service, sealed, ranges)).status == status
    assert [segment for segment, _, _ in await service.current()] == [0, 1]
    assert await service.create_stream("u", 2) == pb.CreateStreamStatus.SUCCESS


async def test_a_missing_or_sealed_stream_is_not_scaled(service):
    await service.create_stream()
    assert (await scale(service, [0], [(0.0, 1.0)], stream="nowhere")).status == Scale.FAILURE
    assert await check(service, 0, "nowhere") == Check.INVALID_INPUT
    await service.stub.sealStream(info())
    assert (await scale(service, [0], [(0.0, 0.5), (0.5, 1.0)])).status == Scale.FAILURE


async def test_disjoint_groups_are_scaled_together(service):
    await service.create_stream(segments=4)
    await scaled(service, [0, 3], [(0.0, 0.125), (0.125, 0.25), (0.75, 0.8), (0.8, 1.0)])
    assert [(low, high) for _, low, high in await service.current()] == [
        (0.0, 0.125),
        (0.125, 0.25),
        (0.25, 0.5),
        (0.5, 0.75),
        (0.75, 0.8),
        (0.8, 1.0),
    ]


async def test_check_scale_knows_future_epochs_to_be_wrong(service):
    await service.create_stream()
    assert await check(service, 0) == Check.IN_PROGRESS
    assert await check(service, 1) == Check.INVALID_INPUT
    assert await check(service, -1) == Check.INVALID_INPUT


async def test_of_two_different_scales_at_once_one_starts_and_equal_ones_agree(service):
    await service.create_stream(segments=2)
    one = [(0.0, 0.25), (0.25, 0.5)]
    other = [(0.0, 0.3), (0.3, 0.5)]
    answers = await asyncio.gather(
        scale(service, [0], one),
        scale(service, [0], other),
        scale(service, [0], one),
        scale(service, [0], other),
    )
    started = [answer for answer in answers if answer.status == Scale.STARTED]
    assert len(started) == 2
    assert started[0] == started[1]
    await scale_done(service, 0)
    assert len(await service.current()) == 3


async def test_a_scale_whose_answer_was_lost_is_answered_again(service):
    await service.create_stream()
    ranges = [(0.0, 0.5), (0.5, 1.0)]
    first = await scale(service, [0], ranges)
    await scaled(service, [0], ranges)
    assert await scale(service, [0], ranges) == first
    assert len(await service.current()) == 2


async def test_the_time_of_an_epoch_goes_on_whatever_a_client_says(service):
    await service.create_stream()
    created = service.world.clock.now
    await scale(service, [0], [(0.0, 0.5), (0.5, 1.0)], time=3)
    await scale_done(service, 0)
    stream = await service.controller.context.directory.get("s", "t")
    assert stream.row.epoch.created_ms == created + 1


@pytest.mark.slow
async def test_a_hundred_scales_leave_a_history_that_hangs_together(service):
    await service.create_stream()
    active = [0]
    for turn in range(100):
        if turn % 2 == 0:
            active = await scaled(service, active, [(0.0, 0.5), (0.5, 1.0)])
        else:
            active = await scaled(service, active, [(0.0, 1.0)])
    stream = await service.controller.context.directory.get("s", "t")
    (await read_history(stream)).check()
    segment, chain = 0, 0
    while found := await successors(service, segment):
        segment, chain = min(found), chain + 1
    assert chain == 100


async def changed_from(service, old):
    """Wait until none of the ``old`` segments is current, and return those that are."""

    async def changed():
        current = await service.current()
        return current if not {segment for segment, _, _ in current} & set(old) else None

    return await eventually(changed)


async def test_a_transaction_of_an_older_epoch_rolls_the_stream(service):
    await service.create_stream(segments=2)
    txn = await begin(service)
    write(service, txn, b"txn-0", 0)
    write(service, txn, b"txn-1", 1)
    service.world.segments.write("s/t/0.#epoch.0", b"old")
    new = await scaled(service, [0, 1], [(0.0, 0.3), (0.3, 0.6), (0.6, 1.0)])
    service.world.segments.write("s/t/2.#epoch.1", b"new")
    assert await commit(service, txn) == pb.TxnStatus.SUCCESS
    assert await settled(service, txn) == State.COMMITTED
    # Epochs: 0 {0, 1}; 1 {2, 3, 4}; 2 repeats 0; 3 repeats 1.
    current = await changed_from(service, new)
    assert [segment for segment, _, _ in current] == [seg(2, 3), seg(3, 3), seg(4, 3)]
    assert (content(service, seg(0, 2)), content(service, seg(1, 2))) == (b"txn-0", b"txn-1")
    segments = service.world.segments.segments
    assert all(segments[f"s/t/{number}.#epoch.2"].sealed for number in range(2))
    assert all(segments[f"s/t/{number}.#epoch.1"].sealed for number in (2, 3, 4))
    # A reader goes: active segment, the transactions, the active segments again.
    assert sorted(await successors(service, seg(2, 1))) == [seg(0, 2)]
    assert sorted(await successors(service, seg(0, 2))) == [seg(2, 3), seg(3, 3)]
    assert await check(service, 0) == Check.SUCCESS
    assert await check(service, 1) == Check.IN_PROGRESS


async def test_transactions_of_an_epoch_and_of_its_duplicate_commit_without_rolling(service):
    await service.create_stream(segments=2)
    oldest = await begin(service)
    new = await scaled(service, [0, 1], [(0.0, 0.5), (0.5, 0.7), (0.7, 1.0)])
    middle = await begin(service)
    assert middle.txnId.highBits >> 32 == 1
    await commit(service, oldest)
    assert await settled(service, oldest) == State.COMMITTED
    await changed_from(service, new)
    latest = await begin(service)
    assert latest.txnId.highBits >> 32 == 1
    for txn, data in ((middle, b"m"), (latest, b"l")):
        write(service, txn, data)
        await commit(service, txn)
        assert await settled(service, txn) == State.COMMITTED
    assert content(service, seg(2, 3)) == b"ml"
    assert [segment for segment, _, _ in await service.current()] == [seg(2, 3), seg(3, 3), seg(4, 3)]


async def test_a_transaction_stays_open_over_a_scale_and_finds_its_segments_again(service):
    await service.create_stream(segments=2)
    await scaled(service, [1], [(0.5, 0.7), (0.7, 1.0)])
    txn = await begin(service)
    # Segment 0 was created in epoch 0; the transaction knows it as a segment of its own epoch.
    assert [each.segmentId.segmentId for each in txn.activeSegments] == [seg(0, 1), seg(2, 1), seg(3, 1)]
    request = pb.GetEpochSegmentsRequest(streamInfo=info(), epoch=txn.txnId.highBits >> 32)
    resumed = await service.stub.getEpochSegments(request)
    assert list(resumed.segmentRanges) == list(txn.activeSegments)
    write(service, txn, b"x", 0)
    await commit(service, txn)
    assert await settled(service, txn) == State.COMMITTED
    assert content(service, 0) == b"x"


async def test_a_waiting_scale_survives_a_rolling_commit_with_the_ids_of_the_duplicates(service):
    await service.create_stream()
    txn = await begin(service)
    (first, second) = await scaled(service, [0], [(0.0, 0.5), (0.5, 1.0)])
    hold = asyncio.Event()
    started = asyncio.Event()

    async def fault(call, segment):
        if call == "merge_batch":
            started.set()
            await hold.wait()

    service.world.segments.fault = fault
    await commit(service, txn)
    await started.wait()
    # While the commit holds the stream, the scale is accepted and waits.
    answer = await scale(service, [first, second], [(0.0, 1.0)])
    assert (answer.status, answer.epoch) == (Scale.STARTED, 1)
    hold.set()
    assert await settled(service, txn) == State.COMMITTED

    async def merged():
        current = await service.current()
        return current if len(current) == 1 else None

    ((segment, _, _),) = await eventually(merged)
    assert segment >> 32 == 4


async def test_commit_times_are_kept_for_the_writer(service):
    await service.create_stream()
    txn = await begin(service)
    write(service, txn, b"12345")
    await commit(service, txn, writer="w", timestamp=77)
    await settled(service, txn)
    other = await begin(service)
    await commit(service, other, writer="silent", timestamp=INT64_MIN)
    await settled(service, other)
    removed = [
        (await service.stub.removeWriter(pb.RemoveWriterRequest(writer=writer, stream=info()))).result
        for writer in ("w", "silent")
    ]
    assert removed == [pb.RemoveWriterResponse.SUCCESS, pb.RemoveWriterResponse.UNKNOWN_WRITER]
