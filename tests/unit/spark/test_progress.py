"""Limits by events, positions in JSON, what a query says of its progress, what it holds as a subscriber."""

import json
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.errors import InvalidArgumentError, NoSuchReaderGroupError, PreconditionError
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.spark import stream
from headrace.spark.lag import bytes_behind, time_behind
from headrace.spark.options import parse_source
from headrace.spark.subscription import Subscription
from tests.unit.spark.test_many_streams import _reader, _rows, system  # noqa: F401
from tests.unit.spark.test_sources import UNLIMITED, _fill, _read, _schema, _source, _stream_reader, world  # noqa: F401


def _batches(reader, offset):
    limit = reader.getDefaultReadLimit()
    while (end := reader.latestOffset(offset, limit)) != offset:
        yield end, _read(reader, reader.partitions(offset, end))
        offset = end


# ------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("option", ["max_events_per_trigger", "maxOffsetsPerTrigger"])
@pytest.mark.parametrize("size", [12, 300])
def test_a_batch_has_no_more_events_than_its_limit_and_one_of_each_segment(world, option, size):  # noqa: F811
    model, client = world
    client.block_bytes = 70
    for number in range(64):
        model.append(number % 8, size)
    model.scale([0], [(0, 2), (2, 8)])
    for number in range(64):
        model.append(number % 8, size + number % 3)
    reader = _stream_reader(start_stream_cut="earliest", **{option: "7"})
    start = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    sizes, seen = [], []
    for _, found in _batches(reader, start):
        sizes.append(sum(map(len, found)))
        seen += [event for part in found for event in part]
    assert max(sizes) <= 8
    assert len(sizes) <= 128 // 7 + 4
    assert sorted(seen) == [(key, number) for key in range(8) for number in range(16)]
    for key in range(8):
        assert [number for each, number in seen if each == key] == list(range(16))
    end = reader.latestOffset(start, ReadAllAvailable())  # Trigger.Once: there is no second batch
    assert sum(map(len, _read(reader, reader.partitions(start, end)))) == 128


def test_events_and_bytes_may_both_be_limited_and_streams_share_them(system):  # noqa: F811
    for name in "ab":
        system.make(name, 50)
    reader = _reader(stream="a,b", max_events_per_trigger="10", approx_bytes_per_trigger="1 MiB")
    offset, rows = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()), []
    for _ in range(3):
        end = reader.latestOffset(offset, reader.getDefaultReadLimit())
        rows.append(_rows(reader, reader.partitions(offset, end)))
        offset = end
    assert rows == [{"a": 5, "b": 5}] * 3


# ------------------------------------------------------------------------------ where reading begins


def test_a_read_begins_and_ends_at_offsets_of_each_segment(world):  # noqa: F811
    model, _ = world
    model.scale([0], [(0, 4), (4, 8)])
    _fill(model, 80)
    left, right = map(str, model.active)
    begin, end = json.dumps({left: 100, right: 20}), json.dumps({"t": {left: 400, right: 800}})
    source = _source(start_stream_cut=begin, end_stream_cut=end)
    reader = source.reader(_schema(source))
    found = [event for part in _read(reader, reader.partitions()) for event in part]
    assert len(found) == 15 + 39
    reader = _stream_reader(start_stream_cut=begin, end_stream_cut=end)
    first = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    assert sum(map(len, _read(reader, reader.partitions(reader.initialOffset(), first)))) == 54


