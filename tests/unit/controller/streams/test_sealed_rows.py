"""What is known of sealed segments: where they end, how long they became."""

import asyncio

from headrace.controller.store.contract import Write
from headrace.controller.store.layout import details_table, sealed_key
from headrace.controller.store.rows.sealed_row import SealedRow, decode_sealed
from headrace.coordination.memory import MemoryCoordinator
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import (
    State,
    begin,
    commit,
    eventually,
    info,
    scale,
    scaled,
    seg,
    settled,
    successors,
    write,
)

HALVES = [(0.0, 0.5), (0.5, 1.0)]


async def find_stream(service):
    return await service.controller.context.directory.get("s", "t")


async def sealed_row(service, segment_id):
    stream = await find_stream(service)
    found = await service.world.store.get(details_table(stream.uid), sealed_key(stream.uid, segment_id))
    return None if found is None else decode_sealed(found.value)


def append(service, segment_id, data):
    service.world.segments.write(f"s/t/{segment_id & 0xFFFFFFFF}.#epoch.{segment_id >> 32}", data)


async def test_a_scale_writes_where_a_segment_ends_before_it_is_sealed_and_its_length_after(service):
    await service.create_stream()
    append(service, 0, b"0123456789")
    seen = []

    async def look(call, segment):
        if call == "seal_segment":
            seen.append(await sealed_row(service, 0))

    service.world.segments.fault = look
    one, two = await scaled(service, [0], HALVES)
    assert seen == [SealedRow(1)]
    assert await sealed_row(service, 0) == SealedRow(1, 10)
    assert await sealed_row(service, one) is None
    assert await (await find_stream(service)).sealed_lengths([0, one, two, 99]) == {0: 10}


async def test_a_roll_ends_the_active_segments_in_the_first_duplicate_and_that_in_the_second(service):
    await service.create_stream()
    txn = await begin(service)
    write(service, txn, b"late")
    one, two = await scaled(service, [0], HALVES)
    append(service, one, b"123")
    assert await commit(service, txn) == pb.TxnStatus.SUCCESS
    assert await settled(service, txn) == State.COMMITTED
    assert await sealed_row(service, one) == SealedRow(2, 3)
    assert await sealed_row(service, two) == SealedRow(2, 0)
    assert await sealed_row(service, seg(0, 2)) == SealedRow(3, 4)
    assert await sealed_row(service, seg(1, 3)) is None


async def test_a_sealed_stream_knows_the_lengths_of_its_last_segments(service):
    await service.create_stream()
    append(service, 0, b"0123")
    assert (await service.stub.sealStream(info())).status == pb.UpdateStreamStatus.SUCCESS
    assert await sealed_row(service, 0) == SealedRow(None, 4)
    assert (await service.stub.deleteStream(info())).status == pb.DeleteStreamStatus.SUCCESS


async def test_lengths_that_no_row_says_are_asked_of_the_segments_while_they_exist(service):
    await service.create_stream()
    append(service, 0, b"0123456789")
    one, two = await scaled(service, [0], HALVES)
    append(service, one, b"123")
    await scaled(service, [one, two], [(0.0, 1.0)])
    stream = await find_stream(service)
    for segment_id in (0, one):
        await service.world.store.update(
            details_table(stream.uid), [Write(sealed_key(stream.uid, segment_id), None)]
        )
    assert await stream.sealed_lengths([0, one, two]) == {0: 10, one: 3, two: 0}
    await service.stub.truncateStream(pb.StreamCut(streamInfo=info(), cut={one: 1, two: 0}))
    assert await stream.sealed_lengths([0, one, two]) == {one: 3, two: 0}


async def test_a_stream_of_an_earlier_release_is_read_truncated_and_deleted_without_such_rows(service):
    await service.create_stream()
    one, two = await scaled(service, [0], HALVES)
    three, four = await scaled(service, [one], [(0.0, 0.25), (0.25, 0.5)])
    stream = await find_stream(service)
    store, table = service.world.store, details_table(stream.uid)
    await store.update(table, [Write(sealed_key(stream.uid, each), None) for each in (0, one)])
    assert sorted(await successors(service, 0)) == [one, two]
    assert sorted(await successors(service, one)) == [three, four]
    cut = pb.StreamCut(streamInfo=info(), cut={one: 0, two: 0, three: -1})
    assert (await service.stub.isStreamCutValid(cut)).response
    assert (await service.stub.truncateStream(cut)).status == pb.UpdateStreamStatus.SUCCESS
    (five,) = await scaled(service, [two], [(0.5, 1.0)])
    later = pb.StreamCut(streamInfo=info(), cut={three: 0, four: 0, five: 0})
    assert (await service.stub.truncateStream(later)).status == pb.UpdateStreamStatus.SUCCESS
    present = {each for each in service.world.segments.segments if each.startswith("s/t/")}
    assert present == set(stream.segments([three, four, five]))
    assert sorted(await successors(service, 0)) == [one, two]
    await service.stub.sealStream(info())
    assert (await service.stub.deleteStream(info())).status == pb.DeleteStreamStatus.SUCCESS
    assert not any(each.startswith("s/t/") for each in service.world.segments.segments)


async def test_a_length_that_is_known_survives_a_controller_that_comes_late(service):
    await service.create_stream()
    append(service, 0, b"0123456789")
    stream = await find_stream(service)
    first = stream.row.epoch
    await scaled(service, [0], HALVES)
    await stream.archive([first], {0: SealedRow(1)})
    assert await sealed_row(service, 0) == SealedRow(1, 10)


async def test_a_deleted_stream_leaves_no_rows(service):
    await service.create_stream()
    await scaled(service, [0], HALVES)
    stream = await find_stream(service)
    await service.stub.sealStream(info())
    assert await service.world.store.get(details_table(stream.uid), sealed_key(stream.uid, 0))
    assert (await service.stub.deleteStream(info())).status == pb.DeleteStreamStatus.SUCCESS
    page = await service.world.store.scan(details_table(stream.uid), b"", 1000)
    assert [key for key, _ in page.rows if key.startswith(stream.uid)] == []


async def test_a_roll_that_another_controller_finishes_seals_nothing_that_is_active(service):
    """The row changes under a controller that stalls after the new epochs were revealed."""
    await service.create_stream()
    txn = await begin(service)
    await scaled(service, [0], HALVES)
    stalled, released = asyncio.Event(), asyncio.Event()

    async def stall(call, segment):
        if call == "seal_segment" and segment.endswith("#epoch.1") and not stalled.is_set():
            stalled.set()
            await released.wait()

    service.world.segments.fault = stall
    assert await commit(service, txn) == pb.TxnStatus.SUCCESS
    async with asyncio.timeout(10):
        await stalled.wait()
        service.world.coordinator = MemoryCoordinator()  # the other one believes that it is the owner, too
        async with service.world.running() as other:

            async def finished():
                return (await other.context.directory.get("s", "t")).row.commit is None

            await eventually(finished)
            stream = await find_stream(service)
            assert stream.row.epoch.epoch == 3
            released.set()
            assert await settled(service, txn) == State.COMMITTED
    for each in stream.row.epoch.segment_ids():
        assert not service.world.segments.segments[stream.segment(each)].sealed
    assert (
        await scale(service, stream.row.epoch.segment_ids(), [(0.0, 1.0)])
    ).status == pb.ScaleResponse.STARTED
