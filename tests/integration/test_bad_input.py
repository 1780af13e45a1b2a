"""What a hostile or broken client sends: a documented answer or a closed connection, and nothing changes."""

import asyncio
import random
import struct
from pathlib import Path

import grpc
import pytest

from headrace.client import KeyRange, StreamCut, connect
from headrace.errors import (
    EventTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchScopeError,
    NoSuchStreamError,
)
from headrace.model.attributes import CREATION_TIME, EVENT_COUNT, SEGMENT_TYPE
from headrace.model.segment_id import make_segment_id
from headrace.model.tables import NO_VERSION, TableEntry, TableKey
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.testing import LocalServer
from headrace.wire import commands as c
from headrace.wire.catalogue import VERSION, VERSION_OLDEST
from headrace.wire.frames import FrameDecoder, encode

pytestmark = pytest.mark.cluster

SEGMENT = "demo/stream/0.#epoch.0"
WRITER = bytes(range(16))
KIB = 1 << 10
MIB = 1 << 20
HEAD = struct.Struct(">ii")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("bad-input"), "--containers", "2") as running:
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in running.log()
        assert running.stop() == 0


class Raw:
    """A connection that sends whatever it is told to."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.decoder = FrameDecoder.for_client()

    @classmethod
    async def open(cls, server, *, greet=True):
        host, _, port = server.addresses["segmentstore"].partition(":")
        raw = cls(*await asyncio.open_connection(host, int(port)))
        if greet:
            assert isinstance(await raw.ask(c.Hello(VERSION, VERSION_OLDEST)), c.Hello)
        return raw

    def send(self, *what):
        for each in what:
            self.writer.write(each if isinstance(each, bytes) else encode(each))

    async def receive(self):
        """Return the next reply, None if the server closed the connection."""
        async with asyncio.timeout(120):
            while (reply := self.decoder.next_command()) is None:
                try:
                    data = await self.reader.read(1 << 16)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self.decoder.feed(data)
            return reply

    async def ask(self, *what):
        self.send(*what)
        return await self.receive()

    async def set_up(self, writer=WRITER, segment=SEGMENT):
        reply = await self.ask(c.SetupAppend(1, writer, segment, ""))
        assert isinstance(reply, c.AppendSetup)
        return reply.last_event_number

    async def closed(self, *what):
        """Send, and tell whether the server closes the connection without a word."""
        self.send(*what)
        return await self.receive() is None

    def drop(self):
        self.writer.transport.abort()


@pytest.fixture
async def raw(server):
    connection = await Raw.open(server)
    yield connection
    connection.drop()


@pytest.fixture
async def client(server):
    async with connect(server.uri) as connected:
        await connected.create_scope("demo")
        await connected.create_stream("demo", "stream")
        yield connected


@pytest.fixture
async def unchanged(client, server):
    """Whatever the test does leaves the stream as it was, and the server serves others."""
    async with client.event_writer("demo", "stream") as writer:
        await writer.write(b"before", "key")
    before = await state(client)
    yield
    assert await state(client) == before
    async with client.event_writer("demo", "stream") as writer:
        await writer.write(b"after", "key")


async def state(client):
    info = await client.segment_info("demo", "stream", 0)
    return (
        await client.stream_info("demo", "stream"),
        (info.start_offset, info.length, info.sealed),
        await client.current_segments("demo", "stream"),
        sorted([scope async for scope in client.list_scopes()]),
        sorted([stream async for stream in client.list_streams("demo")]),
    )


@pytest.fixture
async def stub(server):
    async with grpc.aio.insecure_channel(server.addresses["controller"]) as channel:
        yield ControllerServiceStub(channel)


def append(data=b"data", *, number=1, events=1, writer=WRITER, whole=None, request=7):
    return c.AppendBlockEnd(writer, len(data) if whole is None else whole, data, events, number, request)


async def refusal(call):
    """Return the status of a control call, -1 if it was refused with a code that no client repeats."""
    try:
        return (await call).status
    except grpc.aio.AioRpcError as error:
        if error.code() not in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT}:
            raise
        return -1


# ------------------------------------------------------------------------------------------ control plane

ILLEGAL = [
    "",
    "under_score",
    "a/b",
    "a b",
    "x\0y",
    "ünïcode",
    "雪",
    "n" * 300,
    "a" * 256,
    "_",
    "..\\..",
    "%2e",
    "a\nb",
]


@pytest.mark.parametrize("name", ILLEGAL)
async def test_an_illegal_name_is_refused_by_the_controller_itself(stub, unchanged, name):
    """The client checks names as well; here it is not asked."""
    reply = await stub.createScope(pb.ScopeInfo(scope=name), timeout=120)
    assert reply.status == pb.CreateScopeStatus.INVALID_SCOPE_NAME
    config = pb.StreamConfig(
        streamInfo=pb.StreamInfo(scope="demo", stream=name),
        scalingPolicy=pb.ScalingPolicy(scaleType=pb.ScalingPolicy.FIXED_NUM_SEGMENTS, minNumSegments=1),
    )
    reply = await stub.createStream(config, timeout=120)
    assert reply.status == pb.CreateStreamStatus.INVALID_STREAM_NAME
    for call in (stub.sealStream, stub.deleteStream, stub.getStreamConfiguration, stub.getCurrentSegments):
        assert await refusal(call(pb.StreamInfo(scope="demo", stream=name), timeout=120)) != 0


@pytest.mark.parametrize("name", ILLEGAL)
async def test_an_illegal_name_is_refused_by_the_client_before_it_is_sent(client, name):
    with pytest.raises(InvalidArgumentError):
        await client.create_scope(name)
    with pytest.raises(InvalidArgumentError):
        await client.create_stream("demo", name)


async def test_what_is_missing_is_named_and_what_exists_stays(client, unchanged):
    assert not await client.create_scope("demo")
    assert not await client.create_stream("demo", "stream")
    assert not await client.delete_scope("missing")
    assert not await client.delete_stream("demo", "missing")
    with pytest.raises(NoSuchScopeError):
        await client.create_stream("missing", "stream")
    for refused in (
        client.seal_stream("demo", "missing"),
        client.truncate_stream(StreamCut.from_offsets("demo", "missing", {0: 0})),
        client.stream_configuration("demo", "missing"),
        client.stream_info("missing", "missing"),
        client.head_cut("demo", "missing"),
    ):
        with pytest.raises(NoSuchStreamError):
            await refused


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(0.0, 0.5)],
        [(0.0, 0.5), (0.4, 1.0)],
        [(0.0, 0.4), (0.5, 1.0)],
        [(0.5, 1.0), (0.5, 1.0)],
        [(0.0, 0.0), (0.0, 1.0)],
        [(0.5, 0.25), (0.25, 1.0)],
        [(-0.5, 0.5), (0.5, 1.0)],
        [(0.0, 0.5), (0.5, 1.5)],
        [(float("nan"), 0.5), (0.5, 1.0)],
        [(0.0, float("inf"))],
    ],
)
async def test_ranges_that_do_not_fit_scale_nothing(stub, unchanged, ranges):
    entries = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in ranges]
    assert await scale_status(stub, [0], entries) != pb.ScaleResponse.STARTED


@pytest.mark.parametrize("sealed", [[5], [make_segment_id(7, 3)], [-1], [0, 0], [1 << 62]])
async def test_a_scale_of_unknown_segments_scales_nothing(stub, unchanged, sealed):
    entries = [pb.ScaleRequest.KeyRangeEntry(start=0.0, end=1.0)]
    assert await scale_status(stub, sealed, entries) != pb.ScaleResponse.STARTED


async def scale_status(stub, sealed, entries):
    request = pb.ScaleRequest(
        streamInfo=pb.StreamInfo(scope="demo", stream="stream"), sealedSegments=sealed, newKeyRanges=entries
    )
    return await refusal(stub.scale(request, timeout=120))


@pytest.mark.parametrize(
    "offsets",
    [{}, {1: 0}, {make_segment_id(9, 9): 0}, {0: 1 << 40}, {0: -5}, {0: 0, 1: 0}, {-3: 0}],
)
async def test_a_cut_that_does_not_fit_truncates_nothing(stub, unchanged, offsets):
    request = pb.StreamCut(streamInfo=pb.StreamInfo(scope="demo", stream="stream"), cut=offsets)
    assert await refusal(stub.truncateStream(request, timeout=120)) in {pb.UpdateStreamStatus.FAILURE, -1}


async def test_a_cut_of_another_stream_truncates_nothing(client, unchanged):
    await client.create_stream("demo", "another")
    await client.scale_stream("demo", "another", [0], [KeyRange(0.0, 1.0)])
    tail = await client.tail_cut("demo", "another")
    with pytest.raises(HeadraceError):
        await client.truncate_stream(StreamCut.from_offsets("demo", "stream", tail.offsets))
    await client.seal_stream("demo", "another")
    await client.delete_stream("demo", "another")


async def test_garbage_on_the_port_of_control_calls_closes_only_that_connection(server, unchanged):
    host, _, port = server.addresses["controller"].partition(":")
    for seed in range(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(random.Random(seed).randbytes(3000))
        try:
            async with asyncio.timeout(120):
                while await reader.read(4096):
                    pass
        except ConnectionError:
            pass
        writer.close()


# ------------------------------------------------------------------------------------------ frames


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(HEAD.pack(9999, 0), id="unknown command"),
        pytest.param(HEAD.pack(7, 48) + bytes(48), id="a reply"),
        pytest.param(HEAD.pack(9, -1), id="negative length"),
        pytest.param(HEAD.pack(9, 16 * MIB), id="a frame above 16 MiB"),
        pytest.param(HEAD.pack(4, 0x7FFFFFFF), id="an append of 2 GiB"),
        pytest.param(HEAD.pack(9, 3) + b"abc", id="a payload that is too short"),
        pytest.param(HEAD.pack(11, 12) + bytes(8) + b"\xff\xff\0\0", id="a string beyond its payload"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(200), id="tls"),
        pytest.param(HEAD.pack(-2, 4) + b"part", id="a partial event outside of a block"),
    ],
)
async def test_what_is_no_command_closes_the_connection(raw, unchanged, garbage):
    assert await raw.closed(garbage)


@pytest.mark.parametrize("seed", range(10))
async def test_random_bytes_close_the_connection_or_wait_for_more(server, unchanged, seed):
    raw = await Raw.open(server, greet=False)
    raw.send(random.Random(seed).randbytes(5000))
    raw.writer.write_eof()
    while await raw.receive() is not None:
        pass
    raw.drop()


async def test_a_frame_that_never_ends_changes_nothing(server, unchanged):
    frame = encode(append(bytes(100_000)))
    for end in (1, 7, 8, 30, 99_000):
        raw = await Raw.open(server)
        await raw.set_up()
        raw.send(frame[:end])
        raw.writer.write_eof()
        assert await raw.receive() is None
        raw.drop()


async def test_appends_that_break_the_rules_close_the_connection(server, unchanged):
    stranger = b"x" * 16
    cases = [
        [append(writer=stranger)],
        [append(events=0)],
        [append(events=-5)],
        [append(number=-1)],
        [c.AppendBlock(WRITER, b"abc"), append(b"", whole=4)],
        [c.AppendBlock(WRITER, b"abc"), append(b"", whole=-1)],
        [c.AppendBlock(WRITER, b"abc"), append(b"", writer=stranger)],
        [c.AppendBlock(WRITER, b"abc"), c.KeepAlive()],
        [c.AppendBlock(WRITER, b"abc" + HEAD.pack(5, 0)), append(b"", whole=3)],
        [c.AppendBlock(WRITER, b"abc" + HEAD.pack(-1, 0)), append(b"tail", whole=3)],
        [c.ConditionalBlockEnd(stranger, 1, 0, b"x", 1)],
    ]
    for case in cases:
        raw = await Raw.open(server)
        await raw.set_up()
        assert await raw.closed(*case), case
        raw.drop()


async def test_a_number_that_goes_back_is_told_and_ends_the_connection(raw, client):
    last = await raw.set_up(b"n" * 16)
    assert last < 0
    assert isinstance(await raw.ask(append(number=10, writer=b"n" * 16)), c.DataAppended)
    before = await state(client)
    assert await raw.closed(append(number=3, writer=b"n" * 16))
    assert await state(client) == before


async def test_two_connections_of_one_writer_do_not_write_twice(server, client):
    writer = b"t" * 16
    first, second = await Raw.open(server), await Raw.open(server)
    await first.set_up(writer)
    await second.set_up(writer)
    assert isinstance(await first.ask(append(number=1, writer=writer)), c.DataAppended)
    before = await state(client)
    reply = await second.ask(append(number=1, writer=writer))
    assert isinstance(reply, c.InvalidEventNumber)
    assert await second.receive() is None
    assert await state(client) == before
    first.drop()


# ------------------------------------------------------------------------------------------ requests


async def test_reads_at_offsets_that_cannot_be_are_refused(raw, unchanged):
    assert isinstance(await raw.ask(c.ReadSegment(SEGMENT, -1, 100, "", 1)), c.ErrorMessage)
    reply = await raw.ask(c.ReadSegment("demo/none/0.#epoch.0", 5, 100, "", 1))
    assert isinstance(reply, c.NoSuchSegment)
    assert reply.offset == 5
    reply = await raw.ask(c.TruncateSegment(2, SEGMENT, 1 << 50, ""))
    assert isinstance(reply, c.SegmentIsTruncated)
    reply = await raw.ask(c.TruncateSegment(2, SEGMENT, -1, ""))
    assert isinstance(reply, c.SegmentIsTruncated)


@pytest.mark.parametrize(
    "name", ["", "x" * 60_000, "no/such/0.#epoch.0", "\ud7ff", "a//b//c", "../../etc/passwd"]
)
async def test_requests_about_strange_segments_are_answered(raw, unchanged, name):
    requests = [
        c.GetStreamSegmentInfo(1, name, ""),
        c.SealSegment(2, name, ""),
        c.DeleteSegment(3, name, ""),
        c.TruncateSegment(4, name, 0, ""),
        c.GetSegmentAttribute(5, name, WRITER, ""),
        c.UpdateSegmentAttribute(6, name, WRITER, 1, 2, ""),
        c.SetupAppend(7, WRITER, name, ""),
        c.MergeSegments(8, SEGMENT, name, ""),
        c.MergeSegments(9, name, SEGMENT, ""),
        c.DeleteTableSegment(10, name, False, ""),
        c.LocateOffset(11, name, 0, ""),
        c.UpdateSegmentPolicy(12, name, 1, 1, ""),
    ]
    for request in requests:
        reply = await raw.ask(request)
        assert isinstance(reply, c.NoSuchSegment | c.ErrorMessage), (request, reply)


async def test_a_segment_of_an_illegal_name_is_not_made(raw, unchanged):
    for name in ("", "x" * 60_000, "nul\0"):
        assert isinstance(await raw.ask(c.CreateSegment(1, name, 0, 0, "")), c.ErrorMessage)
        assert isinstance(await raw.ask(c.CreateTableSegment(1, name, "")), c.ErrorMessage)


async def test_a_table_is_no_stream_and_a_stream_no_table(raw, unchanged):
    table = "demo/table_kvtable/0.#epoch.0"
    reply = await raw.ask(c.CreateTableSegment(1, table, ""))
    assert isinstance(reply, c.SegmentCreated | c.SegmentAlreadyExists)
    entry, key = TableEntry(b"key", b"value", NO_VERSION), TableKey(b"key", NO_VERSION)
    for request in (
        c.UpdateTableEntries(1, SEGMENT, "", [entry]),
        c.RemoveTableKeys(1, SEGMENT, "", [key]),
        c.ReadTable(1, SEGMENT, "", [key]),
        c.ReadTableKeys(1, SEGMENT, "", 10),
        c.ReadTableEntries(1, SEGMENT, "", 10),
        c.ReadTableEntriesDelta(1, SEGMENT, "", 0, 10),
        c.GetTableSegmentInfo(1, SEGMENT, ""),
        c.DeleteTableSegment(1, SEGMENT, False, ""),
        c.ReadSegment(table, 0, 100, "", 1),
        c.SetupAppend(1, WRITER, table, ""),
        c.TruncateSegment(1, table, 0, ""),
        c.SealSegment(1, table, ""),
        c.MergeSegments(1, SEGMENT, table, ""),
        c.MergeSegments(1, table, SEGMENT, ""),
    ):
        reply = await raw.ask(request)
        assert isinstance(reply, c.OperationUnsupported | c.ErrorMessage), (request, reply)
    updated = await raw.ask(c.UpdateTableEntries(1, table, "", [entry]))
    assert isinstance(updated, c.TableEntriesUpdated)


async def test_a_merge_never_mixes_tables_with_bytes_nor_a_segment_with_itself(raw, unchanged):
    """A name with a suffix lives in the container of the part in front of it, where merging is possible."""
    table = "demo/merged_kvtable/0.#epoch.0"
    beside_table, beside_stream = table + "#transaction.0", SEGMENT + "#transaction.0"
    assert isinstance(await raw.ask(c.CreateTableSegment(1, table, "")), c.SegmentCreated)
    assert isinstance(await raw.ask(c.CreateTableSegment(1, beside_stream, "")), c.SegmentCreated)
    assert isinstance(await raw.ask(c.CreateSegment(1, beside_table, 0, 0, "")), c.SegmentCreated)
    entry = TableEntry(b"key", b"value", NO_VERSION)
    for name in (table, beside_stream):
        assert isinstance(await raw.ask(c.UpdateTableEntries(1, name, "", [entry])), c.TableEntriesUpdated)
    await raw.set_up(segment=beside_table)
    assert isinstance(await raw.ask(append(b"no entry at all")), c.DataAppended)
    for target, source in (
        (table, beside_table),
        (SEGMENT, beside_stream),
        (SEGMENT, SEGMENT),
        (table, table),
    ):
        for request in (
            c.MergeSegments(1, target, source, ""),
            c.MergeSegmentsBatch(1, target, [source], ""),
        ):
            reply = await raw.ask(request)
            assert isinstance(reply, c.OperationUnsupported | c.ErrorMessage), (request, reply)
    for name in (table, beside_stream):
        reply = await raw.ask(c.ReadTable(1, name, "", [TableKey(b"key", NO_VERSION)]))
        assert [bytes(found.value) for found in reply.entries] == [b"value"]
        assert isinstance(await raw.ask(c.DeleteTableSegment(1, name, False, "")), c.SegmentDeleted)


async def test_attributes_of_the_store_are_not_for_clients(raw, unchanged):
    for attribute in (EVENT_COUNT, SEGMENT_TYPE, CREATION_TIME):
        value = (await raw.ask(c.GetSegmentAttribute(1, SEGMENT, attribute, ""))).value
        reply = await raw.ask(c.UpdateSegmentAttribute(2, SEGMENT, attribute, 5, value, ""))
        assert isinstance(reply, c.ErrorMessage)
        assert isinstance(await raw.ask(c.SetupAppend(3, attribute, SEGMENT, "")), c.ErrorMessage)
        assert (await raw.ask(c.GetSegmentAttribute(4, SEGMENT, attribute, ""))).value == value


async def test_keys_of_a_wrong_length_change_no_table(raw):
    fixed, hashed = "demo/fixed_kvtable/0.#epoch.0", "demo/hashed_kvtable/0.#epoch.0"
    assert isinstance(await raw.ask(c.CreateTableSegment(1, fixed, "", False, 4)), c.SegmentCreated)
    assert isinstance(await raw.ask(c.CreateTableSegment(1, hashed, "")), c.SegmentCreated)
    assert isinstance(await raw.ask(c.CreateTableSegment(1, fixed + "x", "", False, 257)), c.ErrorMessage)
    assert isinstance(await raw.ask(c.CreateTableSegment(1, fixed + "y", "", False, -1)), c.ErrorMessage)
    good = TableEntry(b"good", b"v", NO_VERSION)
    for table, bad in (
        (fixed, TableEntry(b"abc", b"v", NO_VERSION)),
        (fixed, TableEntry(b"abcde", b"v", NO_VERSION)),
        (hashed, TableEntry(b"k" * 8193, b"v", NO_VERSION)),
        (hashed, TableEntry(b"key", bytes(MIB), NO_VERSION)),
        (hashed, TableEntry(b"key", b"v", -7)),
    ):
        reply = await raw.ask(c.UpdateTableEntries(1, table, "", [good, bad]))
        assert isinstance(reply, c.ErrorMessage), reply
    for table in (fixed, hashed):
        reply = await raw.ask(c.GetTableSegmentInfo(1, table, ""))
        assert reply.entry_count == 0
    assert isinstance(await raw.ask(c.ReadTableEntriesDelta(1, hashed, "", 1 << 40, 10)), c.ErrorMessage)


async def test_commands_for_operators_are_not_served_on_this_port(raw, unchanged):
    assert isinstance(await raw.ask(c.FlushToStorage(0, "", 1)), c.OperationUnsupported)
    assert isinstance(await raw.ask(c.ListStorageChunks(SEGMENT, "", 1)), c.OperationUnsupported)


async def test_an_atomic_batch_above_8_mib_is_refused_by_the_client_and_an_event_of_8_mib_is_not(client):
    async with client.event_writer("demo", "stream") as writer:
        with pytest.raises(EventTooLargeError):
            writer.write_atomic([bytes(8 * MIB), b"x"], "key")
        await writer.write(bytes(8 * MIB), "key")


async def test_a_client_of_the_far_future_is_told_the_versions(server):
    raw = await Raw.open(server, greet=False)
    reply = await raw.ask(c.Hello(1000, 900))
    assert isinstance(reply, c.Hello)
    assert await raw.receive() is None


# ------------------------------------------------------------------------------------------ crowds


def resident_bytes(server):
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


async def test_a_thousand_idle_connections_cost_little_and_disturb_nobody(server, unchanged):
    before = resident_bytes(server)
    crowd = await asyncio.gather(*(Raw.open(server) for _ in range(1000)))
    grown = resident_bytes(server) - before
    assert isinstance(await crowd[500].ask(c.KeepAlive()), c.KeepAlive)
    for raw in crowd:
        raw.drop()
    assert grown < 64 * KIB * len(crowd)


async def test_promises_of_large_frames_take_no_memory(server, unchanged):
    before = resident_bytes(server)
    crowd = await asyncio.gather(*(Raw.open(server) for _ in range(100)))
    for raw in crowd:
        raw.send(HEAD.pack(4, 16 * MIB - 100) + bytes(100))
        await raw.writer.drain()
    assert isinstance(await (await Raw.open(server)).ask(c.KeepAlive()), c.KeepAlive)
    assert resident_bytes(server) - before < 100 * MIB
    for raw in crowd:
        raw.drop()


@pytest.mark.slow
async def test_a_reader_that_does_not_read_holds_up_nobody_but_itself(server, client):
    async with client.byte_writer("demo", await fresh(client, "slow")) as writer:
        for _ in range(16):
            await writer.write(bytes(MIB))
    before = resident_bytes(server)
    slow = [await Raw.open(server) for _ in range(10)]
    for raw in slow:
        raw.writer.transport.pause_reading()
        for request in range(200):
            raw.send(c.ReadSegment("demo/slow/0.#epoch.0", 0, 2 * MIB, "", request))
    other = await Raw.open(server)
    reply = await other.ask(c.ReadSegment("demo/slow/0.#epoch.0", 0, 2 * MIB, "", 1))
    assert isinstance(reply, c.SegmentRead)
    assert resident_bytes(server) - before < 200 * MIB
    for raw in [*slow, other]:
        raw.drop()


async def fresh(client, stream):
    await client.create_stream("demo", stream)
    return stream
