"""Several streams in one source: which are read, where new ones begin, what a lost one means."""

import pickle
import random
from collections import defaultdict

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from headrace.errors import InvalidArgumentError, NoSuchStreamError, PreconditionError
from headrace.spark import batch, client_cache, partition_reader, stream
from headrace.spark.options import parse_source
from headrace.spark.partitioning import shares_of
from headrace.spark.stream_choice import STREAMS_MAX
from tests.effort import seeds
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.stream_model import StreamModel
from tests.unit.spark.test_partitioning import _happen
from tests.unit.spark.test_sources import UNLIMITED, _fill, _schema, _source


class FakeSystem:
    """Streams of the scope ``s`` by name, some with tags; each answers as one :class:`FakeClient`."""

    def __init__(self):
        self.clients = {}
        self.tags = defaultdict(set)

    def make(self, name, events=0, tag=None):
        self.clients[name] = FakeClient(StreamModel(), stream=name)
        if tag:
            self.tags[name].add(tag)
        _fill(self.clients[name].model, events)
        return self.clients[name].model

    def list_streams(self, scope, *, tag=None):
        assert scope == "s"
        return [name for name in self.clients if tag is None or tag in self.tags[name]]

    def stream_exists(self, scope, name):
        return name in self.clients

    def check_cut(self, cut):
        self.clients[cut.stream].check_cut(cut)

    def __getattr__(self, call):
        def of_stream(scope, name, *rest):
            if name not in self.clients:
                raise NoSuchStreamError(f"stream {scope}/{name} does not exist")
            return getattr(self.clients[name], call)(scope, name, *rest)

        return of_stream


@pytest.fixture
def system(monkeypatch):
    made = FakeSystem()
    for module in (batch, stream, partition_reader, client_cache):
        monkeypatch.setattr(module, "client_for", lambda _: made)
    return made


def _reader(**options):
    source = _source(**{"stream": "", "start_stream_cut": "earliest", **options})
    return source.streamReader(_schema(_source(stream="x", allow_create_stream="true")))


def _rows(reader, partitions):
    """How many events come from each stream, read by a pickled copy as in a worker."""
    found = defaultdict(int)
    for partition in pickle.loads(pickle.dumps(partitions)):
        for each in pickle.loads(pickle.dumps(reader)).read(partition):
            (name,) = set(each.column("stream").to_pylist())
            assert set(each.column("scope").to_pylist()) == {"s"}
            found[name] += each.num_rows
    return dict(found)


def _step(reader, offset, limit=UNLIMITED):
    end = reader.latestOffset(offset, limit)
    return end, _rows(reader, reader.partitions(offset, end))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"stream": "a,b"}, "ab"),
        ({"stream": "s/a, s/b", "scope": ""}, "ab"),
        ({"path": "s/b", "scope": ""}, "b"),
        ({"stream_pattern": "[ab]"}, "ab"),
        ({"stream_pattern": "a"}, "a"),
        ({"stream_tag": "hot"}, "bc"),
        ({"subscribe": "a,c"}, "ac"),
        ({"subscribePattern": "[bc]"}, "bc"),
    ],
)
def test_a_batch_read_has_the_streams_that_are_chosen(system, options, names):
    for index, name in enumerate("abc", 1):
        system.make(name, 10 * index, tag="hot" if name in "bc" else None)
    source = _source(**{"stream": "", **options})
    reader = source.reader(_schema(source))
    assert _rows(reader, reader.partitions()) == {name: 10 * (1 + "abc".index(name)) for name in names}


