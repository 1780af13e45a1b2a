"""The frames of docs/formats/wire.md, byte for byte."""

import dataclasses
from pathlib import Path
from typing import get_type_hints

import pytest

from headrace.limits import INT64_MIN
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.wire import commands as c
from headrace.wire import fields
from headrace.wire.catalogue import INTERNAL, PROTOCOL
from headrace.wire.frames import FrameDecoder, decode_payload, encode

GOLDEN = Path(__file__).parents[2] / "golden" / "wire" / "v17"
GOLDEN_INTERNAL = GOLDEN.parent / "internal_v2"
FORMER_INTERNAL = GOLDEN.parent / "internal_v1"

WRITER = bytes.fromhex("00112233445566778899aabbccddeeff")
SEGMENT = "sc/st/0.#epoch.0"
TABLE = "sc/map_kvtable/0.#epoch.0"
APPEND_ID = 1 << 32
READ_ID = 2 << 32
FIRST = b"\0\0\0\0\0\0\0\5hello"
SECOND = b"\0\0\0\0\0\0\0\7pravega"
EVENTS = FIRST + SECOND

FRAMES = {
    "hello_16": c.Hello(16, 5),
    "hello_15": c.Hello(15, 5),
    "hello_17": c.Hello(17, 5),
    "keep_alive": c.KeepAlive(),
    "setup_append": c.SetupAppend(APPEND_ID, WRITER, SEGMENT, ""),
    "append_setup": c.AppendSetup(APPEND_ID, SEGMENT, WRITER, INT64_MIN),
    "append_block_end_alone": c.AppendBlockEnd(WRITER, 28, EVENTS, 2, 2, APPEND_ID),
    "data_appended": c.DataAppended(WRITER, 2, INT64_MIN, APPEND_ID, 28),
    "append_block_padding": c.AppendBlock(WRITER, EVENTS + b"\xff\xff\xff\xff\0\0\0\x0c" + bytes(12)),
    "append_block_end_padding": c.AppendBlockEnd(WRITER, 28, b"", 2, 2, APPEND_ID),
    "append_block_partial": c.AppendBlock(WRITER, FIRST + b"\xff\xff\xff\xfe\0\0\0\7" + SECOND[:7]),
    "append_block_end_partial": c.AppendBlockEnd(WRITER, 13, SECOND[7:], 2, 4, APPEND_ID),
    "conditional_block_end": c.ConditionalBlockEnd(WRITER, 3, 28, b"abc", 7),
    "conditional_check_failed": c.ConditionalCheckFailed(WRITER, 3, 7),
    "read_segment": c.ReadSegment(SEGMENT, 0, 262_144, "", READ_ID),
    "segment_read": c.SegmentRead(SEGMENT, 0, True, False, EVENTS, READ_ID),
    "no_such_segment": c.NoSuchSegment(READ_ID, SEGMENT, "", 0),
    "update_table_entries": c.UpdateTableEntries(
        42, TABLE, "", [TableEntry(b"k1", b"v1", NOT_EXISTS), TableEntry(b"k2", b"", NO_VERSION)], -1
    ),
    "table_entries_updated": c.TableEntriesUpdated(42, [0, 21]),
    "read_table": c.ReadTable(43, TABLE, "", [TableKey(b"k1"), TableKey(b"zz")]),
    "table_read": c.TableRead(43, TABLE, [TableEntry(b"k1", b"v1", 0), TableEntry(b"zz", b"", NOT_EXISTS)]),
}


def test_every_golden_file_is_covered_and_described():
    files = {path.stem for path in GOLDEN.glob("*.bin")}
    assert files == set(FRAMES)
    described = (GOLDEN / "frames.txt").read_text()
    assert all(f"\n{name} " in described for name in files)


@pytest.mark.parametrize("name", FRAMES)
def test_encoding_gives_the_golden_bytes(name):
    golden = (GOLDEN / f"{name}.bin").read_bytes()
    assert encode(FRAMES[name]) == golden


@pytest.mark.parametrize("name", FRAMES)
def test_decoding_the_golden_bytes_gives_the_command(name):
    golden = (GOLDEN / f"{name}.bin").read_bytes()
    type_id = int.from_bytes(golden[:4], "big", signed=True)
    assert decode_payload(type_id, memoryview(golden)[8:]) == FRAMES[name]
    decoder = FrameDecoder()
    decoder.feed(golden)
    assert decoder.next_command() == FRAMES[name]
    assert decoder.next_command() is None


EXAMPLES = {
    fields.Int8: -2,
    fields.Int32: 0x01020304,
    fields.Int64: 0x1112131415161718,
    fields.Bool: True,
    fields.Uuid: WRITER,
    fields.Text: "sc/größe",
    fields.View: b"view",
    fields.Rest: b"rest",
    fields.Event: b"event",
    fields.Bytes: b"bytes",
    fields.TableKeys: [TableKey(b"k1", 1), TableKey(b"k22", NO_VERSION)],
    fields.TableEntries: [TableEntry(b"k1", b"v1", 1), TableEntry(b"k22", b"", NOT_EXISTS)],
    fields.AttributeUpdates: [AttributeUpdate(WRITER, UpdateKind.REPLACE_IF_EQUALS, 5, INT64_MIN)],
    fields.Versions: [0, -1],
    fields.Texts: ["a", "bc"],
    fields.MergedSegments: [fields.MergedSegment("a", 1), fields.MergedSegment("bc", 2)],
    fields.FactsOfSegments: [fields.ListedSegment(True, True, 1, 2), fields.ListedSegment()],
    fields.SizedNames: [("a", 1), ("bc", 2)],
    fields.ChunkInfos: [fields.ChunkInfo(1, 2, 3, "c", True)],
}


def example_of(command):
    hints = get_type_hints(command, include_extras=True)
    return command(*(EXAMPLES[hints[field.name]] for field in dataclasses.fields(command)))


CATALOGUES = pytest.mark.parametrize(("lives", "golden"), [(PROTOCOL, GOLDEN), (INTERNAL, GOLDEN_INTERNAL)])


@CATALOGUES
def test_an_example_of_every_command_is_pinned(lives, golden):
    lines = [f"{life.command.__name__} {encode(example_of(life.command)).hex()}" for life in lives]
    assert (golden / "catalogue.txt").read_text().splitlines()[1:] == lines


@CATALOGUES
def test_every_pinned_example_is_read_back(lives, golden):
    pinned = dict(line.split() for line in (golden / "catalogue.txt").read_text().splitlines()[1:])
    for life in lives:
        frame = bytes.fromhex(pinned[life.command.__name__])
        assert decode_payload(life.type_id, frame[8:]) == example_of(life.command)


def test_what_a_process_of_the_version_before_sends_is_read():
    former = dict(line.split() for line in (FORMER_INTERNAL / "catalogue.txt").read_text().splitlines()[1:])
    for life in INTERNAL:
        if life.since > 1001:
            assert life.command.__name__ not in former
            continue
        read = decode_payload(life.type_id, bytes.fromhex(former[life.command.__name__])[8:])
        added = {"containers": [], "problem": ""} if life.command is c.SegmentsPurged else {}
        assert read == dataclasses.replace(example_of(life.command), **added)
