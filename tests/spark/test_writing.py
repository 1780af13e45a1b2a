"""The sink through a real Spark against a real server: exactly once, also when the driver is killed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.effort import is_long

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]

ROOT = Path(__file__).parents[2]


def _rows(streams, numbers, slices=2):
    frame = streams.spark.range(numbers.start, numbers.stop, 1, slices)
    return frame.selectExpr(
        "cast(id as string) event", "if(id % 3 = 0, null, cast(id % 5 as string)) routing_key"
    )


def _write(streams, frame, name, **options):
    streams.with_options(frame.write, name, **options).mode("append").save()


def test_a_batch_write_appends_once_and_creates_the_stream(streams):
    _write(streams, _rows(streams, range(200)), "out", default_num_segments=3, allow_create_stream="true")
    assert Counter(streams.numbers("out")) == Counter(range(200))
    assert len(streams.client.current_segments("spark", streams.prefix + "out")) == 3
    # A second job is another batch; one that names itself is taken once however often it comes.
    _write(streams, _rows(streams, range(200, 210)), "out")
    for _ in range(2):
        _write(streams, _rows(streams, range(210, 220)), "out", txn_app_id="nightly", txn_version=7)
    _write(streams, _rows(streams, range(220, 230)), "out", txn_app_id="nightly", txn_version=8)
    _write(streams, _rows(streams, range(230, 240)), "out", exactly_once="false")
    assert Counter(streams.numbers("out")) == Counter(range(240))


def test_rows_of_one_key_keep_their_order(streams):
    streams.make("out", segments=2)
    frame = _rows(streams, range(300), slices=1).where("routing_key is not null")
    _write(streams, frame, "out")
    found = streams.numbers("out")
    for key in range(5):
        mine = [number for number in found if number % 5 == key]
        assert mine == sorted(mine)


def test_one_query_writes_the_streams_that_its_rows_name(streams, tmp_path):
    streams.make("in")
    streams.write("in", range(60))
    for name in ("even", "odd"):
        streams.make(name)
    rows = streams.stream("in", start_stream_cut="earliest").schema("event string").load()
    named = rows.selectExpr(
        "event", f"concat('{streams.prefix}', if(cast(event as int) % 2 = 0, 'even', 'odd')) stream"
    )
    for _ in range(2):  # the second time there is nothing new
        query = (
            named.writeStream.format("headrace")
            .option("controller", streams.uri)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start("spark")
        )
        assert query.awaitTermination(240)
    assert sorted(streams.numbers("even")) == list(range(0, 60, 2))
    assert sorted(streams.numbers("odd")) == list(range(1, 60, 2))


def _lengths(streams, name):
    """Bytes in each segment."""
    scope, stream = "spark", streams.prefix + name
    ids = streams.client.tail_cut(scope, stream).offsets
    return sorted(streams.client.segment_info(scope, stream, each).length for each in ids)


@pytest.mark.parametrize("case_sensitive", [False, True])
def test_the_column_of_keys_is_found_as_spark_resolves_names(streams, tmp_path, case_sensitive):
    streams.make("out", segments=4)
    streams.make("in")
    streams.write("in", range(40))
    streams.spark.conf.set("spark.sql.caseSensitive", str(case_sensitive).lower())
    try:
        columns = ("cast(event as string) event", "'one key' ROUTING_KEY")
        frame = streams.batch("in").load().selectExpr(*columns)
        copies = streams.stream("in", start_stream_cut="earliest").load().selectExpr(*columns)
        writer = streams.with_options(copies.writeStream, "out").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "c"))
        if case_sensitive:
            with pytest.raises(Exception, match="ROUTING_KEY is not routing_key"):
                _write(streams, frame, "out")
            with pytest.raises(Exception, match="ROUTING_KEY is not routing_key"):
                query.start().awaitTermination(240)
            assert _lengths(streams, "out") == [0, 0, 0, 0]
        else:
            _write(streams, frame, "out")
            assert query.start().awaitTermination(240)
            assert _lengths(streams, "out") == [0, 0, 0, 2 * 390]
    finally:
        streams.spark.conf.unset("spark.sql.caseSensitive")


def test_columns_that_can_be_no_key_and_unknown_options_are_ignored(streams):
    frame = streams.spark.range(5).selectExpr(
        "cast(id as string) event", "id RoutingKey", "id Routing_Key", "'one key' routing_key"
    )
    streams.make("out", segments=4)
    # With Routing_Key a bigint, routing_key is not ambiguous.
    _write(streams, frame, "out", timeout_ms="1")
    assert sorted(streams.numbers("out")) == list(range(5))
    assert _lengths(streams, "out")[:3] == [0, 0, 0]


@pytest.mark.parametrize(
    ("columns", "mode", "options", "sentence"),
    [
        ("id", "append", {}, "needs a column event"),
        ("cast(id as string) event, id routing_key", "append", {}, "routing_key is a string"),
        ("cast(null as string) event", "append", {}, "null"),
        ("case when id = 3 then '' else cast(id as string) end event", "append", {}, "at least one byte"),
        ("cast(id as string) event, cast(id as string) routingKey", "append", {}, "rename it to routing_key"),
        ("cast(id as string) event", "append", {"exactlyOnce": "false"}, "exactly_once does"),
        ("cast(id as string) event", "overwrite", {}, "cannot be overwritten"),
        ("cast(id as string) event", "append", {"txn_version": "1"}, "come together"),
        ("cast(id as string) event", "append", {"stream": "none"}, "stream create spark/none, or set option"),
    ],
)
def test_a_wrong_write_is_refused_and_nothing_is_written(streams, columns, mode, options, sentence):
    frame = streams.spark.range(5).selectExpr(*columns.split(", "))
    streams.make("out")
    writer = streams.with_options(frame.write, "out").options(**options)
    with pytest.raises(Exception, match=sentence):
        writer.mode(mode).save()
    assert streams.numbers("out") == []


def test_a_stream_written_by_a_query_with_a_new_checkpoint_needs_permission_to_take_over(streams, tmp_path):
    streams.make("in")
    streams.make("out")
    streams.write("in", range(50))

    def run(checkpoint, **options):
        frame = streams.stream("in", start_stream_cut="earliest", columns="event").load()
        writer = streams.with_options(frame.writeStream, "out", txn_app_id="copy", **options)
        query = (
            writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        )
        query.awaitTermination(240)
        assert not query.isActive

    run("one")
    run("one")
    assert sorted(streams.numbers("out")) == list(range(50))
    with pytest.raises(Exception, match="on_foreign_query=takeover"):
        run("two")
    assert sorted(streams.numbers("out")) == list(range(50))
    run("three", on_foreign_query="takeover")
    assert Counter(streams.numbers("out")) == Counter([*range(50), *range(50)])


def test_complete_mode_is_refused_unless_asked_for(streams, tmp_path):
    streams.make("in")
    streams.write("in", range(10))
    counts = streams.stream("in", start_stream_cut="earliest").load().groupBy("segment_id").count()
    frame = counts.selectExpr("cast(count as string) event")
    writer = streams.with_options(frame.writeStream.outputMode("complete"), "out")
    with pytest.raises(Exception, match="allow_complete"):
        writer.option("checkpointLocation", str(tmp_path / "c")).trigger(
            availableNow=True
        ).start().awaitTermination()


@pytest.mark.skipif(not is_long(), reason="takes two JVMs of its own: make soak")
def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_around_commits(streams, tmp_path, server):
    streams.make("in", segments=2)
    streams.make("out", segments=2)
    streams.write("in", range(500))
    for fault in ("mid_write-1", "before_commit-2", "lost_answer-3", "after_commit-4"):
        (tmp_path / fault).touch()
    names = [streams.prefix + "in", streams.prefix + "out"]
    command = [sys.executable, "-m", "tests.spark.crash_job", server.uri, *names, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    starts = 0
    for _ in range(4):
        starts += 1
        with (tmp_path / f"log-{starts}").open("wb") as log:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, timeout=250, check=False
            )
        if done.returncode == 0:
            break
    said = (tmp_path / f"log-{starts}").read_text(errors="replace")[-3000:]
    assert done.returncode == 0, said
    assert not [each.name for each in tmp_path.glob("*-[0-9]") if not each.name.startswith("log")]
    assert starts == 2
    assert Counter(streams.numbers("out")) == Counter(range(500))
