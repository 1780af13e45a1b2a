"""Times from writers to readers: through a real server, over scaling, transactions and a killed server."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from headrace.client import KeyRange, ScalingPolicy, StreamConfiguration, TimeWindow, connect
from headrace.client.blocking import connect as connect_blocking
from headrace.errors import InvalidArgumentError, NoSuchStreamError, PreconditionError
from headrace.testing import LocalServer

pytestmark = pytest.mark.cluster

PATIENT = StreamConfiguration(scaling=ScalingPolicy.fixed(2), timestamp_timeout_ms=600_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    period = {"HEADRACE_CONTROLLER__WATERMARKS__PERIOD_S": "0.1"}
    with LocalServer(tmp_path_factory.mktemp("watermarks"), environment=period) as running:
        yield running


@pytest.fixture
async def client(server):
    async with connect(server.uri) as connected:
        await connected.create_scope("test")
        yield connected


@pytest.fixture
def stream(request):
    return request.node.name.replace("_", "-")[:200]


async def marks_up_to(client, stream, lower):
    """Wait until there is a watermark with this lower time; return all."""
    async with asyncio.timeout(30):
        while True:
            found = [each async for each in client.watermarks("test", stream)]
            if found and found[-1].lower >= lower:
                return found
            await asyncio.sleep(0.02)


async def write(writer, time, count=20):
    for number in range(count):
        writer.write(b"%d" % time, f"key-{number}")
    await writer.note_time(time)


async def test_events_are_read_in_windows_of_the_times_that_writers_noted(client, stream):
    await client.create_stream("test", stream, PATIENT)
    async with client.event_writer("test", stream) as one, client.event_writer("test", stream) as other:
        await asyncio.gather(one.note_time(0), other.note_time(0))  # from now on each waits for the other
        for time in (0, 10, 20, 30):
            if time:
                await asyncio.gather(write(one, time), write(other, time + 5))
            await marks_up_to(client, stream, time)
    found = await marks_up_to(client, stream, 30)
    assert [(each.lower, each.upper) for each in found] == [(0, 0), (10, 15), (20, 25), (30, 35)]
    assert found[-1].offsets() == (await client.tail_cut("test", stream)).offsets
    windows = client.time_windows("test", stream)
    assert await windows.advance(await client.head_cut("test", stream)) == TimeWindow(0, 15)
    async with client.event_reader("test", stream, end="tail") as reader:
        async for event in reader:
            window = await windows.advance(reader.position())
            # An event behind the lower bound is not older; its writer had spoken of no more than the next.
            assert window.lower is None or int(event.data) >= window.lower
            assert window.upper is None or int(event.data) <= window.upper
    assert (await windows.advance(await client.tail_cut("test", stream))).lower >= 30


async def test_windows_follow_a_stream_that_is_scaled(client, stream):
    await client.create_stream("test", stream, PATIENT)
    async with client.event_writer("test", stream) as writer:
        await write(writer, 10)
        await marks_up_to(client, stream, 10)
        await client.scale_stream("test", stream, [0], [KeyRange(0.0, 0.2), KeyRange(0.2, 0.5)])
        await write(writer, 20)
        found = await marks_up_to(client, stream, 20)
        await write(writer, 30)
        await marks_up_to(client, stream, 30)
    assert set(found[-1].offsets()) == {1, (1 << 32) + 2, (1 << 32) + 3}
    windows = client.time_windows("test", stream)
    async with client.event_reader("test", stream, end="tail") as reader:
        async for event in reader:
            window = await windows.advance(reader.position())
            assert window.lower is None or int(event.data) >= window.lower
    assert (await windows.advance(await client.tail_cut("test", stream))).lower == 30


async def test_transactions_commit_with_a_time(client, stream):
    await client.create_stream("test", stream, PATIENT)
    async with client.txn_writer("test", stream) as writer:
        for time in (7, 8):
            transaction = await writer.begin()
            transaction.write(b"event", "key")
            await transaction.commit(time, wait=True)
            found = await marks_up_to(client, stream, time)
    assert [each.lower for each in found] == [7, 8]
    assert found[-1].offsets() == (await client.tail_cut("test", stream)).offsets


async def test_a_writer_that_was_closed_is_not_waited_for(client, stream):
    await client.create_stream("test", stream, PATIENT)
    async with client.event_writer("test", stream) as stays:
        async with client.event_writer("test", stream) as leaves:
            await write(leaves, 1)
            await write(stays, 1)
            await marks_up_to(client, stream, 1)
        await write(stays, 9)
        await marks_up_to(client, stream, 9)


async def test_a_writer_that_comes_back_under_its_name_goes_on(client, stream):
    await client.create_stream("test", stream, PATIENT)
    async with client.event_writer("test", stream, writer_id="named") as writer:
        await write(writer, 5)
        with pytest.raises(PreconditionError):
            await writer.note_time(4)
        for no_time in (1 << 63, 1.5, "6", datetime.fromisoformat("2026-11-25")):
            with pytest.raises(InvalidArgumentError):
                await writer.note_time(no_time)
    async with client.event_writer("test", stream, writer_id="named") as writer:
        assert writer.writer_id == "named"
        with pytest.raises(PreconditionError):
            await writer.note_time(4)
        await writer.note_time(6)
        assert (await marks_up_to(client, stream, 6))[-1].offsets() == (
            await client.tail_cut("test", stream)
        ).offsets


async def test_a_datetime_is_its_milliseconds_since_1970(client, stream):
    noon = datetime(2026, 11, 25, 13, tzinfo=timezone(timedelta(hours=1)))
    noon_ms = 1_795_608_000_000
    await client.create_stream("test", stream, PATIENT)
    async with client.event_writer("test", stream) as writer:
        await writer.write(b"event")
        await writer.note_time(noon)
        with pytest.raises(PreconditionError):
            await writer.note_time(noon_ms - 1)
        await marks_up_to(client, stream, noon_ms)
    transactions = client.txn_writer("test", stream)
    transaction = await transactions.begin()
    await transaction.write(b"event")
    with pytest.raises(InvalidArgumentError, match="has no zone"):
        await transaction.commit(datetime.fromisoformat("2026-11-25T13:00"))
    assert transaction.is_open
    await transaction.commit(noon + timedelta(seconds=1), wait=True)


async def test_watermarks_survive_a_killed_server(client, server, stream):
    await client.create_stream("test", stream, PATIENT)
    async with client.event_writer("test", stream) as writer:
        await write(writer, 1)
        await marks_up_to(client, stream, 1)
        server.kill()
        server.start()
        await write(writer, 2)
        found = await marks_up_to(client, stream, 2)
        assert [each.lower for each in found] == [1, 2]
        assert found[-1].offsets() == (await client.tail_cut("test", stream)).offsets


async def test_what_has_no_watermarks_says_so(client, stream):
    await client.create_stream("test", stream)
    assert [each async for each in client.watermarks("test", stream)] == []
    with pytest.raises(NoSuchStreamError):
        _ = [each async for each in client.watermarks("test", "absent")]


def test_threads_note_times_and_see_windows(server, stream):
    with connect_blocking(server.uri) as client:
        client.create_scope("test")
        client.create_stream("test", stream, PATIENT)
        with client.event_writer("test", stream, writer_id="thread") as writer:
            assert writer.writer_id == "thread"
            for number in range(100):
                writer.write(b"event", f"key-{number}")
            writer.note_time(3)
            while not list(client.watermarks("test", stream)):
                pass
            (mark,) = client.watermarks("test", stream)
            assert (mark.lower, mark.offsets()) == (3, client.tail_cut("test", stream).offsets)
            windows = client.time_windows("test", stream)
            assert windows.advance(client.head_cut("test", stream)) == TimeWindow(None, 3)
            assert windows.advance(client.tail_cut("test", stream)) == TimeWindow(3, None)
