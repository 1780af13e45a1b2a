"""Events in JSON as columns of a schema: what Spark's JSON source makes of them, in each mode."""

import json
import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.errors import InvalidArgumentError
from headrace.spark.json_values import JsonColumns
from tests.unit.spark.test_sources import _source, world  # noqa: F401

ORDER = t.StructType(
    [
        t.StructField("id", t.IntegerType()),
        t.StructField("price", t.DoubleType()),
        t.StructField("who", t.StringType()),
        t.StructField("tags", t.ArrayType(t.StringType())),
    ]
)


@pytest.fixture
def read(world):  # noqa: F811
    """Read events that are given as they are, with the columns of a schema."""
    model, client = world

    def read(events, schema, **options):
        for event in events:
            model.append(0, len(event) + 8)
        client.data = lambda _: b"".join(struct.pack(">q", len(event)) + event for event in events)
        reader = _source(serializer="json", **options).reader(schema)
        (partition,) = reader.partitions()
        table = pa.Table.from_batches(reader.read(partition))
        assert table.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        return table.to_pylist()

    return read


def _columns(schema):
    return JsonColumns(schema, to_arrow_schema(schema, timezone="UTC"), UTC)


def test_fields_are_columns_beside_those_of_the_source(read):
    events = [b'{"id": 1, "price": 2.5, "who": "ada", "tags": ["a", null]}', b'{"price": 3, "else": [1]}']
    schema = t.StructType([t.StructField("offset", t.LongType()), *ORDER.fields])
    assert read(events, schema) == [
        {"offset": 0, "id": 1, "price": 2.5, "who": "ada", "tags": ["a", None]},
        {"offset": 66, "id": None, "price": 3.0, "who": None, "tags": None},
    ]


BAD = [b'{"id": 1}', b'{"id": "x", "who": "eve"}', b"{", b"[1]", b"\xff", b'{"id": 2}']


def test_what_is_malformed_is_null_and_kept_in_a_column_of_its_own(read):
    schema = t.StructType([*ORDER.fields[:1], ORDER.fields[2], t.StructField("_corrupt", t.StringType())])
    assert [tuple(row.values()) for row in read(BAD, schema)] == [
        (1, None, None),
        (None, "eve", '{"id": "x", "who": "eve"}'),
        (None, None, "{"),
        (None, None, "[1]"),
        (None, None, "\ufffd"),
        (2, None, None),
    ]


def test_what_is_malformed_is_dropped_or_stops_the_read_as_asked(read):
    schema = t.StructType([t.StructField("offset", t.LongType()), ORDER.fields[0]])
    found = read(BAD, schema, mode="DROPMALFORMED")
    assert [(row["offset"], row["id"]) for row in found] == [(0, 1), (79, 2)]


def test_the_first_malformed_event_is_named(read):
    said = r"s/t segment 0: the event at offset 17 is malformed: field id: 'x' is no int"
    with pytest.raises(InvalidArgumentError, match=said):
        read(BAD, t.StructType(ORDER.fields[:1]), mode="failfast")


@pytest.mark.parametrize(
    "event",
    [
        '{"id": 7, "price": 1, "who": "x"}',
        '{"id": 7,\n "price": 1.5}',
        '{"id": 2147483648}',
        '{"id": 1.0, "who": 5}',
        '{"id": true, "price": "NaN"}',
        '{"who": {"a": [1, "\u00e4"]}, "tags": "x"}',
        '{"who": "\\ud800 \\u00e4\\n"}',
        '{"id": 1} {"id": 2}',
        '{"tags": [1, [2], null]}',
        "  ",
        "null",
    ],
)
def test_events_have_the_same_columns_read_at_once_and_one_by_one(event):
    columns = _columns(ORDER)
    beside = [b'{"id": 1, "price": 2, "who": "a", "tags": []}'] * 3
    alone, reason = columns.read(pa.array([event.encode()], pa.binary()))
    mixed, reasons = columns.read(pa.array([*beside, event.encode(), *beside], pa.binary()))
    assert str([column.to_pylist()[3] for column in mixed]) == str(
        [column.to_pylist()[0] for column in alone]
    )
    assert (reasons[3:4] or [None]) == (reason or [None])
    assert [column.to_pylist()[6] for column in mixed] == [1, 2.0, "a", []]


def test_each_type_that_is_offered_is_read():
    schema = t.StructType(
        [
            t.StructField("at", t.TimestampType()),
            t.StructField("naive", t.TimestampNTZType()),
            t.StructField("day", t.DateType()),
            t.StructField("small", t.ByteType()),
            t.StructField("ok", t.BooleanType()),
            t.StructField("inner", t.StructType([t.StructField("n", t.LongType())])),
            t.StructField("counts", t.MapType(t.StringType(), t.LongType())),
        ]
    )
    value = {
        "at": "2026-11-25T10:00:00+01:00",
        "naive": "2026-11-25T10:00",
        "day": "2026-11-25",
        "small": -128,
        "ok": False,
        "inner": {"n": 1},
        "counts": {"a": 1},
    }
    columns, reasons = _columns(schema).read(pa.array([json.dumps(value).encode()], pa.binary()))
    assert reasons == []
    row = {name: column.to_pylist()[0] for name, column in zip(schema.names, columns, strict=True)}
    assert row["at"] == datetime(2026, 11, 25, 9, tzinfo=UTC)
    assert row["naive"] == datetime(2026, 11, 25, 10)  # noqa: DTZ001
    assert (row["small"], row["ok"], row["inner"], row["counts"]) == (-128, False, {"n": 1}, [("a", 1)])


@pytest.mark.parametrize(
    ("schema", "options", "sentence"),
    [
        ([t.StructField("x", t.BinaryType())], {}, "column x binary: serializer=json reads"),
        ([t.StructField("x", t.IntegerType())], {"mode": "strict"}, "option mode is one of"),
        ([t.StructField("offset", t.StringType())], {}, "column offset string is none of"),
        ([t.StructField("_corrupt", t.LongType())], {}, "column _corrupt bigint"),
        ([t.StructField("x", t.IntegerType())], {"serializer": "avro"}, "option serializer is json"),
        ([t.StructField("x", t.IntegerType())], {"serializer": ""}, "serializer=json"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(world, schema, options, sentence):  # noqa: F811
    with pytest.raises(InvalidArgumentError, match=sentence):
        _source(**{"serializer": "json", **options}).reader(t.StructType(schema))


def test_json_without_a_schema_is_refused_when_a_read_is_defined(world):  # noqa: F811
    with pytest.raises(InvalidArgumentError, match=r'\.schema\("id int'):
        _source(serializer="json").schema()
