"""Columns with a key, a time and headers: exact ones of records, times of plain events by remembered cuts."""

import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.client.records.envelope import encode_headers, prefix_of
from headrace.errors import DataCorruptionError
from headrace.model.key_space import KeyRange
from headrace.model.records import RECORDS_TAG
from headrace.spark.event_times import find_marks
from headrace.spark.range_groups import SegmentRange
from tests.unit.spark.test_sources import _fill, _source, world  # noqa: F401

KEY = t.StructField("key", t.StringType())
TIMESTAMP = t.StructField("timestamp", t.TimestampType())
HEADERS = t.StructField("headers", t.MapType(t.StringType(), t.BinaryType()))
EVENT = t.StructField("event", t.StringType())
NOON = 1_795_600_800_123


def _read(schema, **options):
    reader = _source(**options).reader(schema)
    tables = [pa.Table.from_batches(reader.read(part)) for part in reader.partitions()]
    assert tables[0].schema.equals(to_arrow_schema(schema, timezone="UTC"))
    return [row for table in tables for row in table.to_pylist()]


def _record(key, time_ms, headers, value):
    return prefix_of(key, time_ms, encode_headers(headers)) + value


def _give(world, events):  # noqa: F811
    model, client = world
    for event in events:
        model.append(0, len(event) + 8)
    client.data = lambda _: b"".join(struct.pack(">q", len(event)) + event for event in events)
    client.tags = {RECORDS_TAG}


@pytest.mark.parametrize("count", [1, 50])
def test_records_are_read_as_values_with_their_keys_times_and_headers(world, count):  # noqa: F811
    first, second = _record("ada", NOON, {"a": b"x"}, b"12"), _record(None, -1, None, b"13")
    _give(world, [first, second] * count)
    rows = _read(t.StructType([EVENT, KEY, TIMESTAMP, HEADERS]))
    time = datetime(2026, 11, 25, 10, 0, 0, 123000, UTC)
    assert rows[0]["timestamp"].astimezone(UTC).year == 2026
    assert rows[:2] == [
        {"event": "12", "key": "ada", "timestamp": rows[0]["timestamp"], "headers": [("a", b"x")]},
        {"event": "13", "key": None, "timestamp": datetime.fromtimestamp(-0.001, UTC), "headers": []},
    ]
    assert rows[0]["timestamp"].timestamp() == NOON / 1000
    assert time.microsecond == rows[0]["timestamp"].microsecond
    assert len(rows) == 2 * count


def test_values_of_records_may_be_json_beside_their_times(world):  # noqa: F811
    _give(world, [_record("k", NOON, None, b'{"id": 1, "key": "inner", "timestamp": "2026-11-25T00:00Z"}')])
    schema = t.StructType([t.StructField("id", t.IntegerType()), KEY, TIMESTAMP])
    (row,) = _read(schema, serializer="json")
    assert (row["id"], row["key"], row["timestamp"].timestamp()) == (1, "inner", 1_795_564_800)
    (row,) = _read(schema, serializer="json", columns="key,timestamp")
    assert (row["id"], row["key"], row["timestamp"].timestamp()) == (1, "k", NOON / 1000)


def test_what_is_no_record_is_said_with_its_place(world):  # noqa: F811
    _give(world, [_record("k", NOON, None, b"1"), b"plain and long enough"])
    said = r"s/t segment 0: the event at offset 24 is no record: it begins with the byte 0x70"
    with pytest.raises(DataCorruptionError, match=said):
        _read(t.StructType([EVENT]))


def test_plain_events_have_no_keys_and_times_within_the_grain_of_the_cuts(world):  # noqa: F811
    import time

    model, client = world
    now = time.time_ns() // 1_000_000
    _fill(model, 10)
    client.times = {now - 7_200_000: model.tail()}
    _fill(model, 10)
    client.times[now - 60_000] = model.tail()
    _fill(model, 10)
    rows = _read(t.StructType([TIMESTAMP, KEY, HEADERS]))
    assert {(row["key"], row["headers"]) for row in rows} == {(None, None)}
    found = [row["timestamp"] and round(row["timestamp"].timestamp() * 1000) for row in rows]
    assert found == [None] * 10 + [now - 7_200_000] * 10 + [now - 60_000] * 10


def test_a_segment_that_began_after_a_cut_is_younger_than_it():
    keys = {0: KeyRange(0.0, 1.0), 5: KeyRange(0.0, 0.5), 6: KeyRange(0.5, 1.0)}
    cuts = {1000: {0: 50}, 2000: {0: 90}, 3000: {5: 10, 6: 0}}

    def sample(time_ms):
        at = max((each for each in cuts if each <= time_ms), default=None)
        return ({0: 0}, None) if at is None else (cuts[at], at)

    ranges = [SegmentRange("s", "t", 0, 40, 100), SegmentRange("s", "t", 5, 0, 20)]
    assert find_marks(ranges, sample, lambda _: keys, 3500) == {
        0: ((50, 1000), (90, 2000)),
        5: ((0, 2000), (10, 3000)),
    }
    assert find_marks([], sample, lambda _: keys, 3500) == {}
