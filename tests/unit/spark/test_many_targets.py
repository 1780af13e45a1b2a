"""One query that writes several streams, and columns that only records have a place for."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace.errors import InvalidArgumentError, NoSuchStreamError, TransactionStateError
from headrace.model.records import RECORDS_TAG
from headrace.spark import sink, sink_target
from headrace.spark.identity import BatchIdentity
from headrace.spark.options import parse_sink
from headrace.spark.sink import abort_batch, commit_batch, make_stream_writer, write_rows
from tests.unit.spark.fakes import FakeStore, FakeTransaction

BY_ROW = parse_sink({"scope": "s"}, streaming=True)
FIRST = BatchIdentity("q", "q", 0)


class FakeStores:
    """Streams of a system, each with transactions and watermarks of its own."""

    def __init__(self, *names):
        self.stores = {f"s/{name}": FakeStore() for name in names}

    def stream_exists(self, scope, stream):
        return f"{scope}/{stream}" in self.stores

    def __getattr__(self, call):
        return lambda scope, stream, **rest: getattr(self.stores[f"{scope}/{stream}"], call)(
            scope, stream, **rest
        )

    def visible(self):
        return {name: [event.decode() for event, _ in store.visible] for name, store in self.stores.items()}


@pytest.fixture
def stores(monkeypatch):
    stores = FakeStores("a", "b")
    for module in (sink, sink_target):
        monkeypatch.setattr(module, "client_for", lambda _: stores)
    monkeypatch.setattr(
        sink_target, "txn_writer_for", lambda _, scope, stream, __: stores.stores[f"{scope}/{stream}"]
    )
    monkeypatch.setattr(sink_target, "BlockingTransaction", FakeTransaction)
    return stores


def _batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def test_each_row_goes_to_the_stream_that_it_names(stores):
    first = _batch(event=["1", "2", "3"], stream=["a", "s/b", "a"])
    message = write_rows(BY_ROW, iter([first, _batch(event=["4"], stream=["b"])]), FIRST)
    assert stores.visible() == {"s/a": [], "s/b": []}
    commit_batch(BY_ROW, [message], 0)
    assert stores.visible() == {"s/a": ["1", "3"], "s/b": ["2", "4"]}


def test_a_batch_of_which_one_stream_was_committed_is_completed_when_it_is_repeated(stores):
    batches = [_batch(event=["1", "2"], stream=["a", "b"])]
    message = write_rows(BY_ROW, iter(batches), FIRST)
    stores.stores["s/b"].open.clear()  # its lease has ended
    with pytest.raises(TransactionStateError, match="s/b"):
        commit_batch(BY_ROW, [message], 0)
    abort_batch(BY_ROW, [message, None], None)
    assert stores.visible() == {"s/a": ["1"], "s/b": []}
    commit_batch(BY_ROW, [write_rows(BY_ROW, iter(batches), FIRST)], 0)
    assert stores.visible() == {"s/a": ["1"], "s/b": ["2"]}


def test_a_row_that_names_no_stream_voids_the_attempt(stores):
    for value, error, sentence in (
        (None, InvalidArgumentError, "column stream holds a null"),
        ("c", NoSuchStreamError, "headrace stream create s/c"),
        ("a,b", InvalidArgumentError, "names one stream"),
        ("", InvalidArgumentError, "illegal"),
    ):
        rows = [_batch(event=["1"], stream=["a"]), _batch(event=["2"], stream=pa.array([value], pa.string()))]
        with pytest.raises(error, match=sentence):
            write_rows(BY_ROW, iter(rows), FIRST)
    assert [store.open for store in stores.stores.values()] == [{}, {}]
    many = _batch(event=["1"] * 101, stream=[f"n{number}" for number in range(101)])
    stores.stores.update({f"s/n{number}": FakeStore() for number in range(101)})
    with pytest.raises(InvalidArgumentError, match="more than 100 streams"):
        write_rows(BY_ROW, iter([many]), FIRST)


def test_a_sink_without_a_stream_needs_a_column_that_says_it(stores):
    event, stream = StructField("event", StringType()), StructField("stream", StringType())
    make_stream_writer(BY_ROW, StructType([event, stream]), overwrite=False)
    for fields in ([event], [event, StructField("stream", LongType())]):
        with pytest.raises(InvalidArgumentError, match="or a column stream"):
            make_stream_writer(BY_ROW, StructType(fields), overwrite=False)
    named = parse_sink({"scope": "s", "stream": "a"}, streaming=True)
    rows = [_batch(event=["1"], stream=["elsewhere"])]  # as a frame that was read has it
    commit_batch(named, [write_rows(named, iter(rows), FIRST)], 0)
    assert stores.visible() == {"s/a": ["1"], "s/b": []}


def test_keys_have_two_names_and_the_longer_one_counts(stores):
    named = parse_sink({"scope": "s", "stream": "a"}, streaming=True)
    for batch, columns in enumerate(({"key": ["k"]}, {"key": ["x"], "routing_key": ["k"]})):
        identity = BatchIdentity("q", "q", batch)
        rows = [_batch(event=[str(batch)], **columns)]
        commit_batch(named, [write_rows(named, iter(rows), identity)], batch)
    assert stores.stores["s/a"].visible == [(b"0", "k"), (b"1", "k")]


def test_times_and_headers_are_written_where_they_have_a_place(stores):
    named = parse_sink({"scope": "s", "stream": "a"}, streaming=True)
    time = datetime(2026, 11, 25, 10, tzinfo=UTC)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(["1", "2"]),
            pa.array(["k", None]),
            pa.array([time, None], pa.timestamp("us", "UTC")),
            pa.array([[("a", b"x")], None], pa.map_(pa.string(), pa.binary())),
        ],
        names=["event", "key", "timestamp", "headers"],
    )
    for tags in (set(), {RECORDS_TAG}):
        stores.stores["s/a"].tags = tags
        message = write_rows(named, iter([rows]), FIRST)
        parts = stores.stores["s/a"].open[message.txn_id].parts
        if not tags:
            assert parts == [(None, None), (None, None)]
            continue
        (without_key, with_key) = parts
        assert with_key[0].to_pylist() == [time]
        assert with_key[1].to_pylist() == [[("a", b"x")]]
        assert without_key[0].null_count == 0
        assert without_key[1].to_pylist() == [None]


def test_rows_of_several_streams_may_be_appended_at_once(stores, monkeypatch):
    options = parse_sink({"scope": "s", "exactly_once": "false"}, streaming=True)
    written = {}

    def event_writer(scope, stream):
        rows = written.setdefault(stream, [])
        return SimpleNamespace(
            write_many=lambda events, _: rows.extend(events.to_pylist()), close=lambda: rows.append("closed")
        )

    stores.event_writer = event_writer
    write_rows(options, iter([_batch(event=["1", "2"], stream=["a", "b"])]), None)
    assert written == {"a": ["1", "closed"], "b": ["2", "closed"]}