@pytest.mark.parametrize(
    ("stream_name", "text", "sentence"),
    [
        ("t", "{", "no JSON"),
        ("t", "{}", "no position of s/t"),
        ("t", '{"0": -2}', "earliest and latest"),
        ("t", '{"a": 0}', "no segment with an offset"),
        ("t", '{"0": true}', "no segment with an offset"),
        ("t", '{"0": "1"}', "no position of s/0"),
        ("t", '{"u": {"0": 1}}', "about s/u, the query reads s/t"),
        ("t,u", '{"0": 1}', "offsets of one stream"),
        ("t,u", '{"u": {"0": 1}}', "the query reads s/t, s/u"),
    ],
)
def test_json_that_is_no_position_is_refused(stream_name, text, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_source({"scope": "s", "stream": stream_name, "start_stream_cut": text}, streaming=True)


def test_json_that_is_no_position_of_the_present_stream_is_refused(world):  # noqa: F811
    model, _ = world
    _fill(model, 5)
    for text, sentence in (('{"7": 0}', "does not have"), ('{"0": 400}', "ends at 100")):
        source = _source(start_stream_cut=text)
        with pytest.raises(InvalidArgumentError, match=sentence):
            source.reader(_schema(source)).partitions()


def test_several_streams_begin_at_offsets_of_their_own(system):  # noqa: F811
    for name in "ab":
        system.make(name, 50)
    reader = _reader(stream="a,b", start_stream_cut='{"a": {"0": 200}, "s/b": {"0": 980}}')
    end = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    assert _rows(reader, reader.partitions(reader.initialOffset(), end)) == {"a": 40, "b": 1}


def test_a_start_in_the_future_is_the_tail_of_now_if_the_strategy_says_so(world):  # noqa: F811
    later = {"start_timestamp": str(time.time_ns() // 1_000_000 + 3_600_000)}
    for name in ("start_timestamp_strategy", "startingOffsetsByTimestampStrategy"):
        reader = _stream_reader(**later, **{name: "latest"})
        assert reader.initialOffset() == {"start": "latest"}
    assert _stream_reader(**later).initialOffset() != {"start": "latest"}
    with pytest.raises(InvalidArgumentError, match="start_timestamp_strategy is one of error, latest"):
        _stream_reader(**later, start_timestamp_strategy="earliest")


# ------------------------------------------------------------------------------ progress


def test_progress_says_how_far_a_query_is_behind(world):  # noqa: F811
    model, client = world
    now = time.time_ns() // 1_000_000
    _fill(model, 40)
    client.times = {now - 7_200_000: model.tail()}
    _fill(model, 60)
    client.times[now - 30_000] = model.tail()
    reader = _stream_reader(start_stream_cut="earliest", approx_bytes_per_trigger="1000")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    end = reader.latestOffset(start, limit)
    said = reader.reportLatestOffset()
    assert json.loads(json.dumps(said)) == said
    assert said["streams"] == {"s/t": {"0": 2000}}
    assert (said["behind"], said["segments"]) == ({"bytes": 1000, "events": 50, "ms": 60_000}, 1)
    reader.latestOffset(end, limit)
    assert reader.reportLatestOffset()["behind"] == {"bytes": 0, "events": 0, "ms": 0}


def test_what_is_behind_is_counted_in_old_and_in_active_segments():
    assert bytes_behind({1: 10, 2: 5, 3: -1}, {1: 30, 2: 5}, {2: 5, 4: 7, 5: 0}) == 27
    assert bytes_behind({1: 10}, {}, {}) == 0
    for guess in (None, 10_000, 600_000, 86_400_000, 5):
        assert time_behind(lambda age: age >= 600_000, guess) == 600_000
        assert time_behind(lambda _: False, guess) is None
        assert time_behind(lambda _: True, guess) == 10_000


# ------------------------------------------------------------------------------ subscribers


class FakeGroups:
    """Groups as the controller has them: what they read, and what each has released."""

    def __init__(self):
        self.groups, self.released, self.shown, self.error = {}, {}, [], None

    def create(self, scope, group, config):
        return self.groups.setdefault(f"{scope}/{group}", config)

    def update(self, scope, group, config):
        self.groups[f"{scope}/{group}"] = config
        return config.generation + 1

    def show(self, scope, group, positions):
        self.shown.append({name: dict(cut.offsets) for name, cut in positions.items()})

    def release(self, subscriber, config, cut):
        if self.error is not None:
            raise self.error
        if subscriber not in self.groups:
            raise NoSuchReaderGroupError(f"no group {subscriber}")
        self.released[subscriber, cut.scoped_stream] = dict(cut.offsets)


def test_a_query_holds_what_it_has_not_committed(world, monkeypatch):  # noqa: F811
    model, _ = world
    groups = FakeGroups()
    monkeypatch.setattr(stream, "connect_groups", lambda _: groups)
    _fill(model, 10)
    reader = _stream_reader(start_stream_cut="earliest", consumer="etl")
    start = reader.latestOffset(reader.initialOffset(), UNLIMITED)
    assert groups.released == {("s/etl", "s/t"): {0: 0}}
    assert groups.groups["s/etl"].consumption is Consumption.HELD_UNTIL_TOLD
    end = reader.latestOffset(start, UNLIMITED)
    reader.partitions(start, end)
    assert groups.released == {("s/etl", "s/t"): {0: 0}}
    reader.commit(end)
    assert groups.released == {("s/etl", "s/t"): {0: 200}}
    restarted = _stream_reader(consumer="s/etl")
    restarted.latestOffset(end, UNLIMITED)
    assert groups.released == {("s/etl", "s/t"): {0: 200}}


def test_a_group_that_reads_something_else_learns_what_the_query_reads_and_refusals_are_logged(caplog):
    groups = FakeGroups()
    other = ReaderGroupConfig(starts={"s/other": stream_cut("other")}, generation=4)
    groups.groups["s/etl"] = other
    held = Subscription(groups, "s", "etl")
    held.hold({"s/t": {0: 5}})
    assert set(groups.groups["s/etl"].starts) == {"s/other", "s/t"}
    assert groups.groups["s/etl"].consumption is Consumption.HELD_UNTIL_TOLD
    assert groups.released == {("s/etl", "s/t"): {0: 5}}
    groups.error = PreconditionError("the cut lies before the one reported last")
    held.hold({"s/t": {0: 4}})
    assert "stays where it was: " in caplog.text
    groups.error = None
    groups.groups.clear()  # somebody deletes the group
    held.hold({"s/t": {0: 6}})
    held.hold({"s/t": {0: 7}})
    assert groups.released == {("s/etl", "s/t"): {0: 7}}


def test_where_a_query_is_is_shown_now_and_then():
    groups, now_s = FakeGroups(), [0.0]
    held = Subscription(groups, "s", "etl", lambda: now_s[0])
    for second in range(25):
        now_s[0] = second
        held.hold({"s/t": {0: second}})
    assert groups.shown == [{"s/t": {0: second}} for second in (0, 10, 20)]
    assert groups.released == {("s/etl", "s/t"): {0: 24}}


def stream_cut(name):
    from headrace.model.stream_cut import StreamCut

    return StreamCut.from_offsets("s", name, {0: 0})


def test_the_name_of_a_consumer_is_checked():
    with pytest.raises(InvalidArgumentError, match="option consumer"):
        parse_source({"scope": "s", "stream": "t", "consumer": "a b"}, streaming=True)
