"""The readers without a JVM: Spark's calls made by hand, on a stream in memory."""

import pickle
import random
from collections import defaultdict

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from headrace.errors import DataCorruptionError, InvalidArgumentError, PreconditionError, UnsupportedError
from headrace.model.stream_cut import StreamCut
from headrace.runtime.times import parse_time_ms
from headrace.spark import batch, client_cache, partition_reader, stream
from headrace.spark.arrow_rows import record_batches
from headrace.spark.options import COLUMNS, parse_sink, parse_source
from headrace.spark.source import HeadraceDataSource
from tests.effort import seeds
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.stream_model import StreamModel
from tests.unit.spark.test_partitioning import _happen

UNLIMITED = ReadMaxBytes((1 << 63) - 1)


@pytest.fixture
def world(monkeypatch):
    model = StreamModel()
    client = FakeClient(model)
    for module in (batch, stream, partition_reader, client_cache):
        monkeypatch.setattr(module, "client_for", lambda _: client)
    return model, client


def _source(**options):
    return HeadraceDataSource({"scope": "s", "stream": "t", "offset_wait_ms": "0", **options})


def _schema(source):
    # Spark parses the text of the schema with the JVM; the types are simple enough to do it here.
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    kinds = {"binary": BinaryType(), "string": StringType(), "bigint": LongType()}
    pairs = [each.split(" ") for each in source.schema().split(", ")]
    return StructType([StructField(name, kinds[kind]) for name, kind in pairs])


def _stream_reader(**options):
    source = _source(**options)
    return source.streamReader(_schema(source))


def _read(reader, partitions):
    """Return the events as (key, number) pairs per partition, read by a pickled copy as in a worker."""
    copy = pickle.loads(pickle.dumps(reader))
    found = []
    for partition in pickle.loads(pickle.dumps(partitions)):
        events = []
        for each in copy.read(partition):
            for event in each.column("event").to_pylist():
                key, _, number = event.rstrip(b".").partition(b":")
                events.append((int(key), int(number)))
        found.append(events)
    return found


def _fill(model, count, size=20):
    for index in range(count):
        model.append(index % model.width, size)


def test_a_batch_read_yields_exactly_the_declared_schema(world):
    model, _ = world
    _fill(model, 30)
    for columns in ("", "event", "offset,event", "segment_id,stream,scope,offset,event"):
        source = _source(columns=columns)
        schema = _schema(source)
        reader = source.reader(schema)
        (partition,) = reader.partitions()
        for each in reader.read(partition):
            assert each.schema.equals(to_arrow_schema(schema))
            assert each.num_rows == 30
    assert list(COLUMNS) == _schema(_source()).names


def test_offsets_say_where_each_event_begins(world):
    model, _ = world
    _fill(model, 10, size=25)
    source = _source()
    reader = source.reader(_schema(source))
    (partition,) = reader.partitions()
    table = pa.Table.from_batches(reader.read(partition))
    assert table["offset"].to_pylist() == [25 * index for index in range(10)]
    assert set(table["segment_id"].to_pylist()) == {0}
    assert set(table["scope"].to_pylist()) == {"s"}


def test_the_first_batch_pins_what_latest_means_and_a_replay_of_it_reads_nothing(world):
    model, _ = world
    _fill(model, 10)
    reader = _stream_reader()
    initial = reader.initialOffset()
    assert initial == {"start": "latest"}
    pinned = reader.latestOffset(initial, UNLIMITED)
    assert reader.partitions(initial, pinned) == []
    _fill(model, 10)
    restarted = _stream_reader()
    assert restarted.partitions(restarted.initialOffset(), pinned) == []
    end = restarted.latestOffset(pinned, UNLIMITED)
    assert sum(map(len, _read(restarted, restarted.partitions(pinned, end)))) == 10


