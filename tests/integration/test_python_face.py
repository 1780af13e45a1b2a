"""The client as a new user meets it: what its documentation shows is run on a real server."""

import contextlib
import doctest
import inspect
import itertools
import json
import re
import warnings

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace
from headrace.errors import (
    AnswerTooLargeError,
    ClosedError,
    EventNotDecodedError,
    InvalidArgumentError,
    NoSuchReaderGroupError,
    NoSuchScopeError,
    NoSuchStreamError,
    StreamExistsError,
    StreamSealedError,
)
from headrace.testing import LocalServer

pytestmark = pytest.mark.cluster
_FACES = [headrace.Client, headrace.Stream, headrace.EventWriter, headrace.ReaderGroup]
PUBLIC = [headrace.connect, *_FACES, LocalServer]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("face"), "--in-memory") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with headrace.connect(server.uri) as connected:
        yield connected


_numbers = itertools.count(1)


@pytest.fixture
def name(client):
    """The name of a new stream."""
    scope = f"face-{next(_numbers)}"
    client.create_scope(scope)
    client.create_stream(f"{scope}/orders", segments=2)
    return f"{scope}/orders"


# ------------------------------------------------------------------------------ streams that exist


def test_who_creates_a_stream_that_is_otherwise_is_warned_of_both(client, name):
    with pytest.warns(UserWarning, match="wanted was") as warned:
        assert client.create_stream(name, segments=4, retention="7 days") is False
    assert [each.filename for each in warned] == [__file__]
    assert str(warned[0].message) == (
        f"stream {name} exists already and stays as it is: fixed, 2 segments, retention everything; "
        "wanted was: fixed, 4 segments, retention 7 d; update_stream changes it"
    )
    assert client.stream_configuration(name).scaling.segments_min == 2
    with pytest.warns(UserWarning, match="wanted was: fixed, 1 segment,"):
        client.create_stream(name, headrace.StreamConfiguration())


