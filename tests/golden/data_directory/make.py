"""Makes data directories for the tests of later releases, by the code of the release that they are of.

    PYTHONPATH=<tree of that release>/src python -m tests.golden.data_directory.make <release>

Something of everything is written through a real server, which then ends. A server on a copy says what it
finds, and the directory is packed together with that.
"""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

import grpc

from headrace.client import connect
from headrace.model.attributes import (
    ATTRIBUTE_NULL,
    CREATION_TIME,
    EVENT_COUNT,
    ROLLOVER_SIZE,
    AttributeUpdate,
    UpdateKind,
)
from headrace.model.key_space import KeyRange
from headrace.model.policies import RetentionPolicy, ScalingPolicy, StreamConfiguration
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.testing import LocalServer
from headrace.wire import commands as c
from tests.golden.data_directory.contents import SCOPE, look
from tests.golden.data_directory.wire_calls import WireCalls

HERE = Path(__file__).parent
SETTINGS = {
    "HEADRACE_CONTAINER__CHECKPOINT_BYTES": "65536",
    "HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": "131072",
    "HEADRACE_CONTAINER__STORAGE__GARBAGE_DELAY_S": "0.1",
}
EAGER = {
    "HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_AGE_S": "0.1",
    "HEADRACE_CONTAINER__EVICTION__EVICTION_INTERVAL_S": "0.1",
}
LAZY = {"HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_AGE_S": "600"}
STREAMS = ("many", "great", "cut", "done", "split", "paid", "bare", "late", "tagged")
IDLE = tuple(f"idle-{number}" for number in range(6))
STILL = tuple(f"still-{number}" for number in range(12))
"""Segments of no stream: once evicted, nothing of the server looks at them again."""
CORE = (CREATION_TIME, EVENT_COUNT, ROLLOVER_SIZE)
NEVER = bytes(15) + b"\xfe"
EVENT = b"\0\0\0\0\0\0\x00\x10sixteen bytes :)"


def segment_of(stream, number=0):
    return f"{SCOPE}/{stream}/{number}.#epoch.0"


def identify(name):
    """Return an id as random ones are, but the same every time."""
    return b"\x01" + hashlib.sha256(name.encode()).digest()[:15]


def count_up(first, number):
    """Return ids that take little room when they are packed."""
    return [each.to_bytes(16, "big") for each in range(first, first + number)]


class Making:
    """What was written, so far as it is needed to ask for it."""

    def __init__(self):
        self.attributes = {}
        self.lookups = {}
        self.writers = {}

    async def append(self, calls, segment, numbers, data=EVENT):
        await calls.append(segment, numbers, data)
        self.writers.setdefault(segment, {}).update(numbers)
        self.attributes.setdefault(segment, {}).update(dict.fromkeys(numbers))

    async def set_attributes(self, calls, segment, changes):
        assert all(await calls.set_attributes(segment, changes))
        self.attributes.setdefault(segment, {}).update(dict.fromkeys(changes))

    def questions(self):
        segments = {segment_of(each) for each in (*STREAMS, *IDLE)} | self.attributes.keys()
        return {
            "segments": {
                name: {"attributes": [each.hex() for each in (*self.attributes.get(name, ()), *CORE, NEVER)]}
                for name in sorted(segments)
            },
            "tables": {
                name: {"lookups": [key.hex() for key in keys]} for name, keys in sorted(self.lookups.items())
            },
            "control": {"streams": (*STREAMS, *IDLE)},
        }


# --------------------------------------------------------------------------------------- what is written