def test_a_query_that_begins_at_a_cut_reads_in_its_first_batch(world):
    model, _ = world
    _fill(model, 10)
    text = StreamCut("s", "t", model.tail()).as_text()
    _fill(model, 16)
    model.scale([0], [(0, 4), (4, 8)])
    _fill(model, 8)
    reader = _stream_reader(start_stream_cut=text)
    end = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    assert end["streams"] == {"s/t": {"0": 520}}
    restarted = _stream_reader(start_stream_cut=text)
    assert sum(map(len, _read(restarted, restarted.partitions(restarted.initialOffset(), end)))) == 16


def test_once_reads_from_the_head_to_the_tail_in_one_batch_across_scaling(world):
    model, _ = world
    _fill(model, 20)
    model.scale([0], [(0, 4), (4, 8)])
    _fill(model, 20)
    reader = _stream_reader(start_stream_cut="earliest")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert sum(map(len, _read(reader, reader.partitions(reader.initialOffset(), end)))) == 40
    model.scale(model.active, [(0, 8)])
    _fill(model, 5)
    further = reader.latestOffset(end, ReadAllAvailable())
    assert sum(map(len, _read(reader, reader.partitions(end, further)))) == 5


@pytest.mark.slow
@pytest.mark.parametrize("key_order", ["segment", "none"])
def test_every_event_comes_once_over_random_lives_with_restarts(world, key_order):
    model, client = world
    for seed in seeds(20):
        chance = random.Random(seed)
        client.model = model = StreamModel()
        client.block_bytes = chance.choice((50, 1000, 1 << 20))
        reader = _stream_reader(start_stream_cut="earliest", key_order=key_order)
        offset, seen = reader.initialOffset(), defaultdict(list)
        quiet = 0
        while quiet < 3:
            if chance.random() < 0.6 and model.epoch < 12:
                _happen(model, chance)
            limit = ReadMaxBytes(chance.choice((1, 60, 500, 1 << 60)))
            end = reader.latestOffset(offset, limit)
            quiet = quiet + 1 if end == offset and model.epoch >= 12 else 0
            if chance.random() < 0.3:
                reader = _stream_reader(start_stream_cut="earliest", key_order=key_order)
            for events in _read(reader, reader.partitions(offset, end)):
                for key, number in events:
                    seen[key].append(number)
            offset = end
        for key in range(model.width):
            found = seen[key] if key_order == "segment" else sorted(seen[key])
            assert found == list(range(model.numbers[key])), f"seed {seed}, key {key}"


def test_available_now_stops_at_the_tail_of_its_beginning(world):
    model, _ = world
    _fill(model, 40)
    reader = _stream_reader(start_stream_cut="earliest", approx_bytes_per_trigger="200")
    reader.prepareForTriggerAvailableNow()
    _fill(model, 40)
    limit = reader.getDefaultReadLimit()
    assert limit.max_bytes == 200
    offset, rows, batches = reader.initialOffset(), 0, 0
    while (end := reader.latestOffset(offset, limit)) != offset:
        rows += sum(map(len, _read(reader, reader.partitions(offset, end))))
        offset, batches = end, batches + 1
    assert (rows, batches) == (40, 5)  # 800 bytes in four batches behind the first, empty one
    assert reader.reportLatestOffset()["streams"] == {"s/t": {"0": 1600}}


def test_an_end_cut_is_never_passed(world):
    model, _ = world
    _fill(model, 10)
    text = StreamCut("s", "t", model.tail()).as_text()
    _fill(model, 10)
    model.scale([0], [(0, 8)])
    _fill(model, 10)
    reader = _stream_reader(start_stream_cut="earliest", end_stream_cut=text)
    offset = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    end = reader.latestOffset(offset, UNLIMITED)
    assert end["streams"] == {"s/t": {"0": 200}}
    assert reader.latestOffset(end, UNLIMITED) == end


