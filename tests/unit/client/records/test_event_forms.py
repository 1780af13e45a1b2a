from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.client.framing.event_framing import find_frames, payloads
from headrace.client.records.columns import RecordColumn
from headrace.client.records.envelope import decode_headers, prefix_of, read_head, time_ms_of
from headrace.client.records.event_forms import PlainForm, RecordForm
from headrace.client.serializers import find_codec
from headrace.errors import EventTooLargeError, InvalidArgumentError

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
NOON_MS = time_ms_of(NOON)
NOW_MS = 1_000


@pytest.fixture
def form():
    return RecordForm(lambda: NOW_MS)


def parts(record):
    head = read_head(record, 0, len(record))
    key = None if head.key_length == 0xFFFF else record[14 : 14 + head.key_bytes]
    headers = decode_headers(record[14 + head.key_bytes : head.value_begin])
    return record[head.value_begin :], key, head.time_ms, headers


def test_a_record_has_the_time_of_its_writer_unless_it_is_given_one(form):
    assert parts(form.one("ä", None, None, None)) == ("ä".encode(), None, NOW_MS, {})
    assert parts(form.one(b"", "k", NOON, {"h": "v"})) == (b"", b"k", NOON_MS, {"h": b"v"})
    json = RecordForm(lambda: NOW_MS, find_codec("json"))
    assert parts(json.one({"a": 1}, "", 7, None)) == (b'{"a":1}', b"", 7, {})


def whole(many):
    """Return the bytes of each record, whatever form they are in."""
    if not isinstance(many, RecordColumn):
        return list(many)
    found, count = [], 0
    for data, ends, first in many.frame_pieces():
        assert first == count
        count += len(ends)
        assert find_frames(data).tolist() == [0, *ends.tolist()]
        found += payloads(bytes(data), find_frames(data))
    assert many.nbytes == sum(map(len, found))
    return found


EACH = {
    "keys": ["a", "", "a"],
    "times": [NOON, 5, datetime(1960, 1, 1, tzinfo=UTC)],
    "headers": [{"h": b"1"}, None, {"h": b"2", "i": b""}],
}
EACH_TIMES = [NOON, datetime(1960, 1, 1, tzinfo=UTC), NOON]
EACH_ARROW = {
    "keys": pa.array(["a", "", "a"]).dictionary_encode(),
    "times": pa.array(EACH_TIMES, pa.timestamp("us", "UTC")),
    "headers": pa.array([[("h", b"1")], None, [("h", b"2"), ("i", b"")]], pa.map_(pa.string(), pa.binary())),
}
ALL = {"keys": "k", "times": NOON, "headers": {"h": b"x"}}


@pytest.mark.parametrize("as_column", [False, True])
@pytest.mark.parametrize("keys", [None, "all", "each", "arrow"])
@pytest.mark.parametrize("times", [None, "all", "each", "arrow"])
@pytest.mark.parametrize("headers", [None, "all", "each", "arrow"])
def test_many_are_what_they_are_one_by_one(form, as_column, keys, times, headers):
    events = [b"one", b"", b"three"]
    chosen = dict(zip(("keys", "times", "headers"), (keys, times, headers), strict=True))
    given = {
        name: {None: {}, "all": ALL, "each": EACH, "arrow": EACH_ARROW}[how].get(name)
        for name, how in chosen.items()
    }
    each = []
    for name, how in chosen.items():
        column = given[name]
        if how == "arrow":
            column = column.to_pylist()
        elif how != "each":
            column = [column] * 3
        if name == "headers":
            column = [None if one is None else dict(one) for one in column]
        each.append(column)
    expected = [form.one(*row) for row in zip(events, *each, strict=True)]
    many = form.many(pa.array(events) if as_column else events, **given)
    assert whole(many) == expected


