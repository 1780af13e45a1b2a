"""Two controllers that share the work on real sockets: over scales, transactions, a death, a clean stop."""

import asyncio
import contextlib
import time

import pytest

from headrace.client import (
    KeyRange,
    RetentionPolicy,
    ScalingPolicy,
    StreamConfiguration,
    StreamCut,
    TransactionStatus,
)
from headrace.errors import NoSuchStreamError, StreamSealedError
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.names import segment_name
from headrace.model.segment_report import Load, SegmentReport
from headrace.rpc.generated import controller_pb2 as pb
from tests.integration.controller.keyed_events import KeyedEvents, read
from tests.integration.controller.sharing_controllers import QUICK, sharing
from tests.unit.controller.calls import eventually

pytestmark = pytest.mark.slow

HALVES = [KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)]
WATERMARKS = pb.ControllerToBucketMappingRequest.WatermarkingService


async def write(client, stream, *events):
    async with client.event_writer("s", stream) as writer:
        for event in events:
            await writer.write(event, "key")


async def scale(client, stream, pieces):
    current = [each.segment_id for each in await client.current_segments("s", stream)]
    await client.scale_stream("s", stream, current, split_evenly(FULL_RANGE, pieces))


@contextlib.asynccontextmanager
async def running():
    """Two controllers, a client of each, and a client of both that asks the first one while it lives."""
    async with sharing(QUICK) as cluster:
        first, second = cluster.members
        clients = [await cluster.client(first), await cluster.client(second)]
        await clients[0].create_scope("s")
        yield cluster, clients, await cluster.client(first, second)


async def test_streams_are_used_and_scaled_through_either():
    async with running() as (cluster, clients, _), asyncio.TaskGroup() as group:
        first, second = cluster.members
        for service in (pb.ControllerToBucketMappingRequest.RetentionService, WATERMARKS):
            views = [await cluster.buckets(member, service) for member in (first, second)]
            assert views[0] == views[1]
            assert sorted(len(mine) for mine in views[0].values()) == [8, 8]
        streams = [next(await cluster.names(member, "s")) for member in (first, second)]
        for stream, client in zip(streams, clients, strict=True):
            assert await client.create_stream("s", stream)
        assert not await clients[1].create_stream("s", streams[0])
        events = [
            KeyedEvents(client, stream) for client, stream in zip(reversed(clients), streams, strict=True)
        ]
        for each in events:
            group.create_task(each.write())
        for number in range(6):
            for stream in streams:
                await scale(clients[number % 2], stream, 1 + (number + 1) % 3)
            await asyncio.gather(*(each.grow() for each in events))
        for each in events:
            each.stop()
            await each.grow(0)
        for stream, each in zip(streams, events, strict=True):
            await clients[0].seal_stream("s", stream)
            for client in clients:
                await each.check(client)
                with pytest.raises(StreamSealedError):
                    await scale(client, stream, 1)
            assert await clients[1].delete_stream("s", stream)
            assert not await clients[0].delete_stream("s", stream)


async def test_transactions_begin_with_one_and_end_with_the_other():
    async with running() as (cluster, clients, _):
        for member in cluster.members:
            stream = next(await cluster.names(member, "s"))
            await clients[0].create_stream("s", stream, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
            wanted = []
            for number in range(12):
                begins, ends = clients[number % 2], clients[1 - number % 2]
                async with begins.txn_writer("s", stream) as mine, ends.txn_writer("s", stream) as other:
                    txn = await mine.begin()
                    events = [b"%d %d" % (number, index) for index in range(3)]
                    for event in events[:2]:
                        txn.write(event, "key")
                    await txn.flush()
                    if number == 5:
                        await scale(ends, stream, 3)
                    again = await other.resume(txn.detach())
                    again.write(events[2], "key")
                    if number % 3 == 2:
                        await again.abort()
                        await eventually(lambda txn=txn: _is(txn, TransactionStatus.ABORTED))
                    else:
                        wanted += events
                        await again.commit(wait=True)
                        assert await txn.status() is TransactionStatus.COMMITTED
            for client in clients:
                assert await read(client, stream) == wanted


async def _is(txn, status):
    return await txn.status() is status


async def test_the_survivor_finishes_what_the_dead_one_was_in_the_middle_of():
    async with running() as (cluster, (_, client), both), asyncio.TaskGroup() as group:
        dying, survivor = cluster.members
        names = await cluster.names(dying, "s")
        lost = (await cluster.buckets(dying))[dying.endpoint]
        scaled, truncated, sealed, committed, aborted, updated, deleted, created = (
            next(names) for _ in range(8)
        )
        for stream in (scaled, truncated, sealed, committed, aborted, updated, deleted):
            await client.create_stream("s", stream)
            await write(client, stream, b"one", b"two", b"three")
        await client.seal_stream("s", deleted)
        events = KeyedEvents(both, next(names))
        await client.create_stream("s", events.stream)
        writing = group.create_task(events.write())
        by_rate = StreamConfiguration(scaling=ScalingPolicy.by_event_rate(1000))
        transactions = []
        for stream in (committed, aborted):
            writer = both.txn_writer("s", stream)
            transactions.append(await writer.begin())
            transactions[-1].write(b"in a transaction", "key")
            await transactions[-1].flush()
        stuck = [
            dying.reach.hold(call, f"s/{stream}/")
            for call, stream in (
                ("seal_segment", scaled),
                ("truncate_segment", truncated),
                ("seal_segment", sealed),
                ("merge_batch", committed),
                ("delete_segments", aborted),
                ("update_policy", updated),
                ("delete_segments", deleted),
                ("create_segment", created),
                ("seal_segment", events.stream),
            )
        ]
        cut = StreamCut.from_offsets("s", truncated, {0: 8 + len(b"one")})
        calls = [
            group.create_task(call)
            for call in (
                both.scale_stream("s", scaled, [0], HALVES),
                both.truncate_stream(cut),
                both.seal_stream("s", sealed),
                transactions[0].commit(wait=True),
                transactions[1].abort(),
                both.update_stream("s", updated, by_rate),
                both.delete_stream("s", deleted),
                both.create_stream("s", created),
                both.scale_stream("s", events.stream, [0], HALVES),
            )
        ]
        async with asyncio.timeout(30):
            await asyncio.gather(*(each.wait() for each in stuck))
        assert not any(each.done() for each in calls if each is not calls[4])
        await dying.die()
        dying.expire()
        await cluster.divided(survivor)
        assert (await cluster.buckets(survivor))[survivor.endpoint] > lost
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*calls)
        assert [len(answers[index]) for index in (0, 8)] == [2, 2]
        assert len(await client.current_segments("s", scaled)) == 2
        assert (await client.head_cut("s", truncated)) == cut
        assert await read(client, truncated) == [b"two", b"three"]
        assert await client.current_segments("s", sealed) == []
        assert await read(client, committed) == [b"one", b"two", b"three", b"in a transaction"]
        await eventually(lambda: _is(transactions[1], TransactionStatus.ABORTED))
        assert await read(client, aborted) == [b"one", b"two", b"three"]
        assert (await client.stream_configuration("s", updated)).scaling == by_rate.scaling
        with pytest.raises(NoSuchStreamError):
            await client.head_cut("s", deleted)
        await write(client, created, b"first")
        await events.grow()
        events.stop()
        await writing
        await events.check(client)


