"""The client against a real server in a process of its own, killed whenever it hurts."""

import asyncio
import random

import pytest

from headrace.client import (
    BatchStatus,
    ClientConfig,
    KeyRange,
    ReaderConfig,
    ScalingPolicy,
    SinkWatermark,
    StreamConfiguration,
    StreamCut,
    TransactionStatus,
    TransactionTag,
    WriterConfig,
    connect,
)
from headrace.errors import (
    NoSuchScopeError,
    NoSuchStreamError,
    ScopeNotEmptyError,
    SegmentTruncatedError,
    StreamNotSealedError,
    StreamSealedError,
)
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.testing import LocalServer

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture
async def client(server):
    async with connect(server.uri) as connected:
        await connected.create_scope("test")
        yield connected


@pytest.fixture
def stream(request):
    return request.node.name.replace("_", "-")[:200]


async def create(client, stream, segments=1):
    assert await client.create_stream(
        "test", stream, StreamConfiguration(scaling=ScalingPolicy.fixed(segments))
    )


async def read_all(client, stream, **edges):
    async with client.event_reader("test", stream, **edges) as reader:
        return [data async for batch in reader.batches() for data in batch]


def per_key(events):
    found = {}
    for event in events:
        key, _, number = event.decode().partition(":")
        found.setdefault(key, []).append(int(number))
    return found


async def test_scopes_and_streams_are_born_listed_and_die(client, stream):
    assert not await client.create_scope("test")
    assert await client.create_scope(stream)
    assert stream in [scope async for scope in client.list_scopes()]
    config = StreamConfiguration(scaling=ScalingPolicy.by_event_rate(1000, 2, 3), tags=frozenset({"a", "b"}))
    assert await client.create_stream(stream, "one", config)
    assert not await client.create_stream(stream, "one", config)
    assert await client.stream_configuration(stream, "one") == config
    assert [name async for name in client.list_streams(stream)] == ["one"]
    assert [name async for name in client.list_streams(stream, tag="a")] == ["one"]
    assert [name async for name in client.list_streams(stream, tag="c")] == []
    info = await client.stream_info(stream, "one")
    assert len(info.head.offsets) == len(info.tail.offsets) == 3
    assert not info.sealed
    with pytest.raises(ScopeNotEmptyError):
        await client.delete_scope(stream)
    with pytest.raises(StreamNotSealedError):
        await client.delete_stream(stream, "one")
    await client.seal_stream(stream, "one")
    assert (await client.stream_info(stream, "one")).sealed
    assert await client.delete_stream(stream, "one")
    assert not await client.delete_stream(stream, "one")
    assert await client.delete_scope(stream)
    with pytest.raises(NoSuchScopeError):
        await client.create_stream(stream, "one")
    with pytest.raises(NoSuchStreamError):
        await client.event_writer("test", "missing")


async def test_events_come_back_in_order_per_key(client, stream):
    await create(client, stream, 3)
    events = [f"k{number % 13}:{number}".encode() for number in range(20_000)]
    keys = [event.decode().partition(":")[0] for event in events]
    async with client.event_writer("test", stream) as writer:
        await writer.write_many(events[:10_000], keys[:10_000])
        for event, key in zip(events[10_000:], keys[10_000:], strict=True):
            writer.write(event, key)
    assert per_key(await read_all(client, stream, end="tail")) == per_key(events)


async def test_large_and_small_events_mix(client, stream):
    await create(client, stream)
    chance = random.Random(1)
    events = [chance.randbytes(chance.choice([1, 100, 10_000, 1 << 20, 8 << 20])) for _ in range(30)]
    async with client.event_writer("test", stream) as writer:
        for event in events:
            await writer.drain()
            writer.write(event, "key")
    assert await read_all(client, stream, end="tail") == events