def test_a_column_may_be_a_slice_and_of_any_type_of_bytes(form):
    events = pa.chunked_array([pa.array(["x", "one"]).slice(1), pa.array(["two", "y"]).slice(0, 1)])
    keys = pa.array(["x", "a", "b", "y"], pa.large_string()).slice(1, 2)
    times = pa.array([0, 1, 2], pa.int32()).slice(1)
    wrapped = form.many(events, keys=keys, times=times, headers=None)
    assert whole(wrapped) == [form.one("one", "a", 1, None), form.one("two", "b", 2, None)]
    large = form.many(events.cast(pa.large_binary()), keys=["a", "b"], times=times, headers=None)
    assert whole(large) == whole(wrapped)
    assert whole(form.many(pa.array([], pa.binary()), keys=[], times=None, headers=None)) == []


def test_a_large_column_is_framed_in_pieces(form):
    events = pa.array([bytes([n]) * (1 << 20) for n in range(9)])
    many = form.many(events, keys=[str(n) for n in range(9)], times=None, headers=None)
    assert len(many) == 9
    assert len(list(many.frame_pieces())) == 3
    assert whole(many) == [form.one(bytes([n]) * (1 << 20), str(n), None, None) for n in range(9)]
    with pytest.raises(EventTooLargeError):
        form.many(pa.array([bytes(8 << 20)]), keys=None, times=None, headers=None)


@pytest.mark.parametrize("as_column", [False, True])
@pytest.mark.parametrize(
    ("column", "why"),
    [
        ({"keys": ["a"]}, "1 keys do not fit 2 events"),
        ({"times": [1, 2, 3]}, "3 times do not fit 2 events"),
        ({"headers": [None]}, "1 headers do not fit 2 events"),
        ({"keys": ["a", None]}, "routing key"),
        ({"keys": ["a", b"b"]}, "routing key"),
        ({"keys": pa.array([1, 2])}, "routing key"),
        ({"keys": pa.array(["a", None])}, "routing key"),
        ({"keys": ["a", "k" * 65_535]}, "too long"),
        ({"keys": pa.array(["a", "k" * 65_535])}, "too long"),
        ({"keys": "k" * 65_535}, "too long"),
        ({"times": [1, 1 << 60]}, "time of a record"),
        ({"times": pa.array([1, 1 << 60])}, "time of a record"),
        ({"times": pa.array([1, None])}, "time of a record"),
        ({"times": pa.array([NOON, NOON], pa.timestamp("ms"))}, "with a zone"),
        ({"times": pa.array(["now", "then"])}, "time"),
        ({"times": NOON.replace(tzinfo=None)}, "zone"),
        ({"headers": [{"a": 1}, None]}, "header"),
        ({"headers": [("a", b"b")]}, "headers"),
    ],
)
def test_what_does_not_fit_is_refused(form, as_column, column, why):
    if "headers" in column and isinstance(column["headers"][0], tuple):
        column = {"headers": column["headers"] * 2}
    events = pa.array([b"a", b"b"]) if as_column else [b"a", b"b"]
    with pytest.raises(InvalidArgumentError, match=why):
        form.many(events, **({"keys": None, "times": None, "headers": None} | column))


def test_a_column_that_is_no_bytes_is_refused(form):
    nothing = {"keys": None, "times": None, "headers": None}
    for wrong in (pa.array([1]), pa.array([b"a", None])):
        with pytest.raises(InvalidArgumentError):
            form.many(wrong, **nothing)
    one = pa.array([bytes(1 << 20)])
    with pytest.raises(EventTooLargeError):
        form.many(pa.chunked_array([one] * 513), **nothing)


def test_plain_events_have_no_time_and_no_headers():
    plain = PlainForm("s/t")
    assert plain.one("ä", "k", None, None) == "ä".encode()
    assert plain.many(["ä"], "k", None, None) == ["ä".encode()]
    for time, headers in ((NOON, None), (None, {})):
        with pytest.raises(InvalidArgumentError, match=r"s/t has no time.*records=True"):
            plain.one(b"x", None, time, headers)
        with pytest.raises(InvalidArgumentError, match="s/t has no time"):
            plain.many([b"x"], None, time, headers)


def test_the_prefix_of_a_record_does_not_depend_on_its_value(form):
    assert form.one(b"value", "k", 7, None) == prefix_of("k", 7, b"") + b"value"