async def test_the_survivor_looks_after_the_open_transactions_of_the_dead_one():
    async with running() as (cluster, (doomed, client), both):
        dying, survivor = cluster.members
        for member in (dying, survivor):
            stream = next(await cluster.names(member, "s"))
            await client.create_stream("s", stream)
        names = [next(await cluster.names(member, "s")) for member in (dying, survivor)]
        abandoned = [
            (stream, (await through.transactions.create("s", stream, 800)).txn_id)
            for stream in names
            for through in (doomed, client)
        ]
        kept = []
        for stream in names:
            txn = await both.txn_writer("s", stream, lease_ms=10_000).begin()
            txn.write(b"kept", "key")
            await txn.flush()
            kept.append(txn)
        await dying.die()
        dying.expire()
        await cluster.divided(survivor)
        for stream, txn_id in abandoned:

            async def is_aborted(stream=stream, txn_id=txn_id):
                status = await client.transactions.status("s", stream, txn_id)
                return status is TransactionStatus.ABORTED

            await eventually(is_aborted, 20)
        for txn in kept:
            assert await txn.status() is TransactionStatus.OPEN
            await txn.commit(wait=True)
            assert await read(client, txn.stream) == [b"kept"]


async def test_retention_samples_and_watermarks_of_the_dead_one_go_on():
    async with running() as (cluster, (_, client), both):
        dying, survivor = cluster.members
        names = await cluster.names(dying, "s")
        short, timed, busy = (next(names) for _ in range(3))
        by_size = StreamConfiguration(retention=RetentionPolicy.by_size(1000))
        await client.create_stream("s", short, by_size)
        await client.create_stream("s", timed, StreamConfiguration(timestamp_timeout_ms=600_000))
        by_rate = StreamConfiguration(scaling=ScalingPolicy.by_event_rate(100, scale_factor=2))
        await client.create_stream("s", busy, by_rate)

        async def head():
            return (await client.head_cut("s", short)).offsets[0]

        async def fill_until_head_is_beyond(offset):
            async with asyncio.timeout(30):
                while await head() <= offset:
                    await write(both, short, b"x" * 500)

        async def is_sampled():
            found = await client.cut_at("s", short, time.time_ns() // 1_000_000)
            return found.cut == await client.tail_cut("s", short)

        async def marked_up_to(lower):
            async def is_marked():
                marks = [each async for each in client.watermarks("s", timed)]
                return bool(marks) and marks[-1].lower >= lower

            await eventually(is_marked, 30)

        async with both.event_writer("s", timed) as writer:
            for rounds in range(2):
                await writer.write(b"event", "key")
                await writer.note_time(100 + rounds)
                await marked_up_to(100 + rounds)
                await fill_until_head_is_beyond(await head())
                await eventually(is_sampled, 30)
                if rounds == 0:
                    await dying.die()
                    report = SegmentReport(
                        segment_name("s", busy, 0), Load.HOT, time.time_ns() // 1_000_000, 2, 2000
                    )
                    await survivor.controller.report_loads([report])  # nobody owns the bucket yet
                    dying.expire()
        await cluster.divided(survivor)

        async def has_split():
            return len(await client.current_segments("s", busy)) == 2

        await eventually(has_split, 30)


async def test_a_controller_that_stops_hands_its_buckets_over_at_once():
    async with running() as (cluster, (_, client), both):
        leaving, staying = cluster.members
        stream = next(await cluster.names(leaving, "s"))
        await both.create_stream("s", stream)
        events = KeyedEvents(both, stream)
        async with asyncio.TaskGroup() as group:
            group.create_task(events.write())
            await events.grow()
            # Its session would last for a minute: what is owned below was given up.
            await leaving.stop()
            await cluster.divided(staying)
            await scale(both, stream, 2)
            third = await cluster.add()
            await cluster.divided(staying, third)
            await scale(await cluster.client(third), stream, 3)
            staying.expire()
            await cluster.divided(third, staying)
            await scale(both, stream, 1)
            await events.grow()
            events.stop()
        await events.check(client)
