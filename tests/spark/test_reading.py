"""Batch and streaming reads through a real Spark against a real server."""

import json
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from headrace.client import ClientConfig, KeyRange
from headrace.model.stream_cut import StreamCut
from headrace.spark import register
from headrace.spark.subscription import GroupCalls

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]


def _split(streams, name):
    scope, stream = "spark", streams.prefix + name
    (old,) = streams.client.current_segments(scope, stream)
    halves = [KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)]
    streams.client.scale_stream(scope, stream, [old.segment_id], halves)


def _merge(streams, name):
    scope, stream = "spark", streams.prefix + name
    old = [each.segment_id for each in streams.client.current_segments(scope, stream)]
    streams.client.scale_stream(scope, stream, old, [KeyRange(0.0, 1.0)])


def _collected(frame):
    return [int(bytes(row["event"])) for row in frame.collect()]


def test_a_batch_read_holds_every_event_once_across_scale_events(streams):
    streams.make("in")
    streams.write("in", range(100))
    _split(streams, "in")
    streams.write("in", range(100, 200))
    _merge(streams, "in")
    streams.write("in", range(200, 300))
    frame = streams.batch("in").load()
    assert frame.columns == ["event", "scope", "stream", "segment_id", "offset"]
    assert sorted(_collected(frame)) == list(range(300))
    assert frame.select("segment_id").distinct().count() == 4
    chosen = streams.batch("in", columns="offset,event").load()
    assert chosen.columns == ["offset", "event"]
    assert chosen.orderBy("offset").first()["offset"] == 0
    given = streams.batch("in").schema("segment_id bigint, event binary").load()
    assert sorted(_collected(given)) == list(range(300))


def test_many_segments_are_few_tasks_and_one_segment_may_be_several(streams):
    register(streams.spark)
    streams.make("in", segments=16)
    streams.write("in", range(100), keys=50)
    cores = streams.spark.sparkContext.defaultParallelism
    for options, count in (({}, cores), ({"max_partitions": "5"}, 5), ({"min_partitions": "20"}, 20)):
        frame = streams.batch("in", **options).load()
        assert frame.rdd.getNumPartitions() == count
        assert sorted(_collected(frame)) == list(range(100))


def test_cuts_bound_a_batch_read_and_truncation_is_reported(streams):
    streams.make("in")
    streams.write("in", range(50))
    first = streams.client.tail_cut("spark", streams.prefix + "in")
    streams.write("in", range(50, 80))
    second = streams.client.tail_cut("spark", streams.prefix + "in")
    streams.write("in", range(80, 100))
    bounded = streams.batch("in", START_STREAM_CUT=first.as_text(), end_stream_cut=second.as_text()).load()
    assert sorted(_collected(bounded)) == list(range(50, 80))
    head = streams.client.head_cut("spark", streams.prefix + "in").as_text()
    streams.client.truncate_stream(first)
    assert sorted(_collected(streams.batch("in").load())) == list(range(50, 100))
    with pytest.raises(Exception, match="fail_on_data_loss"):
        streams.batch("in", start_stream_cut=head).load().collect()
    rest = streams.batch("in", start_stream_cut=head, fail_on_data_loss="false").load()
    assert sorted(_collected(rest)) == list(range(50, 100))