def test_times_bound_a_batch_and_a_query(world):
    model, client = world
    times = {}
    for hour in ("2026-11-25T10:00Z", "2026-11-25T11:00Z"):
        _fill(model, 10)
        times[parse_time_ms(hour)] = model.tail()
    _fill(model, 10)
    client.times = times
    first, second = times
    source = _source(start_timestamp=str(first), end_timestamp="2026-11-25T12:00+01:00")
    reader = source.reader(_schema(source))
    assert sum(each.num_rows for part in reader.partitions() for each in reader.read(part)) == 10
    source = _source(start_timestamp=str(first - 1))
    reader = source.reader(_schema(source))
    assert sum(each.num_rows for part in reader.partitions() for each in reader.read(part)) == 30
    reader = _stream_reader(start_timestamp=str(first), end_timestamp=str(second))
    assert reader.initialOffset() == {"start": f"at {first}"}
    end = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    for _ in range(2):  # a batch that is repeated
        assert sum(map(len, _read(reader, reader.partitions(reader.initialOffset(), end)))) == 10
    assert reader.latestOffset(end, UNLIMITED) == end


def test_truncated_data_is_reported_or_skipped_as_asked(world):
    model, client = world
    _fill(model, 10)
    strict, lenient = _stream_reader(), _stream_reader(fail_on_data_loss="false")
    start = strict.latestOffset({"start": "earliest"}, UNLIMITED)
    end = strict.latestOffset(start, UNLIMITED)
    client.truncate({0: 60})
    with pytest.raises(PreconditionError, match="begins at 60"):
        strict.partitions(start, end)
    assert sum(map(len, _read(lenient, lenient.partitions(start, end)))) == 7
    # Truncated past a scale event: the segment itself is gone.
    model.scale([0], [(0, 4), (4, 8)])
    _fill(model, 16)
    left, right = model.active
    client.starts.clear()
    client.truncate({left: 40, right: 0})
    with pytest.raises(PreconditionError, match="fail_on_data_loss"):
        strict.latestOffset(start, UNLIMITED)
    further = lenient.latestOffset(start, UNLIMITED)
    assert sum(map(len, _read(lenient, lenient.partitions(start, further)))) == 14


def test_a_truncation_between_planning_and_reading_is_reported_or_skipped(world):
    model, client = world
    _fill(model, 10)
    strict, lenient = _stream_reader(), _stream_reader(fail_on_data_loss="false")
    start = strict.latestOffset({"start": "earliest"}, UNLIMITED)
    partitions = strict.partitions(start, strict.latestOffset(start, UNLIMITED))
    client.truncate({0: 60})
    with pytest.raises(PreconditionError, match="data loss"):
        _read(strict, partitions)
    assert sum(map(len, _read(lenient, partitions))) == 7


def test_a_checkpoint_of_another_stream_or_of_a_stream_made_anew_is_refused(world):
    model, _ = world
    _fill(model, 2)
    reader = _stream_reader()
    with pytest.raises(InvalidArgumentError, match="another checkpoint"):
        reader.latestOffset({"cut": {"0": 0}, "scope": "s", "stream": "other", "v": 1}, UNLIMITED)
    with pytest.raises(PreconditionError, match="created anew"):
        reader.latestOffset({"cut": {"0": 4000}, "scope": "s", "stream": "t", "v": 1}, UNLIMITED)


# ------------------------------------------------------------------------------ streams created anew


def _lives(model, life):
    """Bring a stream to one of the states in which it can be when it is deleted."""
    _fill(model, 5)
    if life == "sealed":
        model.seal()
    elif life == "scaled":
        model.scale(model.active, [(0, 4), (4, 8)])
        _fill(model, 8)


