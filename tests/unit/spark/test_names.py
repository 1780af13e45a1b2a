"""Names at the four doors: of options, and of columns as Spark resolves them."""

import logging
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from headrace.errors import InvalidArgumentError
from headrace.spark import column_names, sink, sink_target, source
from headrace.spark.identity import BatchIdentity
from headrace.spark.options import parse_sink, parse_source
from headrace.spark.sink import write_rows
from headrace.spark.source import HeadraceDataSource
from headrace.spark.written_columns import check_schema
from tests.unit.spark.fakes import FakeClient, FakeStore, FakeTransaction
from tests.unit.spark.stream_model import StreamModel

NAMES = {"scope": "s", "stream": "t"}
EVENTS = StructType([StructField("event", BinaryType())])


@pytest.fixture
def store(monkeypatch):
    store = FakeStore()
    for module in (sink, sink_target):
        monkeypatch.setattr(module, "client_for", lambda _: store)
    monkeypatch.setattr(sink_target, "txn_writer_for", lambda *_: store)
    monkeypatch.setattr(sink_target, "BlockingTransaction", FakeTransaction)
    return store


@pytest.fixture
def case_sensitive(monkeypatch):
    """The session of the task has ``spark.sql.caseSensitive=true``."""

    class Context:
        @staticmethod
        def get():
            return Context()

        def getLocalProperty(self, name):  # noqa: N802 - Spark's name
            return {"spark.sql.caseSensitive": "true"}.get(name)

    monkeypatch.setattr(column_names, "TaskContext", Context)


def _write(columns):
    options = parse_sink(NAMES, streaming=True)
    batch = pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], list(columns))
    write_rows(options, iter([batch]), BatchIdentity("q", "q", 0))


def _written(store):
    return [row for txn in store.open.values() for row in txn.rows]


# ------------------------------------------------------------------------------ columns


@pytest.mark.parametrize("key", ["routing_key", "Routing_Key", "ROUTING_KEY"])
@pytest.mark.parametrize("event", ["event", "Event"])
def test_a_column_of_a_sink_is_found_whatever_its_spelling(store, event, key):
    check_schema(StructType([StructField(event, StringType()), StructField(key, StringType())]))
    _write({event: ["1", "2"], key: ["a", "b"]})
    assert _written(store) == [(b"1", "a"), (b"2", "b")]


def test_two_spellings_of_one_name_are_ambiguous(store):
    with pytest.raises(InvalidArgumentError, match="ambiguous"):
        _write({"event": ["1"], "routing_key": ["a"], "ROUTING_KEY": ["b"]})
    assert store.open == {}


def test_where_spelling_matters_another_spelling_is_refused_and_not_ignored(store, case_sensitive):
    for columns in ({"event": ["1"], "Routing_Key": ["a"]}, {"Event": ["1"], "routing_key": ["a"]}):
        with pytest.raises(InvalidArgumentError, match=r"spark\.sql\.caseSensitive"):
            _write(columns)
    assert store.open == {}
    _write({"event": ["1"], "routing_key": ["a"], "ROUTING_KEY": ["b"]})
    assert _written(store) == [(b"1", "a")]


@pytest.mark.parametrize("name", ["routingKey", "RoutingKey", "routing-key", "Routing Key"])
def test_a_column_with_the_letters_of_the_key_is_not_ignored(name):
    fields = [StructField("event", StringType()), StructField(name, StringType())]
    with pytest.raises(InvalidArgumentError, match=f"{name}.*routing_key"):
        check_schema(StructType(fields))
    check_schema(StructType([*fields, StructField("routing_key", StringType())]))


def test_the_type_of_the_key_is_checked():
    fields = [StructField("event", StringType()), StructField("routing_key", LongType())]
    with pytest.raises(InvalidArgumentError, match="routing_key is a string, not bigint"):
        check_schema(StructType(fields))


OTHER_SPELLINGS = ["RoutingKey", "routing-key", "Routing_Key", "ROUTING_KEY"]


@pytest.mark.parametrize("name", OTHER_SPELLINGS)
def test_a_column_of_another_spelling_and_type_is_no_key_and_ignored(store, name):
    fields = [StructField("event", StringType()), StructField(name, LongType())]
    check_schema(StructType(fields))
    check_schema(StructType([*fields, StructField("routing_key", StringType())]))
    _write({"event": ["2"], name: [7], "routing_key": ["a"]})
    assert _written(store) == [(b"2", "a")]


@pytest.mark.parametrize("name", ["Routing_Key", "ROUTING_KEY"])
def test_a_key_of_another_type_is_refused_where_spelling_does_not_matter(store, name):
    with pytest.raises(InvalidArgumentError, match=f"{name} is a string, not int64"):
        _write({"event": ["1"], name: [7]})
    assert store.open == {}


@pytest.mark.parametrize("name", OTHER_SPELLINGS)
def test_a_column_of_another_type_is_ignored_where_spelling_matters(store, case_sensitive, name):
    _write({"event": ["1"], name: [7]})
    assert _written(store) == [(b"1", None)]


def test_a_refused_spelling_of_the_key_says_rename_or_drop(store, case_sensitive):
    sentence = "rename it to routing_key, or drop it"
    with pytest.raises(InvalidArgumentError, match=sentence):
        check_schema(
            StructType([StructField("event", StringType()), StructField("routingKey", StringType())])
        )
    with pytest.raises(InvalidArgumentError, match=sentence):
        _write({"event": ["1"], "Routing_Key": ["a"]})
    assert store.open == {}