async def write_streams(making, server, calls):
    """Writers, attributes, truncated and sealed segments, transactions, a scaled stream."""
    many, great = segment_of("many"), segment_of("great")
    writers = [identify(f"writer {number}") for number in range(400)]
    await making.append(calls, many, dict.fromkeys(writers, 2))
    await making.append(
        calls, many, {writer: 1_000_000_007 * number for number, writer in enumerate(writers) if number}
    )
    marks = [identify(f"mark {number}") for number in range(60)]
    await making.set_attributes(calls, many, {each: (ATTRIBUTE_NULL, n - 30) for n, each in enumerate(marks)})
    await making.set_attributes(
        calls, many, {each: (n - 30, -(1 << 62) + n) for n, each in enumerate(marks[:40])}
    )
    removed = {each: (-(1 << 62) + n, ATTRIBUTE_NULL) for n, each in enumerate(marks[:20])}
    await making.set_attributes(calls, many, removed)
    # More than fit into a row of the catalogue: this segment stays in memory, and in checkpoints.
    await making.set_attributes(
        calls, great, {each: (ATTRIBUTE_NULL, n) for n, each in enumerate(count_up(1, 3000))}
    )
    await making.append(calls, segment_of("cut"), dict.fromkeys(count_up(1, 5), 7), b"c" * 60_000)
    assert isinstance(
        await calls.ask(c.TruncateSegment(0, segment_of("cut"), 150_000, "")), c.SegmentTruncated
    )
    await making.append(calls, segment_of("done"), dict.fromkeys(count_up(100, 40), 3))
    for stream in STILL:
        reply = await calls.ask(c.CreateSegment(0, segment_of(stream), 0, 0, ""))
        assert isinstance(reply, c.SegmentCreated), reply
    for stream in (*IDLE, *STILL):
        names = [identify(f"{stream} {number}") for number in range(5)]
        await making.append(calls, segment_of(stream), {each: n for n, each in enumerate(names)}, b"i" * 3000)
    await write_merges(making, calls)
    async with connect(server.uri) as client:
        await client.seal_stream(SCOPE, "done")
        await client.scale_stream(SCOPE, "split", [0], [KeyRange(0.0, 0.25), KeyRange(0.25, 1.0)])
        async with client.txn_writer(SCOPE, "paid") as transactions:
            for number in range(3):
                transaction = await transactions.begin()
                transaction.write(f"paid {number}".encode() * 100, "key")
                await (transaction.abort() if number == 1 else transaction.commit(wait=True))


async def write_merges(making, calls):
    """A segment that no stream knows, with every kind of update, and a source too long to be copied."""
    target, kinds = segment_of("raw"), UpdateKind
    sums = count_up(1000, 5)
    updates = [
        [AttributeUpdate(each, kinds.ACCUMULATE, 10 + n) for n, each in enumerate(sums)],
        [AttributeUpdate(each, kinds.ACCUMULATE, 1) for each in sums]
        + [AttributeUpdate(identify("most"), kinds.REPLACE_IF_GREATER, 77)],
        [
            AttributeUpdate(identify("most"), kinds.REPLACE_IF_GREATER, 78),
            AttributeUpdate(identify("first"), kinds.SET_IF_ABSENT, 5),
            AttributeUpdate(identify("any"), kinds.REPLACE, -5),
        ],
    ]
    assert isinstance(await calls.ask(c.CreateSegment(0, target, 0, 0, "")), c.SegmentCreated)
    for number, (several, size) in enumerate(zip(updates, (10, 1_500_000, 0), strict=True)):
        source = segment_of("raw-source", number)
        assert isinstance(await calls.ask(c.CreateSegment(0, source, 0, 0, "")), c.SegmentCreated)
        if size:
            await calls.append(source, {identify("source"): 1}, b"s" * size)
        making.attributes[source] = {}
        assert isinstance(await calls.ask(c.MergeSegments(0, target, source, "", several)), c.SegmentsMerged)
    making.attributes[target] = {each.attribute_id: None for several in updates for each in several}
    await making.append(calls, target, {identify("behind"): 9})


async def write_tables(making, calls):
    """Puts, conditions, removals, and copies whose version is no longer their offset."""
    hashed, fixed, empty, bare = (segment_of(name) for name in ("hash", "fixed", "empty", "emptied"))
    for name, key_length in ((hashed, 0), (fixed, 8), (empty, 0), (bare, 0)):
        reply = await calls.ask(c.CreateTableSegment(0, name, "", False, key_length))
        assert isinstance(reply, c.SegmentCreated), reply
    keys = [f"key {number}".encode() for number in range(300)]
    await put(calls, hashed, [TableEntry(key, b"first " + key) for key in keys])
    again = await put(calls, hashed, [TableEntry(key, b"second") for key in keys[:80]])
    at = dict(zip(keys[:80], again, strict=True))
    await put(calls, hashed, [TableEntry(key, b"third", at[key]) for key in keys[:20]])
    await put(calls, hashed, [TableEntry(b"only if new", b"", NOT_EXISTS)])
    await remove(calls, hashed, [TableKey(key) for key in keys[280:]])
    await remove(calls, hashed, [TableKey(key, at[key]) for key in keys[60:80]])
    await wait_until_compacted(calls, hashed)
    await put(calls, hashed, [TableEntry(key, b"behind the copies") for key in keys[100:110]])
    making.lookups[hashed] = [*keys[::7], keys[61], keys[299], b"never", b"only if new"]
    keys = [number.to_bytes(8, "big") for number in range(0, 4000, 10)]
    await put(calls, fixed, [TableEntry(key, key * 3) for key in keys])
    await put(calls, fixed, [TableEntry(key, b"new") for key in keys[::9]])
    await remove(calls, fixed, [TableKey(key) for key in keys[5:50]])
    making.lookups[fixed] = [*keys[::40], keys[6], bytes(7) + b"\x01"]
    await put(calls, bare, [TableEntry(b"a", b"1"), TableEntry(b"b", b"2")])
    await remove(calls, bare, [TableKey(b"a"), TableKey(b"b")])
    making.lookups |= {empty: [b"never"], bare: [b"a"]}