def test_what_does_not_exist_is_said_when_a_read_is_defined_or_planned(system):
    system.make("a")
    with pytest.raises(NoSuchStreamError, match=r"s/b does not exist.*headrace stream create s/b"):
        _source(stream="a,b").schema()
    source = _source(stream="", stream_tag="none")
    with pytest.raises(NoSuchStreamError, match="tag none"):
        source.reader(_schema(source)).partitions()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stream": "a", "stream_tag": "x"}, "exclude each other"),
        ({"stream_pattern": "("}, "no regular expression"),
        ({"stream": "a,a"}, "twice"),
        ({"stream": "a,/"}, "illegal"),
        ({"stream": "a", "scope": ""}, "option scope is required"),
        ({"stream": ",".join(f"n{i}" for i in range(STREAMS_MAX + 1))}, "at most"),
        ({"stream": "a,b", "start_stream_cut": "?"}, "cut"),
        ({"stream": "a,b", "metadata": "Segments"}, "one stream"),
        ({"stream": "a", "path": "s/b"}, "give one"),
        ({"path": "s/a/b"}, "one slash"),
        ({}, "option stream is required"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_source({"scope": "s", **options}, streaming=False)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_stream_that_appears_later_is_read_from_its_head_by_the_next_batches(system, start):
    system.make("a", 10)
    reader = _reader(stream_pattern=".*", start_stream_cut=start)
    offset, rows = _step(reader, reader.initialOffset())
    assert rows == {}
    offset, rows = _step(reader, offset)
    assert rows == ({"a": 10} if start == "earliest" else {})
    model = system.make("b", 7)
    _fill(system.clients["a"].model, 3)
    offset, rows = _step(reader, offset)
    assert rows == {"a": 3}
    assert offset["streams"]["s/b"] == {"0": 0}
    restarted = _reader(stream_pattern=".*")
    offset, rows = _step(restarted, offset)
    assert rows == {"b": 7}
    model.scale([0], [(0, 4), (4, 8)])
    _fill(model, 8)
    total = 0
    for _ in range(3):
        offset, rows = _step(restarted, offset)
        total += rows.get("b", 0)
    assert total == 8
    assert restarted.reportLatestOffset()["streams"] == offset["streams"]


def test_a_query_may_begin_before_any_stream_does(system):
    reader = _reader(stream_tag="hot", start_stream_cut="latest")
    offset, rows = _step(reader, reader.initialOffset())
    assert (offset["streams"], rows) == ({}, {})
    assert reader.latestOffset(offset, UNLIMITED) == offset
    system.make("a", 5, tag="hot")
    offset, _ = _step(reader, offset)
    assert _step(reader, offset)[1] == {"a": 5}


def test_a_stream_that_disappears_stops_the_query_or_is_left_out(system):
    system.make("a", 5)
    system.make("b", 5)
    strict, lenient = _reader(stream_pattern=".*"), _reader(stream_pattern=".*", fail_on_data_loss="false")
    offset, _ = _step(strict, strict.initialOffset())
    end = strict.latestOffset(offset, UNLIMITED)
    del system.clients["b"]
    with pytest.raises(PreconditionError, match="s/b does not exist any more"):
        strict.latestOffset(end, UNLIMITED)
    with pytest.raises(PreconditionError, match="data loss"):
        _reader(stream_pattern=".*").partitions(offset, end)
    assert _rows(lenient, lenient.partitions(offset, end)) == {"a": 5}
    further, rows = _step(lenient, end)
    assert (list(further["streams"]), rows) == (["s/a"], {})
    system.make("b", 4)  # under the same name: another one, read from its head
    further, _ = _step(lenient, further)
    assert _step(lenient, further)[1] == {"b": 4}


def test_a_query_that_went_on_without_a_stream_can_be_defined_again(system):
    for name in "ab":
        system.make(name, 5)
    reader = _reader(stream="a,b", fail_on_data_loss="false")
    offset, _ = _step(reader, reader.initialOffset())
    del system.clients["b"]
    offset, _ = _step(reader, offset)
    source = _source(stream="a,b", fail_on_data_loss="false")
    assert _step(source.streamReader(_schema(source)), offset) == (offset, {})
    with pytest.raises(NoSuchStreamError, match="s/b does not exist"):
        source.reader(_schema(source)).partitions()


def test_an_idle_query_looks_at_most_once_more_if_looks_take_longer_than_it_waits(system, monkeypatch):
    now, asked = [0.0], []
    monkeypatch.setattr(stream, "monotonic", lambda: now[0])
    for number in range(20):
        system.make(str(number))
        client = system.clients[str(number)]

        def slow_tail(*names, tail=client.tail_cut):
            now[0] += 0.01
            asked.append(names)
            return tail(*names)

        client.tail_cut = slow_tail
    reader = _reader(stream_pattern=".*", offset_wait_ms="100")
    offset, _ = _step(reader, reader.initialOffset())
    asked.clear()
    assert reader.latestOffset(offset, UNLIMITED) == offset
    assert len(asked) == 2 * 20


def test_a_list_may_grow_and_shrinks_only_with_permission(system):
    for name in "abc":
        system.make(name, 5)
    reader = _reader(stream="a,b")
    offset, _ = _step(reader, reader.initialOffset())
    offset, rows = _step(reader, offset)
    assert rows == {"a": 5, "b": 5}
    reader = _reader(stream="a,b,c")
    offset, _ = _step(reader, offset)
    offset, rows = _step(reader, offset)
    assert rows == {"c": 5}
    with pytest.raises(PreconditionError, match="not chosen any more"):
        _reader(stream="a,c").latestOffset(offset, UNLIMITED)
    assert list(
        _reader(stream="a,c", fail_on_data_loss="false").latestOffset(offset, UNLIMITED)["streams"]
    ) == [
        "s/a",
        "s/c",
    ]
    with pytest.raises(InvalidArgumentError, match="another checkpoint"):
        _reader(stream="d", fail_on_data_loss="false").latestOffset(offset, UNLIMITED)
    with pytest.raises(NoSuchStreamError, match="allow_create_stream=true"):
        _reader(stream="a,b,c,d").latestOffset(offset, UNLIMITED)


def test_a_checkpoint_of_the_former_format_goes_on(system):
    system.make("t", 10)
    reader = _reader(stream="t")
    former = [{"cut": {"0": at}, "scope": "s", "stream": "t", "v": 1} for at in (40, 100)]
    assert _rows(reader, reader.partitions(*former)) == {"t": 3}
    _fill(system.clients["t"].model, 2)
    offset, rows = _step(reader, former[1])
    assert rows == {"t": 7}
    assert offset == {"streams": {"s/t": {"0": 240}}, "v": 2}
    with pytest.raises(InvalidArgumentError, match="no offset of this connector"):
        reader.latestOffset({"v": 3, "streams": {}}, UNLIMITED)


def test_available_now_ends_at_the_streams_and_tails_of_its_beginning(system):
    for name in "ab":
        system.make(name, 40)
    reader = _reader(stream_pattern=".*", approx_bytes_per_trigger="400")
    reader.prepareForTriggerAvailableNow()
    for name in "ab":
        _fill(system.clients[name].model, 5)
    system.make("c", 5)
    offset, seen, batches = reader.initialOffset(), defaultdict(int), 0
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        for name, count in _rows(reader, reader.partitions(offset, end)).items():
            seen[name] += count
        offset, batches = end, batches + 1
    assert (dict(seen), batches) == ({"a": 40, "b": 40}, 5)


def test_once_reads_streams_that_are_new_in_the_same_batch(system):
    system.make("a", 5)
    reader = _reader(stream_pattern=".*")
    offset, rows = _step(reader, reader.initialOffset(), ReadAllAvailable())
    assert rows == {"a": 5}
    system.make("b", 6)
    assert _step(reader, offset, ReadAllAvailable())[1] == {"b": 6}


def test_shares_of_a_limit_follow_what_streams_have():
    assert shares_of(100, {"a": 900, "b": 100, "c": 0}) == {"a": 90, "b": 10, "c": 1}
    assert shares_of(100, {"a": 60, "b": 40}) == {"a": 0, "b": 0}
    assert shares_of(0, {"a": 60}) == {"a": 0}


@pytest.mark.slow
def test_every_event_of_every_stream_comes_once_over_random_lives_with_restarts(system):
    for seed in seeds(20):
        chance = random.Random(seed)
        system.clients.clear()
        models = {"0": system.make("0")}
        reader = _reader(stream_pattern=".*")
        offset, seen, quiet = reader.initialOffset(), defaultdict(int), 0
        while quiet < 3:
            if len(models) < 4 and chance.random() < 0.1:
                models[str(len(models))] = system.make(str(len(models)))
            for model in models.values():
                if chance.random() < 0.4 and model.epoch < 4:
                    _happen(model, chance)
            end = reader.latestOffset(offset, ReadMaxBytes(chance.choice((1, 200, 1 << 60))))
            done = len(models) == 4 and all(model.epoch >= 4 for model in models.values())
            quiet = quiet + 1 if end == offset and done else 0
            if chance.random() < 0.2:
                reader = _reader(stream_pattern=".*")
            for name, count in _rows(reader, reader.partitions(offset, end)).items():
                seen[name] += count
            offset = end
        wanted = {name: sum(model.numbers.values()) for name, model in models.items()}
        assert dict(seen) == {name: count for name, count in wanted.items() if count}, f"seed {seed}"