@pytest.fixture
def stored(monkeypatch):
    from headrace.spark import batch, partition_reader

    model = StreamModel()
    model.append(1, 20)
    for module in (batch, partition_reader):
        monkeypatch.setattr(module, "client_for", lambda _: FakeClient(model))


def _read(schema):
    reader = HeadraceDataSource(NAMES).reader(schema)
    (partition,) = reader.partitions()
    return pa.Table.from_batches(pickle.loads(pickle.dumps(reader)).read(partition))


UPPER = StructType([StructField("OFFSET", LongType()), StructField("Event", BinaryType())])


def test_a_read_takes_a_schema_in_any_spelling_and_answers_in_it(stored):
    table = _read(UPPER)
    assert table.column_names == ["OFFSET", "Event"]
    assert table["OFFSET"].to_pylist() == [0]


def test_a_read_refuses_another_spelling_where_that_matters(stored, case_sensitive):
    with pytest.raises(InvalidArgumentError, match=r"spark\.sql\.caseSensitive"):
        _read(UPPER)


def test_a_schema_that_names_a_column_twice_is_refused():
    schema = StructType([StructField("event", BinaryType()), StructField("EVENT", BinaryType())])
    for read in (HeadraceDataSource(NAMES).reader, HeadraceDataSource(NAMES).streamReader):
        with pytest.raises(InvalidArgumentError, match="twice"):
            read(schema)


@pytest.mark.parametrize(
    "types",
    [
        [BinaryType()],
        [StringType()],
        [StringType(), LongType()],
        [StringType(), StringType(), StringType()],
    ],
)
def test_a_schema_that_has_not_the_types_of_the_metadata_is_refused(types):
    door = HeadraceDataSource({**NAMES, "metadata": "Streams"})
    schema = StructType([StructField(f"c{place}", each) for place, each in enumerate(types)])
    with pytest.raises(InvalidArgumentError, match="scope_name string, stream_name string"):
        door.reader(schema)


@pytest.mark.parametrize("names", [("Scope_Name", "stream_name"), ("a", "b")])
def test_a_schema_of_metadata_may_name_the_columns_differently(names):
    door = HeadraceDataSource({**NAMES, "metadata": "Streams"})
    door.reader(StructType([StructField(name, StringType()) for name in names]))


# ------------------------------------------------------------------------------ options


def _open(door, options):
    made = HeadraceDataSource({**NAMES, **options})
    if door in {"reader", "streamReader"}:
        return getattr(made, door)(EVENTS)
    return getattr(made, door)(schema=EVENTS, overwrite=False)


DOORS = ["reader", "streamReader", "writer", "streamWriter"]


@pytest.fixture(autouse=True)
def _nothing_reported():
    source._report.cache_clear()


@pytest.mark.parametrize("door", DOORS)
def test_an_option_that_means_nothing_is_reported_once_at_each_door(store, caplog, door):
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            _open(door, {"colour": "red", "path": "s/t", "checkpointLocation": "y", "queryName": "z"})
    (line,) = caplog.messages
    assert line.endswith(": colour")


@pytest.mark.parametrize(
    ("door", "option", "value"),
    [
        ("reader", "exactly_once", "true"),
        ("reader", "key_order", "none"),
        ("streamReader", "txn_app_id", "a"),
        ("writer", "fail_on_data_loss", "true"),
        ("writer", "allow_complete", "true"),
        ("streamWriter", "start_stream_cut", "earliest"),
        ("streamWriter", "txn_version", "1"),
    ],
)
def test_an_option_of_another_door_is_reported(store, caplog, door, option, value):
    with caplog.at_level(logging.WARNING):
        _open(door, {option: value})
    assert any(line.endswith(f": {option}") for line in caplog.messages)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("exactlyOnce", "exactly_once"),
        ("start_streamcut", "start_stream_cut"),
        ("start.stream.cut", "start_stream_cut"),
        ("min-partitions", "min_partitions"),
        ("exactly_onse", "exactly_once"),
        ("controler", "controller"),
        ("columnss", "columns"),
        ("straem", "stream"),
        ("cotnroller", "controller"),
    ],
)
def test_an_option_close_to_a_known_one_is_refused_with_the_known_name(store, door, given, meant):
    with pytest.raises(InvalidArgumentError, match=f"{given.lower()} .*{meant}"):
        _open(door, {given: "true"})


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["timeout_ms", "transaction_timeout", "sterams", "batch_size", "token_file"])
def test_an_option_that_is_more_than_one_edit_away_is_reported(store, caplog, door, name):
    with caplog.at_level(logging.WARNING):
        _open(door, {name: "1"})
    assert any(line.endswith(f": {name}") for line in caplog.messages)


def test_options_that_spark_and_its_users_add_are_never_refused():
    others = [
        "path",
        "mergeSchema",
        "header",
        "maxFilesPerTrigger",
        "batchsize",
        "recursiveFileLookup",
        "timeZone",
    ]
    parse_source({**NAMES, **dict.fromkeys(others, "1")}, streaming=False)
    parse_sink({**NAMES, **dict.fromkeys(others, "1")}, streaming=True)