async def put(calls, table, entries):
    reply = await calls.ask(c.UpdateTableEntries(0, table, "", entries))
    assert isinstance(reply, c.TableEntriesUpdated), reply
    return reply.updated_versions


async def remove(calls, table, keys):
    reply = await calls.ask(c.RemoveTableKeys(0, table, "", keys))
    assert isinstance(reply, c.TableKeysRemoved), reply


async def wait_until_compacted(calls, table):
    """Update one key until what lies in front of it has been copied behind it."""
    for _ in range(12):
        await put(calls, table, [TableEntry(b"large", b"large" * 160_000)])
        info = await calls.ask(c.GetTableSegmentInfo(0, table, ""))
    deadline = time.monotonic() + 60
    while not info.start_offset:
        assert time.monotonic() < deadline, info
        await asyncio.sleep(0.05)
        info = await calls.ask(c.GetTableSegmentInfo(0, table, ""))
    await put(calls, table, [TableEntry(b"large", b"small")])


async def write_rows(making, server, calls):
    """Rows of the controller: streams, a key-value table, a reader group."""
    async with connect(server.uri) as client:
        await client.create_scope(SCOPE)
        for stream in (*STREAMS, *IDLE):
            await client.create_stream(SCOPE, stream)
        await client.update_stream(
            SCOPE,
            "tagged",
            StreamConfiguration(
                scaling=ScalingPolicy.by_event_rate(1000, 3, 1),
                retention=RetentionPolicy.by_size(1 << 40, 1 << 50),
                tags=frozenset({"golden", "old"}),
            ),
        )
    async with grpc.aio.insecure_channel(server.addresses["controller"]) as channel:
        stub = ControllerServiceStub(channel)
        info = pb.StreamInfo(scope=SCOPE, stream="many")
        group = pb.ReaderGroupConfiguration(
            scope=SCOPE,
            readerGroupName="group",
            groupRefreshTimeMillis=3000,
            automaticCheckpointIntervalMillis=30_000,
            maxOutstandingCheckpointRequest=3,
            retentionType=1,
            readerGroupId=str(uuid.UUID(int=7)),
            startingStreamCuts=[pb.StreamCut(streamInfo=info, cut={0: 0})],
            endingStreamCuts=[pb.StreamCut(streamInfo=info)],
        )
        created = await stub.createReaderGroup(group)
        assert created.status == pb.CreateReaderGroupResponse.SUCCESS, created
        table = pb.KeyValueTableConfig(
            scope=SCOPE, kvtName="table", partitionCount=1, primaryKeyLength=4, secondaryKeyLength=4
        )
        status = await stub.createKeyValueTable(table)
        assert status.status == pb.CreateKeyValueTableStatus.SUCCESS, status
    partition = segment_of("table_kvtable")
    keys = [b"fam%d%04d" % (number % 3, number) for number in range(30)]
    await put(calls, partition, [TableEntry(key, b"of a table " + key) for key in keys])
    making.lookups[partition] = keys[::10]


