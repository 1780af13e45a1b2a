"""Many clients that do not get on, against a real server: its memory stays small, and others are served."""

import asyncio
import json
import urllib.request
from pathlib import Path

import pytest

from headrace.model.tables import TableEntry, TableKey
from headrace.testing import LocalServer
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode
from tests.certificates import CertificateFiles
from tests.effort import soak

pytestmark = pytest.mark.cluster

SEGMENT = "demo/stream/0.#epoch.0"
TABLE = "demo/_kvtable/t/0.#epoch.0"
MIB = 1 << 20
PATIENCE_S = 120


@pytest.fixture
def stall_s():
    """The server closes who keeps others waiting for so many seconds, or a sixth of them without a byte."""
    return 6


@pytest.fixture(params=["plain", "tls"])
def server(request, tmp_path, stall_s):
    environment = {
        "HEADRACE_CONNECTION_BYTES_MAX": "64 MiB",
        "HEADRACE_CONNECTION_STALL_S": str(stall_s),
    }
    files = CertificateFiles(tmp_path / "certificates")
    encrypts = request.param == "tls"
    arguments = files.arguments if encrypts else ()
    with LocalServer(tmp_path, "--containers", "1", *arguments, environment=environment) as running:
        running.tls = files.trusting() if encrypts else None
        yield running
        assert running.stop() == 0


class Client:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.decoder = FrameDecoder.for_client()

    @classmethod
    async def open(cls, server):
        host, _, port = server.addresses["segmentstore"].partition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=4096, ssl=server.tls))

    async def ask(self, command):
        self.writer.write(encode(command))
        async with asyncio.timeout(PATIENCE_S):
            while (reply := self.decoder.next_command()) is None:
                self.decoder.feed(await self.reader.read(1 << 16))
        return reply

    async def append(self, number, size):
        return await self.ask(c.AppendBlockEnd(bytes(16), size, bytes(size), 1, number, number))


def resident_mib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def listener(server):
    with urllib.request.urlopen(f"{server.rest_url}/v1/debug/statistics", context=server.tls) as answer:
        return json.load(answer)["listener"]


async def until(condition):
    for _ in range(PATIENCE_S * 20):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never happened")


def settles(read):
    """A condition: ``read()`` gives what it gave the last twenty times, for a server may have to wait for its
    turn on a busy machine.
    """
    seen = []

    def has_settled():
        seen.append(read())
        return len(seen) >= 20 and len(set(seen[-20:])) == 1

    return has_settled


@pytest.mark.slow
@pytest.mark.parametrize("stall_s", [3])
@pytest.mark.parametrize("server", ["tls"], indirect=True)
async def test_clients_that_send_most_of_a_large_frame(server):
    good = await Client.open(server)
    await good.ask(c.CreateSegment(1, SEGMENT, 0, 0, ""))
    await good.ask(c.SetupAppend(2, bytes(16), SEGMENT, ""))
    before = resident_mib(server)
    most = encode(c.AppendBlock(bytes(15) + b"x", bytes(8 * MIB)))[: 7 * MIB]
    stalled = [await Client.open(server) for _ in range(30)]
    for client in stalled:
        client.writer.write(most)
    await until(lambda: listener(server)["memory_waits"] >= 27)
    assert listener(server)["receive_bytes_lent"] <= 24 * MIB
    assert resident_mib(server) - before < 100, "210 MiB were sent, and are in the sockets"
    for number in range(1, 50):
        assert isinstance(await good.append(number, 1000), c.DataAppended)
    assert isinstance(await good.append(50, 2 * MIB), c.DataAppended), "behind all of them"
    assert listener(server)["connections_stalled"] >= 25
    for client in stalled:
        client.writer.transport.abort()
    good.writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("stall_s", [600])
async def test_clients_that_do_not_take_what_they_ask_for(server):
    good = await Client.open(server)
    await good.ask(c.CreateSegment(1, SEGMENT, 0, 0, ""))
    await good.ask(c.SetupAppend(2, bytes(16), SEGMENT, ""))
    for number in range(1, 25):
        await good.append(number, 2 * MIB)
    before = resident_mib(server)
    slow = [await Client.open(server) for _ in range(60)]
    for client in slow:
        client.reader._transport.pause_reading()
        for number in range(16):
            client.writer.write(encode(c.ReadSegment(SEGMENT, 2 * number % 40 * MIB, 2 * MIB, "", number)))
    await until(lambda: listener(server)["unsent_bytes"] > 24 * MIB)
    await until(settles(lambda: (listener(server)["reads"], listener(server)["unsent_bytes"])))
    assert listener(server)["unsent_bytes"] < 40 * MIB, "1.9 GiB were asked for"
    assert resident_mib(server) - before < 80, "less than the clients may have, and sockets have the rest"
    reply = await good.ask(c.ReadSegment(SEGMENT, 5, 2 * MIB, "", 3))
    assert isinstance(reply, c.SegmentRead)
    assert reply.data, "a short answer if there is no memory; sockets may have taken some meanwhile"
    for client in slow:
        client.writer.transport.abort()
    await until(lambda: listener(server)["unsent_bytes"] == 0)
    assert len((await good.ask(c.ReadSegment(SEGMENT, 5, 2 * MIB, "", 3))).data) > 64 << 10
    good.writer.close()


@soak
@pytest.mark.slow
async def test_clients_that_do_not_take_the_tables_that_they_ask_for(server):
    good = await Client.open(server)
    await good.ask(c.CreateTableSegment(1, TABLE, ""))
    keys = [TableKey(b"key %d" % number) for number in range(12)]
    for number, key in enumerate(keys):
        await good.ask(c.UpdateTableEntries(number, TABLE, "", [TableEntry(key.key, bytes(1_000_000))]))
    await good.ask(c.UpdateTableEntries(100, TABLE, "", [TableEntry(b"small", b"value")]))
    before = resident_mib(server)
    slow = [await Client.open(server) for _ in range(12)]
    for number, client in enumerate(slow):
        client.reader._transport.pause_reading()
        if number % 2:
            client.writer.write(encode(c.ReadTableEntries(number, TABLE, "", 100)))
        else:
            client.writer.write(encode(c.ReadTable(number, TABLE, "", keys)))
    await until(lambda: listener(server)["requests"] >= 14 + len(slow))
    await until(settles(lambda: listener(server)["table_reply_bytes"]))
    assert 4 * MIB < listener(server)["table_reply_bytes"] <= 24 * MIB
    assert resident_mib(server) - before < 60, "84 MB were asked for"
    reply = await good.ask(c.ReadTable(101, TABLE, "", [TableKey(b"small")]))
    assert reply.entries[0].value == b"value"
    page = await good.ask(c.ReadTableEntries(102, TABLE, "", 100))
    # Each table has an order of its own: the small one may be the first.
    assert 0 < sum(len(entry.value) for entry in page.entries) <= 2_000_005
    reply = await good.ask(c.ReadTable(103, TABLE, "", keys))
    assert [len(entry.value) for entry in reply.entries] == [1_000_000] * 12
    assert listener(server)["connections_stalled"]
    for client in slow:
        client.writer.transport.abort()
    await until(lambda: listener(server)["unsent_bytes"] == listener(server)["table_reply_bytes"] == 0)
    good.writer.close()
