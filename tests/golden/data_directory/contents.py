"""Everything that clients can see of the segments, tables and rows of a server, as a JSON document."""

import hashlib

import grpc
from google.protobuf.json_format import MessageToDict

from headrace.model.tables import TableKey
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.wire import commands as c
from tests.golden.data_directory.wire_calls import WireCalls

SCOPE = "old"
PAGE = 700


async def look(server, questions):
    """Return what ``server`` has of that which is asked for.

    ``questions`` is an earlier answer, or has its form: names of segments with ids of attributes, names of
    tables with keys, streams; its values do not matter. A segment that is asked for need not exist.
    """
    calls = await WireCalls.open(server)
    try:
        return {
            "segments": {
                name: await _look_at_segment(calls, name, wanted["attributes"])
                for name, wanted in questions["segments"].items()
            },
            "tables": {
                name: await _look_at_table(calls, name, wanted["lookups"])
                for name, wanted in questions["tables"].items()
            },
            "control": await _look_at_rows(server, questions["control"]),
        }
    finally:
        calls.drop()


async def _look_at_segment(calls, name, attributes):
    info = await calls.ask(c.GetStreamSegmentInfo(0, name, ""))
    if isinstance(info, c.NoSuchSegment) or not info.exists:
        return {"exists": False, "attributes": {}}
    ids = [bytes.fromhex(each) for each in attributes]
    values = await calls.ask_all([c.GetSegmentAttribute(0, name, each, "") for each in ids])
    return {
        "exists": True,
        "sealed": info.is_sealed,
        "start_offset": info.start_offset,
        "length": info.write_offset,
        "last_modified": info.last_modified,
        "sha256": await _digest(calls, name, info.start_offset, info.write_offset),
        "attributes": {each.hex(): found.value for each, found in zip(ids, values, strict=True)},
    }


async def _digest(calls, name, offset, end):
    digest = hashlib.sha256()
    while offset < end:
        reply = await calls.ask(c.ReadSegment(name, offset, 1 << 20, "", 0))
        assert isinstance(reply, c.SegmentRead), reply
        assert reply.offset == offset
        assert reply.data
        digest.update(reply.data[: end - offset])
        offset += len(reply.data)
    return digest.hexdigest()


async def _look_at_table(calls, name, lookups):
    info = await calls.ask(c.GetTableSegmentInfo(0, name, ""))
    if isinstance(info, c.NoSuchSegment):
        return {"exists": False, "lookups": {}}
    entries, token, first = {}, b"", b""
    while True:
        page = await calls.ask(c.ReadTableEntries(0, name, "", PAGE, token, b"", first))
        if not page.entries:
            break
        found = _by_key(page.entries)
        assert entries.keys().isdisjoint(found)
        entries |= found
        token = page.continuation_token
        if info.key_length:  # such a table is iterated by its order, a hash table by tokens
            last = int.from_bytes(page.entries[-1].key, "big")
            first = (last + 1).to_bytes(info.key_length, "big")
    found = {}
    if keys := [bytes.fromhex(each) for each in lookups]:
        read = await calls.ask(c.ReadTable(0, name, "", [TableKey(key) for key in keys]))
        found = _by_key(read.entries)
    return {
        "exists": True,
        "start_offset": info.start_offset,
        "length": info.length,
        "entry_count": info.entry_count,
        "key_length": info.key_length,
        "entries": dict(sorted(entries.items())),
        "lookups": found,
        "delta": await _replay(calls, name, info),
    }


async def _replay(calls, name, info):
    """Return what a hash table's log says from its beginning on, if the table has such a log for clients."""
    if info.key_length:
        return None
    found, position = {}, info.start_offset
    while True:
        page = await calls.ask(c.ReadTableEntriesDelta(0, name, "", position, PAGE))
        if not isinstance(page, c.TableEntriesDeltaRead):
            return type(page).__name__
        found |= _by_key(page.entries)
        position = page.last_position
        if page.reached_end:
            return dict(sorted(found.items()))


def _by_key(entries):
    return {each.key.hex(): [each.version, _short(bytes(each.value))] for each in entries}


def _short(value):
    return value.hex() if len(value) <= 64 else f"{len(value)} bytes, {hashlib.sha256(value).hexdigest()}"


async def _look_at_rows(server, questions):
    async with grpc.aio.insecure_channel(server.addresses["controller"]) as channel:
        stub = ControllerServiceStub(channel)
        scopes = (await stub.listScopes(pb.ScopesRequest())).scopes
        listed = await stub.listStreamsInScope(pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope=SCOPE)))
        tables = await stub.listKeyValueTablesInScope(
            pb.KVTablesInScopeRequest(scope=pb.ScopeInfo(scope=SCOPE))
        )
        tagged = await stub.listStreamsInScopeForTag(
            pb.StreamsInScopeWithTagRequest(scope=pb.ScopeInfo(scope=SCOPE), tag="golden")
        )
        table = await stub.getKeyValueTableConfiguration(pb.KeyValueTableInfo(scope=SCOPE, kvtName="table"))
        group = await stub.getReaderGroupConfig(pb.ReaderGroupInfo(scope=SCOPE, readerGroup="group"))
        return {
            "scopes": sorted(scopes),
            "listed": sorted(each.stream for each in listed.streams),
            "tagged": sorted(each.stream for each in tagged.streams),
            "tables": sorted(each.kvtName for each in tables.kvtables),
            "table": MessageToDict(table),
            "group": MessageToDict(group),
            "streams": {name: await _look_at_stream(stub, name) for name in questions["streams"]},
        }


async def _look_at_stream(stub, name):
    info = pb.StreamInfo(scope=SCOPE, stream=name)
    current = await stub.getCurrentSegments(info)
    head = await stub.getSegments(pb.GetSegmentsRequest(streamInfo=info))
    oldest = await stub.getEpochSegments(pb.GetEpochSegmentsRequest(streamInfo=info, epoch=0))
    return {
        "configuration": MessageToDict(await stub.getStreamConfiguration(info)),
        "segments": _sorted(current.segmentRanges),
        "head": _sorted(head.segments),
        "epoch 0": _sorted(oldest.segmentRanges),
        "subscribers": sorted((await stub.listSubscribers(info)).subscribers),
    }


def _sorted(messages):
    return sorted(map(MessageToDict, messages), key=repr)
