"""Many of everything: one more costs what the first one did, and memory grows by what they need.

The long form (``make soak``) makes many times as many and judges processor time too: of a few hundred it
is some tenths of a second, of which a busy machine may add as many again. ``TESTS_MANY=10000`` makes it
ten thousand of each.
"""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration, connect
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.tables import NO_VERSION, TableEntry
from headrace.testing import LocalServer
from headrace.wire import commands as c
from tests import programs
from tests.effort import examples, is_long
from tests.integration.test_bad_input import Raw

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MANY = int(os.environ.get("TESTS_MANY", examples(600)))
AT_A_TIME = 8
GROWTH_MAX = 3.0
"""How many times the cost of the first half the second one may take: little enough to notice a square."""


class Meter:
    """Processor time and memory of a server, at some moments."""

    def __init__(self, server):
        self._process = Path(f"/proc/{server.process.pid}")
        self.cpu_s, self.memory = [self._cpu_s()], [self._memory()]

    def _cpu_s(self):
        fields = (self._process / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory(self):
        return int((self._process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def mark(self):
        self.cpu_s.append(self._cpu_s())
        self.memory.append(self._memory())

    def check(self, bytes_each, count):
        first, second = (after - before for before, after in zip(self.cpu_s, self.cpu_s[1:], strict=False))
        if is_long():
            assert second <= GROWTH_MAX * first + 0.3
        assert self.memory[-1] - self.memory[0] < 48 * (1 << 20) + bytes_each * count


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = LocalServer(tmp_path_factory.mktemp("many"))
    server.popen = subprocess.Popen  # its memory is its own
    with server as running:
        yield running
        assert running.stop() == 0
        running.popen = programs.Popen
        running.start()  # and recovery takes all of it
        assert running.stop() == 0


@pytest.fixture
async def client(server):
    async with connect(server.uri) as connected:
        for scope in ("demo", "streams"):
            await connected.create_scope(scope)
        yield connected


async def in_halves(server, one):
    """Call ``one`` with every number below ``MANY``, some at a time; measure both halves."""
    meter = Meter(server)
    for half in (range(MANY // 2), range(MANY // 2, MANY)):
        numbers = iter(half)

        async def work(numbers=numbers):
            for number in numbers:
                await one(number)

        await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
        meter.mark()
    return meter


async def test_streams(server, client):
    meter = await in_halves(server, lambda number: client.create_stream("streams", f"stream-{number}"))
    meter.check(16_384, MANY)
    assert len([stream async for stream in client.list_streams("streams")]) == MANY


async def test_segments_of_one_stream(server, client):
    fixed = StreamConfiguration(scaling=ScalingPolicy.fixed(MANY))
    meter = Meter(server)
    await client.create_stream("demo", "stream", fixed)
    await client.scale_stream("demo", "stream", range(MANY), split_evenly(FULL_RANGE, MANY))
    meter.mark()
    for epoch in (1, 2):
        first = (await client.current_segments("demo", "stream"))[0].segment_id
        assert first >> 32 == epoch
        current = [each.segment_id for each in await client.current_segments("demo", "stream")]
        await client.scale_stream("demo", "stream", current, split_evenly(FULL_RANGE, MANY))
    meter.mark()
    meter.check(16_384, 4 * MANY)
    keys = [str(number) for number in range(MANY)]
    async with client.event_writer("demo", "stream") as writer:
        await writer.write_many([key.encode() for key in keys], keys)
    await client.seal_stream("demo", "stream")
    async with client.event_reader("demo", "stream") as reader:
        found = [payload.decode() async for batch in reader.batches() for payload in batch.payloads()]
    assert sorted(found) == sorted(keys)
    assert await client.delete_stream("demo", "stream")


async def test_transactions(server, client):
    await client.create_stream("demo", "committed")
    async with client.txn_writer("demo", "committed") as writer:

        async def one(number):
            transaction = await writer.begin()
            await transaction.write(b"%d" % number, "key")
            await transaction.commit(wait=number % 100 == 0)

        meter = await in_halves(server, one)
        last = await writer.begin()
        await last.write(b"last", "key")
        await last.commit(wait=True)  # decided last, so it is committed last
    meter.check(16_384, MANY)
    async with client.event_reader("demo", "committed", end="tail") as reader:
        found = [payload async for batch in reader.batches() for payload in batch.payloads()]
    assert found.pop() == b"last"
    assert sorted(map(int, found)) == list(range(MANY))


async def test_keys_of_a_table(server, client):
    table, rows = "demo/table_kvtable/0.#epoch.0", 10
    raw = await Raw.open(server)
    assert isinstance(await raw.ask(c.CreateTableSegment(1, table, "")), c.SegmentCreated)
    lock = asyncio.Lock()

    async def one(number):
        entries = [TableEntry(b"key-%d-%d" % (number, row), b"v" * 100, NO_VERSION) for row in range(rows)]
        async with lock:
            assert isinstance(
                await raw.ask(c.UpdateTableEntries(1, table, "", entries)), c.TableEntriesUpdated
            )

    meter = await in_halves(server, one)
    meter.check(4096, rows * MANY)
    token, keys = b"", set()
    while True:
        page = await raw.ask(c.ReadTableKeys(1, table, "", 1000, token))
        if not page.keys:
            break
        keys.update(bytes(key.key) for key in page.keys)
        token = bytes(page.continuation_token)
    assert len(keys) == rows * MANY
    raw.drop()