async def write_late(making, server):
    """What lies in the log alone if the server is killed now; to some of what was evicted as well."""
    calls = await WireCalls.open(server)
    many, writers = segment_of("many"), [identify(f"writer {number}") for number in range(20)]
    await making.append(calls, many, dict.fromkeys(writers, 1 << 50) | {identify("late writer"): 0})
    marks = {identify(f"mark {number}"): (number - 30, ATTRIBUTE_NULL) for number in range(40, 45)}
    marks[identify("mark 0")] = (ATTRIBUTE_NULL, 11)  # once more what was removed
    await making.set_attributes(calls, many, marks)
    await making.append(calls, segment_of("late"), dict.fromkeys(count_up(1, 30), 1))
    await making.append(calls, segment_of("idle-0"), {identify("idle-0 0"): 40})
    hashed = segment_of("hash")
    await put(calls, hashed, [TableEntry(b"key 1", b"late"), TableEntry(b"late", b"new")])
    await remove(calls, hashed, [TableKey(b"key 2")])
    making.lookups[hashed] += [b"key 1", b"key 2", b"late"]
    await put(calls, segment_of("fixed"), [TableEntry(bytes(8), b"late")])
    calls.drop()
    async with connect(server.uri) as client:
        async with client.txn_writer(SCOPE, "paid") as transactions:
            transaction = await transactions.begin()
            transaction.write(b"late" * 50, "key")
            await transaction.commit(wait=True)
        async with client.txn_writer(SCOPE, "tagged", lease_ms=10_000) as transactions:
            transaction = await transactions.begin()
            await transaction.write(b"never committed", "key")
            return str(uuid.UUID(int=transaction.detach()))


# --------------------------------------------------------------------------------------- making


async def push_out(calls):
    """Make the log of each container go on until what nobody uses has left it, and memory."""
    pushers = [segment_of("pusher", number) for number in range(6)]  # some in each container
    for name in pushers:
        assert isinstance(await calls.ask(c.CreateSegment(0, name, 0, 0, "")), c.SegmentCreated)
    for number in range(20):
        for name in pushers:
            await calls.append(name, {identify("pusher"): number}, bytes(10_000))
        await asyncio.sleep(0.2)  # evictions and checkpoints have periods


async def wait_until_stored(server):
    deadline = time.monotonic() + 60
    while True:
        parts = (await asyncio.to_thread(statistics, server))["containers"].values()
        if not any(each["read_index"]["unstored_bytes"] for each in parts):
            break
        assert time.monotonic() < deadline, parts
        await asyncio.sleep(0.1)
    evicted = [each["segments"]["evicted"] for each in parts]
    print("evicted in each container:", evicted)
    assert min(evicted) > len(STILL), "nothing may be in memory that is idle"


def statistics(server):
    with urllib.request.urlopen(f"http://{server.addresses['rest']}/v1/debug/statistics") as answer:
        return json.load(answer)


async def make(directory, *, kill):
    """Fill ``directory``; return what a server on a copy of it finds."""
    making = Making()
    server = LocalServer(directory / "made", "--containers", "2", environment={**SETTINGS, **EAGER})
    try:
        await asyncio.to_thread(server.start)
        calls = await WireCalls.open(server)
        await write_rows(making, server, calls)
        await write_streams(making, server, calls)
        await write_tables(making, calls)
        await push_out(calls)
        calls.drop()
        await wait_until_stored(server)
        if kill:
            server.kill()
            server.environment |= LAZY
            await asyncio.to_thread(server.start)
        open_transaction = await write_late(making, server)
        if not kill:
            assert await asyncio.to_thread(server.stop) == 0
    finally:
        server.kill()
    shutil.copytree(directory / "made", directory / "copy")
    with LocalServer(directory / "copy", environment=LAZY) as copy:
        seen = await look(copy, making.questions())
    writers = {
        name: {each.hex(): number for each, number in numbers.items()}
        for name, numbers in making.writers.items()
    }
    return {"open_transaction": open_transaction, "writers": writers, "seen": seen}


def pack(directory, found, path):
    """Put the data and what is in them into one archive; zeros of the log are holes."""
    document = json.dumps(found, indent=1)
    (directory / "made" / "found.json").write_text(document)
    tar = ("tar", "--sparse", "--hole-detection=raw", "-C", directory / "made", "-cJf", path)
    subprocess.run([*tar, "found.json", "data"], check=True)
    print(path, path.stat().st_size, "bytes, document", len(document))


def main():
    (release,) = sys.argv[1:]
    (HERE / release).mkdir(exist_ok=True)
    for name, kill in (("killed", True), ("stopped", False)):
        with tempfile.TemporaryDirectory() as directory:
            found = asyncio.run(make(Path(directory), kill=kill))
            pack(Path(directory), found, HERE / release / f"{name}.tar.xz")


if __name__ == "__main__":
    assert os.environ.get("PYTHONPATH"), "the code of which release?"
    main()