async def test_order_holds_while_the_stream_scales_beneath_writer_and_reader(client, stream):
    await create(client, stream)
    counters, found = {}, []
    chance = random.Random(3)

    async def read():
        async with client.event_reader("test", stream, config=ReaderConfig(read_bytes_max=4096)) as reader:
            found.extend([event.data async for event in reader])

    reading = asyncio.ensure_future(read())
    async with client.event_writer("test", stream, WriterConfig(block_bytes_max=2048)) as writer:
        for pieces in (3, 1, 4, 2):
            for _ in range(1000):
                key = f"key{chance.randrange(30)}"
                counters[key] = counters.get(key, -1) + 1
                writer.write(f"{key}:{counters[key]}".encode(), key)
                if chance.random() < 0.02:
                    await asyncio.sleep(0.001)
            current = [each.segment_id for each in await client.current_segments("test", stream)]
            await client.scale_stream("test", stream, current, split_evenly(FULL_RANGE, pieces))
    await client.seal_stream("test", stream)
    await reading
    assert per_key(found) == {key: list(range(last + 1)) for key, last in counters.items()}


async def test_a_sealed_stream_can_be_read_and_not_written(client, stream):
    await create(client, stream)
    writer = await client.event_writer("test", stream)
    await writer.write(b"last words", "key")
    await client.seal_stream("test", stream)
    with pytest.raises(StreamSealedError):
        await writer.write(b"too late", "key")
    assert await read_all(client, stream) == [b"last words"]


async def test_truncated_events_are_gone_for_old_cuts_and_the_head_moves(client, stream):
    await create(client, stream)
    async with client.event_writer("test", stream) as writer:
        await writer.write_many([b"%d" % number for number in range(10)], "key")
    cut = StreamCut.from_offsets("test", stream, {0: 5 * 9})
    head = await client.head_cut("test", stream)
    await client.truncate_stream(cut)
    assert await client.head_cut("test", stream) == cut
    assert await read_all(client, stream, end="tail") == [b"5", b"6", b"7", b"8", b"9"]
    with pytest.raises(SegmentTruncatedError):
        await read_all(client, stream, start=head, end="tail")


async def test_transactions_are_seen_whole_or_not_at_all(client, stream):
    await create(client, stream, 2)
    async with client.txn_writer("test", stream) as writer:
        committed = await writer.begin()
        aborted = await writer.begin()
        for number in range(100):
            committed.write(b"yes:%d" % number, "yes")
            aborted.write(b"no:%d" % number, "no")
        await aborted.abort()
        await committed.flush()
        assert await read_all(client, stream, end="tail") == []
        await committed.commit(wait=True)
        assert await committed.status() is TransactionStatus.COMMITTED
    assert per_key(await read_all(client, stream, end="tail")) == {"yes": list(range(100))}


async def test_a_transaction_older_than_a_scale_is_committed_behind_it(client, stream):
    await create(client, stream)
    async with client.txn_writer("test", stream) as writer:
        transaction = await writer.begin()
        await transaction.write(b"k:0", "k")
        await client.scale_stream("test", stream, [0], split_evenly(FULL_RANGE, 2))
        async with client.event_writer("test", stream) as other:
            await other.write(b"o:0", "o")
        await transaction.write(b"k:1", "k")
        await transaction.commit(wait=True)
    await client.seal_stream("test", stream)
    assert per_key(await read_all(client, stream)) == {"k": [0, 1], "o": [0]}


async def test_a_batch_of_transactions_commits_once_whoever_repeats_it(client, stream):
    await create(client, stream, 2)
    batches = client.transactions

    async def written(batch, attempt):
        async with client.txn_writer("test", stream) as writer:
            ids = []
            for partition in range(3):
                tag = TransactionTag("sink", "query", batch, partition, attempt)
                begun = await writer.begin_tagged(tag)
                if isinstance(begun, SinkWatermark):
                    return begun
                begun.write(f"b{batch}:{partition}".encode(), f"b{batch}")
                await begun.flush()
                ids.append(begun.detach(keep_alive=True))
            return ids

    async def commit(batch, ids, query="query"):
        return await batches.commit_batch(
            "test", stream, sink="sink", query=query, batch=batch, txn_ids=ids, wait_until_visible=True
        )

    assert await batches.sink_watermark("test", stream, "sink") is None
    first = await written(0, 0)
    abandoned = await written(0, 1)
    assert (await commit(0, first)).status is BatchStatus.COMMITTED
    assert (await commit(0, first)).status is BatchStatus.ALREADY
    assert (await commit(0, abandoned)).status is BatchStatus.ALREADY
    assert (await written(0, 2)).batch == 0
    second = await written(1, 0)
    assert (await commit(1, second, query="other")).status is BatchStatus.FOREIGN
    assert await batches.abort_batch("test", stream, sink="sink", query="query", batch=1) == 3
    missing = await commit(1, second)
    assert (missing.status, missing.missing in second) == (BatchStatus.MISSING, True)
    assert (await commit(1, await written(1, 1))).status is BatchStatus.COMMITTED
    watermark = await batches.sink_watermark("test", stream, "sink")
    assert (watermark.batch, watermark.query, watermark.visible) == (1, "query", True)
    found = per_key(await read_all(client, stream, end="tail"))
    assert {key: sorted(numbers) for key, numbers in found.items()} == {"b0": [0, 1, 2], "b1": [0, 1, 2]}


