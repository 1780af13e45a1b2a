"""The bytes of operations and data frames are pinned: a log written by version 1 stays readable."""

from pathlib import Path

import pytest

from headrace.errors import PreconditionError
from headrace.segmentstore.durablelog.frame_format import encode_moved
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.codec import decode, encode
from headrace.segmentstore.state.metadata_checkpoint import (
    decode_segment_row,
    encode_segment_row,
    join_rows,
    split_row,
)
from headrace.segmentstore.state.segment_state import SegmentState

HERE = Path(__file__).parent
WRITER = bytes.fromhex("00112233445566778899aabbccddeeff")

OPERATIONS = {
    "append_run": ops.AppendBatch(9, 5, 28, WRITER, 4, 2, b"abc"),
    "append": ops.Append(10, 5, 31, {WRITER: -1, b"\x80" + bytes(15): 7}, b"xy"),
    "seal": ops.Seal(11, 5, 33),
    "truncate": ops.Truncate(12, 5, 13),
    "merge": ops.Merge(13, 5, 6, 33, 100, {WRITER: 5}),
    "delete": ops.Delete(1, 2),
    "map_segment": ops.MapSegment(15, 15, "sc/st/0.#epoch.0", {b"\x80" + bytes(15): 1}),
    "update_attributes": ops.UpdateAttributes(16, 5, {WRITER: -(1 << 63)}),
    "checkpoint_begin": ops.CheckpointBegin(17, 3, 2),
    "checkpoint_part": ops.CheckpointPart(18, 17, [b"row"], {"s/a": b"1", "c/b": b""}),
    "checkpoint_end": ops.CheckpointEnd(19, 17, 1, 2),
    "storage_rows": ops.StorageRows(20, {"s/a": b"2", "c/b": None}),
    "evict_segments": ops.EvictSegments(21, [5, 6]),
    "activate_segment": ops.ActivateSegment(
        22, 5, bytes.fromhex((HERE / "operation/v1/segment_row.hex").read_text())
    ),
}

WITH_STORAGE = {
    "evict_segments": ops.EvictSegments(21, [5, 6], [["s/a.5", "c/b"], []]),
    "activate_segment": ops.ActivateSegment(22, 5, b"row", {"s/a.5": b"1"}),
}


def read_golden(name):
    return bytes.fromhex((HERE / name).read_text())


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_has_the_bytes_it_always_had(name):
    golden = read_golden(f"operation/v1/{name}.hex")
    assert b"".join(bytes(piece) for piece in encode(OPERATIONS[name])) == golden
    assert decode(memoryview(golden)) == OPERATIONS[name]


@pytest.mark.parametrize("name", WITH_STORAGE)
def test_an_operation_that_takes_rows_of_storage_along_has_the_bytes_it_always_had(name):
    golden = read_golden(f"operation/v2/{name}.hex")
    assert b"".join(bytes(piece) for piece in encode(WITH_STORAGE[name])) == golden
    assert decode(memoryview(golden)) == WITH_STORAGE[name]


def test_a_row_in_pieces_has_the_bytes_it_always_had():
    row = read_golden("operation/v1/segment_row.hex")
    pieces = list(split_row(row, 40))
    assert pieces == [
        bytes.fromhex(line) for line in (HERE / "operation/v1/segment_row_pieces.hex").read_text().split()
    ]
    assert list(join_rows(pieces)) == [row]


@pytest.mark.parametrize(("version", "has_index"), [(1, False), (4, True)])
def test_a_segment_row_has_the_bytes_it_always_had(version, has_index):
    state = SegmentState(5, "sc/st/0.#epoch.0", accepted_start_offset=13, accepted_length=133)
    state.accepted_sealed = True
    state.last_modified_ms = 1_700_000_000_000
    state.attributes.accept({WRITER: 4})
    golden = read_golden(f"operation/v{version}/segment_row.hex")
    state.note_index()
    assert version == 1 or encode_segment_row(state) == golden
    decoded = decode_segment_row(golden)
    assert decoded.attributes.has_index == has_index
    assert (decoded.name, decoded.start_offset, decoded.durable_length, decoded.sealed) == (
        "sc/st/0.#epoch.0",
        13,
        133,
        True,
    )
    assert decoded.attributes.durable == {WRITER: 4}


def test_a_data_frame_has_the_bytes_it_always_had():
    golden = read_golden("data_frame/v1/one_delete.hex")
    reader = FrameReader()
    assert [decode(view) for view in reader.feed(1, memoryview(golden))] == [OPERATIONS["delete"]]
    assert reader.frame_time_ms == 7


def test_the_frame_that_ends_a_moved_log_has_the_bytes_it_always_had():
    golden = read_golden("data_frame/v1/moved.hex")
    assert encode_moved("s3://b/log", 7) == golden
    with pytest.raises(PreconditionError, match="moved this log to s3://b/log"):
        list(FrameReader().feed(1, memoryview(golden)))
