"""Where a stream was at a time, by a real server that samples often."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from headrace.cli.main import main
from headrace.client import KeyRange, blocking, connect
from headrace.errors import InvalidArgumentError, NoSuchStreamError
from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

OFTEN = {"HEADRACE_CONTROLLER__CUT_SERIES__PERIOD_S": "0.05"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server"), "--in-memory", environment=OFTEN) as running:
        with blocking.connect(running.uri) as client:
            client.create_scope("s")
        yield running


@pytest.fixture
async def client(server):
    async with connect(server.uri) as running:
        yield running


async def write(client, stream, events):
    async with client.event_writer("s", stream) as writer:
        for event in events:
            await writer.write(event, event.decode())


async def read(client, stream, start):
    async with client.event_reader("s", stream, start=start, end="tail") as reader:
        return sorted([event.data async for event in reader])


async def when_sampled(client, stream):
    """Return a time at which everything written so far is in a sample."""
    tail = await client.tail_cut("s", stream)
    async with asyncio.timeout(30):
        while (found := await client.cut_at("s", stream, now_ms())).cut != tail:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return max(now_ms(), found.time_ms)


def now_ms():
    return time.time_ns() // 1_000_000


FIRST = [b"a%d" % number for number in range(50)]
SECOND = [b"b%d" % number for number in range(50)]
THIRD = [b"c%d" % number for number in range(50)]


async def test_reading_from_a_time_yields_what_came_after_it(client):
    await client.create_stream("s", "plain")
    before = now_ms()
    await write(client, "plain", FIRST)
    between = await when_sampled(client, "plain")
    await write(client, "plain", SECOND)
    found = await client.cut_at("s", "plain", datetime.fromtimestamp(between / 1000, UTC))
    assert not found.is_head
    assert found.time_ms <= between
    assert await read(client, "plain", found.cut) == sorted(SECOND)
    earlier = await client.cut_at("s", "plain", before - 60_000)
    assert (earlier.is_head, earlier.time_ms) == (True, None)
    assert await read(client, "plain", earlier.cut) == sorted(FIRST + SECOND)


async def test_it_does_so_across_a_scale_and_after_a_truncation(client):
    await client.create_stream("s", "scaled")
    await write(client, "scaled", FIRST)
    first = await when_sampled(client, "scaled")
    halves = [KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)]
    await client.scale_stream("s", "scaled", [0], halves)
    await write(client, "scaled", SECOND)
    second = await when_sampled(client, "scaled")
    await write(client, "scaled", THIRD)
    cuts = [(await client.cut_at("s", "scaled", each)).cut for each in (first, second)]
    assert [len(cut.offsets) for cut in cuts] == [1, 2]
    assert await read(client, "scaled", cuts[0]) == sorted(SECOND + THIRD)
    assert await read(client, "scaled", cuts[1]) == sorted(THIRD)
    await client.truncate_stream(cuts[1])
    found = await client.cut_at("s", "scaled", first)
    assert found.is_head
    assert await read(client, "scaled", found.cut) == sorted(THIRD)


async def test_a_part_between_times_is_read_by_every_face(client, server):
    await client.create_stream("s", "parted")
    await write(client, "parted", FIRST)
    first = await when_sampled(client, "parted")
    await write(client, "parted", SECOND)
    second = await when_sampled(client, "parted")
    await write(client, "parted", THIRD)
    since, until = (datetime.fromtimestamp(each / 1000, UTC) for each in (first, second))

    async def told(**part):
        return sorted([event.data async for event in client.read("s/parted", **part)])

    assert await told(since=since) == sorted(SECOND + THIRD)
    assert await told(until=until) == sorted(FIRST + SECOND)
    assert await told(since=since, until=until) == sorted(SECOND)
    assert await told(since=first, until=until.isoformat()) == sorted(SECOND)
    assert await told(since="1h", until=now_ms() + 60_000) == sorted(FIRST + SECOND + THIRD)
    assert await told(since=timedelta(hours=1), until=since) == sorted(FIRST)
    for wrong in ({"since": until, "until": since}, {"until": until, "follow": True}):
        with pytest.raises(InvalidArgumentError):
            await told(**wrong)

    def blocking_face():
        with blocking.connect(server.uri) as threads:
            parted = threads.stream("s/parted")
            assert sorted(event.data for event in parted.read(since=since, until=until)) == sorted(SECOND)
            table = parted.to_arrow(since=since, until=until)
            assert sorted(table["event"].to_pylist()) == sorted(SECOND)

    await asyncio.to_thread(blocking_face)


async def test_what_cannot_be_asked_is_refused(client):
    with pytest.raises(NoSuchStreamError):
        await client.cut_at("s", "none", 1)
    await client.create_stream("s", "refusing")
    for time_ms in (-1, 1 << 63, 0, now_ms() // 1000, now_ms() + 3_600_000):
        with pytest.raises(InvalidArgumentError):
            await client.cut_at("s", "refusing", time_ms)


async def test_the_command_line_reads_since_a_time(client, server, capfdbinary):
    await client.create_stream("s", "told")
    await write(client, "told", FIRST)
    between = await when_sampled(client, "told")
    await write(client, "told", SECOND)

    def run(*words):
        assert main([*words, "--uri", server.uri]) == 0
        captured = capfdbinary.readouterr()
        return captured.out.split(), captured.err

    def told():
        at = datetime.fromtimestamp(between / 1000, UTC).isoformat()
        assert sorted(run("event", "read", "s/told", "--since", at)[0]) == sorted(SECOND)
        assert sorted(run("event", "read", "s/told", "--until", at)[0]) == sorted(FIRST)
        assert sorted(run("event", "read", "s/told", "--since", "1h", "--until", at)[0]) == sorted(FIRST)
        assert run("event", "read", "s/told", "--since", at, "--until", at)[0] == []
        assert sorted(run("event", "read", "s/told", "--since", "1h")[0]) == sorted(FIRST + SECOND)
        (text,), _ = run("stream", "cut", "s/told", "--at", str(between))
        assert sorted(run("event", "read", "s/told", "--from", text.decode())[0]) == sorted(SECOND)
        assert b"this is its head" in run("stream", "cut", "s/told", "--at", "1h")[1]
        (tail,), _ = run("stream", "cut", "s/told")
        assert run("event", "read", "s/told", "--from", tail.decode())[0] == []

    await asyncio.to_thread(told)