async def test_segments_between_cuts_and_ranges_of_them_hold_every_event(client, stream):
    await create(client, stream)
    async with client.event_writer("test", stream) as writer:
        await writer.write_many([b"a"] * 50, "key")
        await client.scale_stream("test", stream, [0], [KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)])
        await writer.write_many([b"b"] * 50, "key")
    head, tail = await client.head_cut("test", stream), await client.tail_cut("test", stream)
    segments = await client.segments_between(head, tail)
    assert segments == sorted([0, *tail.offsets])
    found = []
    for segment_id in segments:
        info = await client.segment_info("test", stream, segment_id)
        part = client.read_segment_range("test", stream, segment_id, info.start_offset, info.length)
        found += [data async for batch in part.batches() for data in batch]
    assert sorted(found) == [b"a"] * 50 + [b"b"] * 50
    length = (await client.segment_info("test", stream, 0)).length
    located = await client.locate_offset("test", stream, 0, 5)
    assert located % 9 == 0
    assert 5 <= located <= length


async def test_byte_streams_survive_as_bytes(client, stream):
    await create(client, stream)
    data = random.Random(2).randbytes(3 << 20)
    async with client.byte_writer("test", stream) as writer:
        for begin in range(0, len(data), 100_000):
            writer.write(data[begin : begin + 100_000])
        await writer.seal()
    async with client.byte_reader("test", stream) as reader:
        assert await reader.read_exactly(len(data) + 1) == data


@pytest.mark.slow
async def test_exactly_once_and_in_order_through_kills(tmp_path):
    """The server is killed while blocks, acknowledgements, reads and a scale are under way."""
    server = LocalServer(tmp_path)
    server.start()
    chance = random.Random(5)
    counters, found = {}, []
    try:
        async with connect(server.uri, ClientConfig(control_attempts=100)) as client:
            await client.create_scope("test")
            await create(client, "kills", 2)

            async def read():
                config = ReaderConfig(read_bytes_max=8192)
                async with client.event_reader("test", "kills", config=config) as reader:
                    found.extend([event.data async for event in reader])

            async def write(writer, count):
                for _ in range(count):
                    key = f"key{chance.randrange(50)}"
                    counters[key] = counters.get(key, -1) + 1
                    await writer.drain()
                    writer.write(f"{key}:{counters[key]}".encode(), key)
                    if chance.random() < 0.02:
                        await asyncio.sleep(0.0005)

            reading = asyncio.ensure_future(read())
            writer_config = WriterConfig(block_bytes_max=4096, window_bytes_max=64 << 10)
            async with client.event_writer("test", "kills", writer_config) as writer:
                for round_number in range(4):
                    writing = asyncio.ensure_future(write(writer, 3000))
                    await asyncio.sleep(chance.random() * 0.2)
                    await asyncio.to_thread(server.restart)
                    await writing
                    if round_number == 1:
                        await client.scale_stream("test", "kills", [0, 1], split_evenly(FULL_RANGE, 3))
                await writer.flush()
            await client.seal_stream("test", "kills")
            await asyncio.wait_for(reading, 60)
            assert per_key(found) == {key: list(range(last + 1)) for key, last in counters.items()}
            assert server.starts == 5
    finally:
        server.close()