@pytest.mark.slow
@pytest.mark.parametrize("life", ["active", "sealed", "scaled"])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (1, 3)])
@pytest.mark.parametrize("sealed_again", [False, True])
def test_a_stream_created_anew_stops_a_query_or_is_read_from_its_head(
    world, caplog, life, restarted, before, after, sealed_again
):
    _, client = world
    client.model = model = StreamModel(segments=before)
    _lives(model, life)
    strict = _stream_reader(start_stream_cut="earliest")
    lenient = _stream_reader(start_stream_cut="earliest", fail_on_data_loss="false")
    offsets = {}
    for reader in (strict, lenient):
        offset = reader.latestOffset(reader.initialOffset(), UNLIMITED)
        for _ in range(3):
            offset = reader.latestOffset(offset, UNLIMITED)
        offsets[reader] = offset
    if life == "active":
        model.seal()
        lenient.latestOffset(offset, UNLIMITED)
    client.create_anew(after)
    _fill(client.model, 40)
    if sealed_again:
        client.model.seal()
    if restarted:
        strict = _stream_reader()
        lenient = _stream_reader(fail_on_data_loss="false")
    with pytest.raises(PreconditionError, match=r"data loss: .*created anew"):
        strict.latestOffset(offset, UNLIMITED)
    end = lenient.latestOffset(offset, UNLIMITED)
    assert any("goes on at its head" in line for line in caplog.messages)
    assert sum(map(len, _read(lenient, lenient.partitions(offset, end)))) == 40
    with pytest.raises(PreconditionError, match="created anew"):
        strict.partitions(offset, end)
    _fill(client.model, 0 if sealed_again else 7)
    further = lenient.latestOffset(end, UNLIMITED)
    assert sum(map(len, _read(lenient, lenient.partitions(end, further)))) == (0 if sealed_again else 7)


def test_a_batch_that_was_planned_on_the_former_stream_is_lost(world):
    model, client = world
    _fill(model, 5)
    start = _stream_reader().latestOffset({"start": "earliest"}, UNLIMITED)
    end = _stream_reader().latestOffset(start, UNLIMITED)
    client.create_anew()
    _fill(client.model, 4)
    with pytest.raises(PreconditionError, match="data loss"):
        _stream_reader().partitions(start, end)
    assert _stream_reader(fail_on_data_loss="false").partitions(start, end) == []


def test_an_end_cut_of_the_former_stream_is_refused_after_the_query_went_on_at_the_head(world):
    model, client = world
    _fill(model, 5)
    text = StreamCut("s", "t", model.tail()).as_text()
    reader = _stream_reader(start_stream_cut="earliest", end_stream_cut=text, fail_on_data_loss="false")
    offset = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    client.create_anew()
    offset = reader.latestOffset(offset, UNLIMITED)
    with pytest.raises(InvalidArgumentError, match="does not have"):
        reader.latestOffset(offset, UNLIMITED)


def test_a_batch_read_of_a_cut_of_the_former_stream_is_refused(world):
    model, client = world
    _fill(model, 5)
    text = StreamCut("s", "t", model.tail()).as_text()
    client.create_anew(3)
    for edge in ("start_stream_cut", "end_stream_cut"):
        source = _source(**{edge: text})
        with pytest.raises(InvalidArgumentError, match="does not have"):
            source.reader(_schema(source)).partitions()


@pytest.mark.parametrize("sealed", [False, True])
def test_a_range_behind_the_tail_is_refused_while_planning(world, sealed):
    model, _ = world
    _fill(model, 5)
    text = StreamCut("s", "t", {0: model.length(0) + 20}).as_text()
    if sealed:
        model.seal()
    for edge in ("start_stream_cut", "end_stream_cut"):
        source = _source(**{edge: text})
        with pytest.raises(InvalidArgumentError, match="ends at 100"):
            source.reader(_schema(source)).partitions()
        reader = _stream_reader(**{edge: text})
        with pytest.raises(InvalidArgumentError, match="ends at 100"):
            reader.latestOffset(reader.initialOffset(), UNLIMITED)


@pytest.mark.slow
def test_bytes_cut_at_any_place_into_blocks_give_the_same_events(world):
    model, client = world
    for size in (11, 30, 12, 400, 11, 11):
        model.append(0, size)
    data = client.data(0)
    whole = None
    for step in range(1, len(data) + 1):
        blocks = (memoryview(data)[at : at + step] for at in range(0, len(data), step))
        found = pa.Table.from_batches(_batches(blocks, len(data)))["event"].to_pylist()
        whole = whole or found
        assert found == whole
    for end in range(len(data)):
        with pytest.raises(DataCorruptionError):
            list(_batches([memoryview(data)[:end]], len(data)))