def test_times_bound_a_batch_read(streams):
    streams.make("in")
    streams.write("in", range(50))
    scope, stream = "spark", streams.prefix + "in"
    tail = streams.client.tail_cut(scope, stream)
    deadline = time.monotonic() + 60
    while (found := streams.client.cut_at(scope, stream, time.time_ns() // 1_000_000)).cut != tail:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    streams.write("in", range(50, 80))
    at = datetime.fromtimestamp(found.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    since = streams.batch("in", start_timestamp=at).load()
    assert sorted(_collected(since)) == list(range(50, 80))
    until = streams.batch("in", end_timestamp=str(found.time_ms)).load()
    assert sorted(_collected(until)) == list(range(50))


def test_metadata_tells_streams_cuts_and_segments(streams):
    streams.make("in", segments=2)
    streams.write("in", range(10))
    names = [row["stream_name"] for row in streams.batch("in", metadata="Streams").load().collect()]
    assert streams.prefix + "in" in names
    renamed = streams.batch("in", metadata="Streams").schema("Scope string, name string").load().collect()
    assert [row["name"] for row in renamed] == names
    info = streams.batch("in", metadata="StreamInfo").load().first()
    assert StreamCut.from_text(info["tail_stream_cut"]).offsets.keys() == {0, 1}
    segments = streams.batch("in", metadata="Segments").load().orderBy("segment_id").collect()
    assert [(row["key_begin"], row["key_end"], row["sealed"]) for row in segments] == [
        (0.0, 0.5, False),
        (0.5, 1.0, False),
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": "event,colour"}, "colour"),
        ({"start_stream_cut": "yesterday"}, "not a stream cut"),
        ({"min_partitions": "0"}, "min_partitions"),
        ({"batch_bytes": "many"}, "batch_bytes"),
        ({"fail_on_data_loss": "perhaps"}, "fail_on_data_loss"),
        ({"batchBytes": "5000"}, "batch_bytes does"),
        ({"assign": "5"}, "start_stream_cut"),
    ],
)
def test_a_wrong_option_is_named(streams, options, sentence):
    with pytest.raises(Exception, match=sentence):
        streams.batch("in", **options).load().collect()


def test_a_missing_stream_or_name_is_named(streams):
    with pytest.raises(Exception, match="headrace stream create spark/") as refused:
        streams.batch("missing").load()
    first, *others = str(refused.value).splitlines()
    assert "headrace stream create spark/" in first
    assert not [line for line in others if line.startswith("  File ")]
    with pytest.raises(Exception, match="headrace stream create spark/"):
        streams.stream("missing").load()
    with pytest.raises(Exception, match="option stream is required"):
        streams.spark.read.format("headrace").option("scope", "spark").load()


def test_sql_reads_and_writes_a_view_and_refuses_a_table(streams):
    streams.make("in")
    streams.write("in", range(10))
    name = f"spark/{streams.prefix}in"
    options = (
        f"USING headrace OPTIONS (path '{name}', controller '{streams.uri}', startingOffsets 'earliest')"
    )
    sql = streams.spark.sql
    sql(f"CREATE OR REPLACE TEMPORARY VIEW orders (event STRING) {options}")
    assert {row.event for row in sql("SELECT event FROM orders").collect()} == set(map(str, range(10)))
    sql("INSERT INTO orders VALUES ('10'), ('11')")
    assert sorted(streams.numbers("in")) == list(range(12))
    with pytest.raises(Exception, match="headrace stream create spark/none"):
        sql(f"CREATE TEMPORARY VIEW none {options.replace(name, 'spark/none')}")
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW"):
        sql(f"CREATE TABLE orders_of_all {options}")
    sql("CREATE TABLE orders_of_all (event STRING) USING headrace")  # nobody asks the source
    try:
        given = f"WITH (path '{name}', controller '{streams.uri}')"
        sql(f"INSERT INTO orders_of_all {given} VALUES ('12')")
        assert sql(f"SELECT * FROM orders_of_all {given}").count() == 13
        with pytest.raises(Exception, match=r"SELECT ... FROM table WITH \(...\)"):
            sql("SELECT * FROM orders_of_all").collect()
    finally:
        sql("DROP TABLE orders_of_all")
    both = streams.spark.read.format("headrace").option("controller", streams.uri)
    many = both.load(f"{name}").union(both.option("stream_pattern", f"{streams.prefix}.*").load("spark"))
    assert many.count() == 26


def test_available_now_reads_in_capped_batches_up_to_now_and_goes_on_later(streams, tmp_path):
    streams.make("in", segments=2)
    streams.write("in", range(400))
    shares = []

    def run():
        query = (
            streams.stream("in", **limits, start_stream_cut="earliest", columns="event", consumer="etl")
            .load()
            .writeStream.foreachBatch(lambda batch, number: shares.append((number, _collected(batch))))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        return json.loads(query.lastProgress["sources"][0]["latestOffset"])

    limits = {"approx_bytes_per_trigger": 1500, "max_events_per_trigger": 150}
    assert run()["behind"] == {"bytes": 0, "events": 0, "ms": 0}
    calls = GroupCalls(streams.uri, ClientConfig())
    assert calls.subscribers("spark", streams.prefix + "in") == ["spark/etl"]
    assert Counter(number for _, share in shares for number in share) == Counter(range(400))
    sizes = [len(share) for _, share in shares]
    assert max(sizes) <= 152
    assert len(shares) > 3
    # A scale event and new data between two runs; the second run begins where the first one ended.
    segments = streams.client.current_segments("spark", streams.prefix + "in")
    streams.client.scale_stream(
        "spark",
        streams.prefix + "in",
        [each.segment_id for each in segments],
        [KeyRange(0.0, 0.3), KeyRange(0.3, 1.0)],
    )
    streams.write("in", range(400, 460))
    before = len(shares)
    run()
    assert sorted(number for _, share in shares[before:] for number in share) == list(range(400, 460))


def test_a_running_query_follows_scaling_and_keeps_the_order_of_every_key(streams, tmp_path):
    streams.make("in")
    seen = []

    def collect(batch, _):
        seen.extend(
            row["number"] for row in batch.selectExpr("cast(cast(event as string) as int) number").collect()
        )

    query = (
        streams.stream("in", columns="event")
        .load()
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        _wait(query, lambda: query.lastProgress is not None)  # "latest" is pinned by the first, empty batch
        streams.write("in", range(100))
        _split(streams, "in")
        streams.write("in", range(100, 200))
        _merge(streams, "in")
        streams.write("in", range(200, 300))
        _wait(query, lambda: len(seen) >= 300)
    finally:
        query.stop()
    assert sorted(seen) == list(range(300))
    for key in range(5):
        mine = [number for number in seen if number % 5 == key]
        assert mine == sorted(mine)


@pytest.mark.parametrize("tolerated", [False, True])
def test_a_stream_created_anew_under_a_query_stops_it_or_is_read_from_its_head(streams, tmp_path, tolerated):
    streams.make("in", segments=2)
    streams.write("in", range(5))
    seen = []
    options = {"start_stream_cut": "earliest", "columns": "event"}
    if tolerated:
        options["fail_on_data_loss"] = "false"

    def start():
        return (
            streams.stream("in", **options)
            .load()
            .writeStream.foreachBatch(lambda batch, _: seen.extend(_collected(batch)))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="3 seconds")
            .start()
        )

    query = start()
    try:
        _wait(query, lambda: len(seen) == 5)
        client, stream = streams.client, streams.prefix + "in"
        client.seal_stream("spark", stream)
        idle = query.lastProgress["timestamp"]
        _wait(query, lambda: query.lastProgress["timestamp"] > idle)
        client.delete_stream("spark", stream)
        streams.make("in", segments=1)
        streams.write("in", range(5, 45))
        if tolerated:
            _wait(query, lambda: len(seen) == 45)
        else:
            with pytest.raises(Exception, match=r"data loss: .*(created anew|does not exist)"):
                query.awaitTermination(240)
    finally:
        query.stop()
    # A query that was not running meanwhile: from two segments to one, from one to three.
    client.seal_stream("spark", stream)
    client.delete_stream("spark", stream)
    streams.make("in", segments=3)
    streams.write("in", range(45, 85))
    query = start()
    try:
        if tolerated:
            _wait(query, lambda: len(seen) == 85)
            assert sorted(seen) == list(range(85))
        else:
            with pytest.raises(Exception, match=r"data loss: .*created anew"):
                query.awaitTermination(240)
            assert sorted(seen) == list(range(5))
    finally:
        query.stop()


def _wait(query, condition, seconds=90):
    for _ in range(seconds * 20):
        if condition():
            return
        assert not query.awaitTermination(0.05), query.exception()
    pytest.fail("nothing happened in time")


def test_metadata_is_refused_in_streaming_reads(streams):
    streams.make("in")
    query = streams.stream("in", metadata="Segments").load().writeStream.format("noop").start()
    with pytest.raises(Exception, match="batch reads only"):
        query.awaitTermination(240)
