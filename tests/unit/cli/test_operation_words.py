from pathlib import Path

import pytest

from headrace.cli.inspect.attribute_names import (
    attribute_name,
    attribute_words,
    segment_type_words,
)
from headrace.cli.inspect.operation_words import describe_operation
from headrace.model import attributes as attr
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.catalogue import OperationKind
from headrace.segmentstore.state.metadata_checkpoint import decode_segment_row

GOLDEN = Path(__file__).parents[2] / "golden" / "operation" / "v1"
WRITER = bytes.fromhex("00112233445566778899aabbccddeeff")
UUID = "00112233-4455-6677-8899-aabbccddeeff"


@pytest.mark.parametrize("kind", list(OperationKind))
def test_every_kind_is_described_in_the_word_of_its_file(kind):
    path = GOLDEN / f"{kind.name.lower()}.hex"
    operation = codec.decode(memoryview(bytes.fromhex(path.read_text())))
    words = describe_operation(operation, {})
    assert words.kind == kind.name.lower().replace("_", "-")
    assert words.sequence == operation.sequence
    assert words.document()["kind"] == words.kind
    assert "\n" not in words.details()


def test_a_run_tells_its_writer_and_events():
    words = describe_operation(ops.AppendBatch(9, 5, 28, WRITER, 4, 2, b"abc"), {5: "demo/orders"})
    assert words.details() == f"offset=28 length=3 writer={UUID} last_event_number=4 event_count=2"
    assert words.document()["segment"] == "demo/orders"
    assert words.is_about("demo/orders")
    assert not words.is_about("demo/order")


def test_a_merge_is_about_both_segments():
    merge = ops.Merge(9, 5, 6, 28, 3, {WRITER: attr.ATTRIBUTE_NULL})
    words = describe_operation(merge, {5: "target", 6: "source"})
    assert words.is_about("target")
    assert words.is_about("source")
    assert words.details().endswith(f"source=source source_id=6 writer {UUID}=removed")


def test_storage_rows_are_about_the_segment_in_their_keys():
    rows = ops.StorageRows(9, {"s/demo/a.5": b"12", "c/demo/a.5.E-1-O-0." + "0" * 32: None})
    words = describe_operation(rows, {})
    assert words.is_about("demo/a")
    assert not words.is_about("demo/b")
    assert words.rows["s/demo/a.5"] == 2
    assert words.details().startswith("+s/demo/a.5 -c/demo/a.5.E-1")
    many = ops.StorageRows(9, {f"c/{number}": b"" for number in range(5)})
    assert describe_operation(many, {}).details().endswith("and 2 rows more")


def test_attributes_have_the_names_of_the_code():
    for name in ("CREATION_TIME", "EVENT_COUNT", "SEGMENT_TYPE", "TABLE_COMPACTION_OFFSET"):
        assert attribute_name(getattr(attr, name)) == name.lower()
    assert attribute_name(attr.core_attribute(77)) == "core_77"
    assert attribute_name(WRITER) == f"writer {UUID}"
    assert attribute_name(b"\x01\x02") == "0102"
    ordered = attribute_words({WRITER: 1, attr.EVENT_COUNT: 2})
    assert list(ordered) == ["event_count", f"writer {UUID}"]


def test_the_type_of_a_segment_is_told_in_words():
    assert segment_type_words(attr.TYPE_STREAM) == "stream"
    assert segment_type_words(attr.TYPE_TABLE) == "table"
    assert segment_type_words(attr.TYPE_FIXED_KEY_TABLE) == "fixed-key table"
    assert segment_type_words(attr.TYPE_TABLE | attr.TYPE_SYSTEM) == "table, system"
    assert segment_type_words(attr.TYPE_TRANSIENT) == "transient"


def test_evictions_name_who_left():
    words = describe_operation(ops.EvictSegments(9, [5, 6, 7, 8]), {5: "a", 7: "c"})
    assert words.details() == "segments=a,6,c,and 1 more"
    assert words.is_about("c")
    assert not words.is_about("b")


def test_an_activation_names_who_came_back():
    row = bytes.fromhex((GOLDEN / "segment_row.hex").read_text())
    state = decode_segment_row(row)
    words = describe_operation(ops.ActivateSegment(9, state.segment_id, row), {})
    assert words.segment == state.name
    assert words.fields["length"] == state.durable_length