def test_who_creates_a_stream_as_it_is_is_not_warned(client, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.create_stream(name) is False  # nothing is asked of it
        assert client.create_stream(name, segments=2) is False
        assert client.create_stream(name, client.stream_configuration(name)) is False


def test_a_stream_that_may_not_exist_is_an_error(client, name):
    with pytest.raises(StreamExistsError, match=f"{name} exists already"):
        client.create_stream(name, segments=2, exist_ok=False)
    assert client.create_stream(f"{name}-new", exist_ok=False) is True


async def test_the_loop_is_warned_as_threads_are(server, client, name):
    async with headrace.aio.connect(server.uri) as loop_client:
        with pytest.warns(UserWarning, match="4 segments") as warned:
            assert await loop_client.create_stream(name, segments=4) is False
        assert [each.filename for each in warned] == [__file__]
        with pytest.raises(StreamExistsError):
            await loop_client.create_stream(name, exist_ok=False)


# ------------------------------------------------------------------------------ a part of a stream


def test_so_many_events_are_read_and_the_position_is_behind_them(client, name):
    events = [b"%03d" % number for number in range(100)]
    client.write(name, events, key="one")
    assert [event.data for event in client.read(name, limit=3)] == events[:3]
    assert [event.data for event in client.read(name, limit=3, follow=True)] == events[:3]
    assert [event.data for event in client.read(name, limit=1000)] == events
    with client.event_reader(name, limit=7) as reader:
        assert [event for batch in reader.batches() for event in batch] == events[:7]
        assert reader.next_batch() is None
        position = reader.position()
    assert [event.data for event in client.read(name, start=position, limit=2)] == events[7:9]
    orders = client.stream(name)
    for table in (orders.to_arrow(limit=4), orders.to_polars(limit=4).to_arrow()):
        assert [bytes(each) for each in table["event"].to_pylist()] == events[:4]
    assert len(orders.to_pandas(limit=4)) == 4


def test_the_last_events_are_read(client, name):
    events = [b"%03d" % number for number in range(100)]
    client.write(name, events, key="one")
    orders = client.stream(name)
    assert [event.data for event in client.read(name, last=3)] == events[-3:]
    assert [event.data for event in orders.read(last=5, limit=2)] == events[-5:-3]
    assert orders.to_arrow(last=3)["event"].to_pylist() == events[-3:]
    assert len(list(client.read(name, last=1000))) == 100
    with client.event_reader(name, last=1) as reader:
        client.write(name, [b"later"], key="one")
        assert [next(iter(reader)).data for _ in range(2)] == [b"099", b"later"]
    orders.seal()
    assert [event.data for event in orders.read(last=2)] == [b"099", b"later"]


async def test_the_loop_reads_parts_as_threads_do(server, client, name):
    client.write(name, [b"one", b"two", b"three"], key="one")
    async with headrace.aio.connect(server.uri) as loop_client:
        assert [event.data async for event in loop_client.read(name, limit=2)] == [b"one", b"two"]
        assert [event.data async for event in loop_client.read(name, last=2)] == [b"two", b"three"]
        table = await loop_client.stream(name).to_arrow(last=1)
        assert table["event"].to_pylist() == [b"three"]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"limit": 0}, "at least 1"),
        ({"limit": True}, "at least 1"),
        ({"last": 0}, "the last 1 to"),
        ({"last": "3"}, "the last 1 to"),
        ({"last": 3, "since": "1h"}, "since and last each say where to begin"),
        ({"start": "tail", "since": "1h"}, "start and since each say where to begin"),
        ({"end": "head", "until": "1h"}, "end and until each say where to end"),
        ({"last": 3, "until": "1h"}, "give limit instead"),
        ({"since": "1 fortnight"}, "1 fortnight"),
        ({"since": 1.5}, "is a datetime or a whole number"),
        ({"since": "1h", "until": "2h"}, "is later than until"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(client, name, part, why):
    with pytest.raises(InvalidArgumentError, match=why):
        list(client.read(name, **part))


# ------------------------------------------------------------------------------ documentation


def documented(owner, *, seen):
    """Yield every text with examples of an object and its methods."""
    members = [owner] if not inspect.isclass(owner) else [owner, *dict(inspect.getmembers(owner)).values()]
    for member in members:
        text = inspect.getdoc(member) if callable(member) else None
        if text and ">>>" in text and text not in seen:
            seen.add(text)
            yield f"{getattr(member, '__qualname__', owner.__name__)}", text


@pytest.mark.slow
def test_every_example_of_the_documentation_runs_and_says_what_it_shows(server, client):
    seen = set()
    texts = [pair for owner in PUBLIC for pair in documented(owner, seen=seen)]
    assert len(texts) > 10
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    for title, text in texts:
        scope = f"doc-{next(_numbers)}"
        stream = client.stream(scope, "orders")
        if "create_scope(" not in text:
            client.create_scope(scope)
            client.create_stream(scope, "orders")
            words = re.search(r"'one'|height", text)
            stream.write(
                ["one", "two"] if words else {"order": 1}, key="k", serializer=None if words else "json"
            )
        globs = {"headrace": headrace, "client": client, "orders": stream}
        with contextlib.ExitStack() as open_things:
            if re.search(r"\bwriter\.", text) and " as writer" not in text:
                globs["writer"] = open_things.enter_context(client.event_writer(scope, "orders"))
            text = text.replace('"demo', f'"{scope}').replace("tcp://localhost:9090", server.uri)
            example = doctest.DocTestParser().get_doctest(text, globs, title, None, 0)
            runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_the_other_client_has_the_same_calls_and_documents_them_with_await():
    private = {"transactions", "close"}
    for twin, waiting in ((headrace.aio.Client, headrace.Client), (headrace.aio.Stream, headrace.Stream)):
        names = {name for name in dir(twin) if not name.startswith("_")} - private
        assert names <= set(dir(waiting))
        for name in sorted(names):
            ours, theirs = getattr(waiting, name), getattr(twin, name)
            assert inspect.getdoc(ours), name
            assert "await" not in inspect.getdoc(ours), name
            if inspect.getdoc(ours) != inspect.getdoc(theirs):
                assert re.search(r"await|async|\.aio\.", inspect.getdoc(theirs)), name
            parameters = [
                [(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()]
                for call in (ours, theirs)
            ]
            assert parameters[0] == parameters[1], name


# ------------------------------------------------------------------------------ streams


def test_a_stream_is_made_as_it_is_spoken_of(client):
    scope = f"face-{next(_numbers)}"
    with pytest.raises(NoSuchScopeError, match=rf"create_scope\('{scope}'\) creates it"):
        client.create_stream(f"{scope}/t")
    client.create_scope(scope)
    assert client.create_stream(f"{scope}/t", segments=3, tags=["a", "b"], retention="7 days") is True
    assert client.create_stream(scope, "t") is False
    assert client.create_stream(scope, "t", tags=["b", "a"]) is False
    made = client.stream_info(f"{scope}/t").configuration
    assert (made.scaling, made.tags) == (headrace.ScalingPolicy.fixed(3), {"a", "b"})
    assert made.retention == headrace.RetentionPolicy.by_time(7 * 86_400_000)
    client.update_stream(f"{scope}/t", retention="10 GiB")
    changed = client.stream(f"{scope}/t").info().configuration
    assert changed.retention == headrace.RetentionPolicy.by_size(10 << 30)
    assert (changed.scaling, changed.tags) == (made.scaling, made.tags)
    for wrong in (None, 5, b"bytes"):
        with pytest.raises(InvalidArgumentError, match="name"):
            client.create_scope(wrong)
    with pytest.raises(InvalidArgumentError, match="nothing to change"):
        client.update_stream(f"{scope}/t")
    with pytest.raises(InvalidArgumentError, match="beside a configuration"):
        client.create_stream(f"{scope}/u", headrace.StreamConfiguration(), segments=3)
    assert client.stream_exists(f"{scope}/u") is False
    assert client.create_key_value_table(f"{scope}/kv", primary_key_bytes=1)
    with client.key_value_table(f"{scope}/kv") as table:
        table[b"k"] = b"v"
        assert repr(table).startswith(f"<headrace.KeyValueTable of {scope}/kv at tcp://")
    assert client.delete_key_value_table(f"{scope}/kv")


def test_what_is_written_is_read_in_order_per_key(client, name):
    orders = [{"order": number, "customer": f"c{number % 3}"} for number in range(3000)]
    count = client.write(name, iter(orders), key=lambda order: order["customer"], serializer="json")
    assert count == 3000
    found = [event.value for event in client.read(name, serializer=json)]
    assert sorted(found, key=lambda order: order["order"]) == orders
    for customer in ("c0", "c1", "c2"):
        mine = [order["order"] for order in found if order["customer"] == customer]
        assert mine == sorted(mine)


def test_text_and_bytes_are_written_and_one_bad_event_is_told_by_its_place(client, name):
    with client.event_writer(name) as writer, client.event_writer(name, serializer="json") as other:
        writer.write("grüße", "k").wait()
        assert (
            repr(writer) == f"<headrace.EventWriter of {name} at {client.uri}, open, 0 bytes unacknowledged>"
        )
        writer.write_many(["a", b"b", bytearray(b"c")], "k").wait()
        other.write({"d": 1}, "k").wait()
        other.write_many([{"e": 1}, ["f"]], "k").wait()
        other.write_atomic(["g", None], "k").wait()
        with pytest.raises(InvalidArgumentError, match="serializer='json'"):
            writer.write({"d": 1})
        with pytest.raises(InvalidArgumentError, match="one event"):
            writer.write_many("abc", "k")
    assert "closed>" in repr(writer)
    expected = ["grüße", "a", "b", "c", '{"d":1}', '{"e":1}', '["f"]', '"g"', "null"]
    assert [event.value for event in client.read(name, serializer="utf8")] == expected
    values, refused = [], []
    for event in client.read(name, serializer="json"):
        try:
            values.append(event.value)
        except EventNotDecodedError as error:
            refused.append((error.stream, error.segment_id, error.offset))
            assert (event.segment_id, event.offset) == refused[-1][1:]
    assert values == [{"d": 1}, {"e": 1}, ["f"], "g", None]
    assert refused == [(name, refused[0][1], offset) for offset in (0, 15, 24, 33)]
    with client.event_reader(name, end="tail", serializer="utf8") as reader:
        assert [value for batch in reader.batches() for value in batch.values()] == expected


def test_transactions_take_values(client, name):
    with client.txn_writer(name, serializer="json") as writer:
        with writer.begin() as transaction:
            transaction.write({"a": 1}, "k")
            assert re.search(rf"headrace.Transaction of {name} at .*, open>", repr(transaction))
            transaction.commit(wait=True)
        assert repr(writer).endswith(", 0 open transactions>")
    assert [event.value for event in client.read(name, serializer="json")] == [{"a": 1}]


def test_a_loop_ends_at_the_present_tail_or_goes_on(client, name):
    client.write(name, ["a", "b"], key="k")
    loop = client.read(name, follow=True)
    assert [next(loop).data, next(loop).data] == [b"a", b"b"]
    client.write(name, "c", key="k")
    assert next(loop).data == b"c"
    loop.close()
    client.write(name, "d", key="k")
    middle = client.stream(name).head()
    with client.event_reader(name, end="tail") as reader:
        for event in reader:
            if event.data == b"b":
                break
        middle = reader.position()
        assert re.match(rf"<headrace.EventReader of {name} at .*, open, at 0=", repr(reader))
    for start in (middle, middle.as_text()):
        assert [event.data for event in client.read(name, start=start)] == [b"c", b"d"]
    assert [event.data for event in client.read(name, end=middle)] == [b"a", b"b"]
    assert list(client.read(name, start="tail")) == []
    for wrong in (
        {"start": "end"},
        {"start": None},
        {"end": "yesterday"},
        {"end": 5},
        {"follow": True, "end": middle},
    ):
        with pytest.raises(InvalidArgumentError):
            list(client.read(name, **wrong))
    with pytest.raises(NoSuchStreamError):
        list(client.read(f"{name}-2"))


# ------------------------------------------------------------------------------ the object


def test_a_stream_is_an_object(client, name):
    stream = client.stream(name)
    assert repr(stream) == f"<headrace.Stream {name} of {client.uri}>"
    assert stream.write(["a", "b", "c"], key="k") == 3
    assert [event.data for event in stream.read()] == [b"a", b"b", b"c"]
    assert stream.info().tail == stream.tail() == client.tail_cut(name)
    assert len(stream.segments()) == 2
    assert stream.exists()
    other = client.stream(f"{name}-2")
    client.create_stream(f"{name}-2")
    other.write("x")
    for wrong in ("haed", other.tail(), 5, None, headrace.UNBOUNDED):
        with pytest.raises(InvalidArgumentError):
            stream.truncate(wrong)
    with pytest.raises(InvalidArgumentError, match="StreamCut"):
        client.truncate_stream(name)
    stream.truncate("head")
    stream.truncate(stream.head().as_text())
    assert [event.data for event in stream.read()] == [b"a", b"b", b"c"]
    assert len(list(other.read())) == 1
    stream.truncate("tail")
    assert stream.head() == stream.tail()
    assert list(stream.read()) == []
    stream.seal()
    assert stream.segments() == []
    with pytest.raises(StreamSealedError):
        stream.write("d")
    assert (stream.delete(), stream.exists()) == (True, False)


def test_a_stream_becomes_a_table_and_frames(client, name):
    stream = client.stream(name)
    assert stream.to_arrow().num_rows == 0
    for endless in (None, headrace.UNBOUNDED):
        with pytest.raises(InvalidArgumentError):
            stream.to_arrow(end=endless)
    events = pa.array([b"%d" % number for number in range(50_000)])
    assert stream.write(events, key="k") == 50_000
    table = stream.to_arrow()
    assert table.schema.names == ["event", "segment_id", "offset"]
    assert table["event"].combine_chunks().equals(events)
    assert table["offset"].to_pylist()[:3] == [0, 9, 18]
    frame = stream.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame.event.iloc[-1] == b"49999"
    assert all(isinstance(kind, pd.ArrowDtype) for kind in frame.dtypes)
    assert isinstance(stream.to_polars(), pl.DataFrame)
    assert stream.to_polars()["event"][-1] == b"49999"
    assert stream.to_arrow(serializer="utf8")["event"][-1].as_py() == "49999"
    with pytest.raises(AnswerTooLargeError, match="max_bytes=1000 "):
        stream.to_arrow(max_bytes=1000)
    with pytest.raises(EventNotDecodedError, match=rf"at 0 of segment \d of {name} is no object of JSON"):
        stream.to_arrow(serializer="json")
    with pytest.raises(InvalidArgumentError, match="pickle"):
        stream.to_arrow(serializer="pickle")
    start = stream.tail()
    stream.write([{"order": 1, "offset": "x"}, {"order": 2}], key="k", serializer="json")
    frame = stream.to_pandas(start=start, serializer="json")
    assert frame.columns.tolist() == ["order", "offset", "segment_id"]
    assert (frame["order"].tolist(), frame.offset[0]) == ([1, 2], "x")
    start = stream.tail()
    stream.write([{"at": "2013-01-01T10:00:00"}, {"at": "2013-01-01"}], key="k", serializer="json")
    assert pa.types.is_timestamp(stream.to_arrow(start=start, serializer="json")["at"].type)


def test_what_is_not_installed_is_named(client, name, monkeypatch):
    monkeypatch.setattr("headrace.runtime.extras.find_spec", lambda name: None if name == "polars" else name)
    with pytest.raises(headrace.errors.UnsupportedError, match=r"headrace\[polars\]"):
        client.stream(name).to_polars()


# ------------------------------------------------------------------------------ asyncio


@pytest.mark.real_loop
async def test_the_same_with_asyncio(server, client, name):
    async with headrace.aio.connect(server.uri) as other:
        assert repr(other) == f"<headrace.aio.Client of {server.uri}, open>"
        assert await other.write(name, [{"a": 1}, {"a": 2}], key="k", serializer="json") == 2
        assert [event.value async for event in other.read(name, serializer="json")] == [{"a": 1}, {"a": 2}]
        stream = other.stream(name)
        assert (await stream.info()).sealed is False
        frame = await stream.to_pandas()
        assert frame.event.tolist() == [b'{"a":1}', b'{"a":2}']
        assert (await stream.to_polars()).height == 2
        async with other.event_writer(name) as writer:
            ack = writer.write("text", "k")
            assert repr(ack) == "<headrace.aio.Ack: not durable yet>"
            await ack
            assert repr(ack) == "<headrace.aio.Ack: durable>"
            assert repr(writer).startswith(f"<headrace.aio.EventWriter of {name} at {server.uri}, open")
        seen = []
        async for event in other.read(name, follow=True):
            seen.append(event.data)
            if len(seen) == 3:
                break
        assert seen[-1] == b"text"
        opening = other.event_reader(name)
        assert "await it" in repr(opening)
        async with opening as reader:
            assert repr(reader).startswith("<headrace.aio.EventReader")


# ------------------------------------------------------------------------------ its end


def test_a_client_says_what_it_is(server):
    client = headrace.connect(server.uri)
    assert repr(client) == f"<headrace.Client of {server.uri}, not connected yet>"
    assert client.scope_exists("nowhere") is False
    assert repr(client) == f"<headrace.Client of {server.uri}, open>"
    client.close()
    assert repr(client) == f"<headrace.Client of {server.uri}, closed>"
    with pytest.raises(ClosedError):
        client.create_scope("nowhere")


# ------------------------------------------------------------------------------ reader groups


def test_a_group_reads_records_and_is_set_back(client, name):
    scope = name.split("/")[0]
    client.create_stream(f"{scope}/records", records=True)
    client.write(f"{scope}/records", [b"one"], key="a", headers={"of": b"records"})
    client.write(name, [b"plain"], key="b")
    with client.reader_group(
        streams=[f"{scope}/records", name],
        group="both",
        end="tail",
        consumption=headrace.Consumption.HELD_UNTIL_CHECKPOINT,
    ) as group:
        assert repr(group) == f"<headrace.ReaderGroup of {scope}/both at {client.uri}, 0 readers>"
        with group.reader("r") as reader:
            assert reader.name == "r.py"
            read = {event.data: event for event in reader}
        assert read.keys() == {b"one", b"plain"}
        assert (read[b"one"].key, read[b"one"].headers) == (b"a", {"of": b"records"})
        assert group.lag().bytes == 0
        group.reset("head")
        assert group.config.generation == 1
        with group.reader() as reader:
            assert sum(len(batch.to_arrow()) for batch in reader.batches()) == 2
        group.reset()
        assert group.lag().bytes == 0
        joined = client.reader_group(group="both", scope=scope)
        assert joined.streams == [name, f"{scope}/records"]
        group.delete()
    with pytest.raises(NoSuchReaderGroupError):
        client.reader_group(group="both", scope=scope)
    with pytest.raises(NoSuchReaderGroupError):
        joined.readers()