def _batches(blocks, end):
    return record_batches(
        blocks,
        scope="s",
        stream="t",
        segment_id=0,
        offset=0,
        end=end,
        columns=["event"],
        names=["event"],
        batch_bytes=64,
    )


def test_an_event_that_is_a_string_is_decoded_and_checked(world):
    from pyspark.sql.types import StringType, StructField, StructType

    model, client = world
    schema = StructType([StructField("Event", StringType())])

    def texts(**options):
        reader = _source(**options).reader(schema)
        tables = [pa.Table.from_batches(reader.read(part)) for part in reader.partitions()]
        assert tables[0].schema.equals(to_arrow_schema(schema))
        return tables[0]["Event"].to_pylist()

    _fill(model, 3)
    assert [text.rstrip(".") for text in texts()] == ["0:0", "1:0", "2:0"]
    model.append(3, 20)
    whole = client.data(0)
    client.data = lambda _: whole[:40] + whole[40:].replace(b"2:0", b"\xc3(\xff")
    with pytest.raises(InvalidArgumentError, match=r"s/t segment 0: the event at offset 40 is no UTF-8"):
        texts()
    assert texts(invalid_utf8="replace")[2:] == ["\ufffd(\ufffd.........", "3:0........."]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"scope": ""}, InvalidArgumentError, "scope"),
        ({"invalid_utf8": "drop"}, InvalidArgumentError, "invalid_utf8"),
        ({"columns": "event,event"}, InvalidArgumentError, "twice"),
        ({"key_order": "any"}, InvalidArgumentError, "key_order"),
        ({"metadata": "Everything"}, InvalidArgumentError, "metadata"),
        ({"start_timestamp": "noon"}, InvalidArgumentError, "start_timestamp: 'noon' is no time"),
        ({"end_timestamp": "1h"}, InvalidArgumentError, "end_timestamp: '1h' is no time"),
        ({"start_timestamp": "2026-11-25", "start_stream_cut": "latest"}, InvalidArgumentError, "exclude"),
        ({"end_timestamp": "2026-11-25", "end_stream_cut": "latest"}, InvalidArgumentError, "exclude"),
        (
            {"start_timestamp": "2026-11-26", "end_timestamp": "2026-11-25"},
            InvalidArgumentError,
            "later than",
        ),
        ({"direct_read": "true"}, UnsupportedError, "direct_read"),
        ({"user": "me"}, InvalidArgumentError, "password"),
        ({"username": "me"}, InvalidArgumentError, "password"),
        ({"password": "me"}, InvalidArgumentError, "user"),
        ({"auth_token": "a", "user": "b", "password": "c"}, InvalidArgumentError, "exclude"),
        ({"tls_key_file": "x"}, InvalidArgumentError, "tls_cert_file"),
        ({"batch_bytes": "5"}, InvalidArgumentError, "batch_bytes"),
    ],
)
def test_a_wrong_option_is_named(options, error, text):
    with pytest.raises(error, match=text):
        parse_source({"scope": "s", "stream": "t", **options}, streaming=False)


def test_a_table_of_the_catalog_is_refused_when_it_is_created():
    with pytest.raises(UnsupportedError, match="CREATE TEMPORARY VIEW"):
        _source(provider="headrace", owner="me").schema()


def test_options_of_the_sink_exclude_each_other_where_they_contradict():
    both = {
        "default_retention_size_bytes": "1",
        "default_retention_duration_milliseconds": "1",
    }
    with pytest.raises(InvalidArgumentError, match="exclude"):
        parse_sink({"scope": "s", "stream": "t", **both}, streaming=False)


def test_secrets_do_not_show_in_texts():
    options = parse_source(
        {"scope": "s", "stream": "t", "username": "me", "password": "hush"}, streaming=False
    )
    assert "hush" not in repr(options)
