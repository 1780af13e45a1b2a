import json
from itertools import repeat

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.serializers import find_codec
from headrace.client.writer import given_events
from headrace.client.writer.given_events import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, batches_of
from headrace.errors import InvalidArgumentError


def flat(batches):
    """Return every event with its key, and check that no batch is too large."""
    found = []
    for events, keys in batches:
        assert 0 < len(events) <= BATCH_EVENTS_MAX
        assert len(events) == 1 or sum(map(len, events)) <= BATCH_BYTES_MAX
        each = repeat(keys) if keys is None or isinstance(keys, str) else keys
        found += zip(events, each, strict=False)
    return found


@given(st.lists(st.binary(min_size=1, max_size=4)), st.integers(1, 12), st.integers(1, 5))
def test_batches_are_small_and_keep_order_and_keys(events, bytes_max, events_max):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(given_events, "BATCH_BYTES_MAX", bytes_max)
        patch.setattr(given_events, "BATCH_EVENTS_MAX", events_max)
        keys = [str(place) for place in range(len(events))]
        expected = list(zip(events, keys, strict=True))
        numbers = iter(keys)
        for given_keys in (keys, lambda _: next(numbers)):
            batches = list(batches_of(iter(events), given_keys, None))
            found = [pair for pack, each in batches for pair in zip(pack, each, strict=True)]
            assert found == expected
            assert all(len(pack) <= events_max for pack, _ in batches)
            assert all(len(pack) == 1 or sum(map(len, pack)) <= bytes_max for pack, _ in batches)


@pytest.mark.parametrize("events", [b"one", bytearray(b"one"), memoryview(b"one"), "one"])
def test_bytes_and_text_are_one_event(events):
    assert flat(batches_of(events, "k", None)) == [(b"one", "k")]


def test_a_serializer_takes_mappings_and_what_cannot_be_iterated_as_one_event():
    codec = find_codec("json")
    assert flat(batches_of({"a": 1}, None, codec)) == [(b'{"a":1}', None)]
    assert flat(batches_of(5, None, codec)) == [(b"5", None)]
    assert flat(batches_of([{"k": "x"}, {"k": "y"}], lambda event: event["k"], find_codec(json))) == [
        (b'{"k": "x"}', "x"),
        (b'{"k": "y"}', "y"),
    ]


def test_events_are_taken_as_they_are_needed():
    taken = []
    batches = batches_of((taken.append(n) or "x" for n in range(3 * BATCH_EVENTS_MAX)), None, None)
    assert len(next(batches)[0]) == len(taken) == BATCH_EVENTS_MAX


def test_few_large_events_are_in_memory_at_a_time(monkeypatch):
    monkeypatch.setattr(given_events, "BATCH_BYTES_MAX", 10)
    taken = []
    batches = batches_of((taken.append(n) or "12345" for n in range(1000)), None, None)
    assert next(batches)[0] == [b"12345"] * 2
    assert len(taken) < 100
    assert sum(len(events) for events, _ in batches) == 998


@pytest.mark.parametrize("key", [5, object()])
def test_a_key_of_no_kind_is_refused(key):
    for events in (["x"], pa.array(["x"])):
        with pytest.raises(InvalidArgumentError, match="a key is text"):
            next(batches_of(events, key, None))
    with pytest.raises(InvalidArgumentError, match="one by one"):
        next(batches_of(pa.array(["x"]), iter("k"), None))


def test_a_frame_is_not_taken_for_the_names_of_its_columns():
    for frame in (pd.DataFrame({"a": [1]}), pa.table({"a": [1]})):
        with pytest.raises(InvalidArgumentError, match="a frame is no events"):
            next(batches_of(frame, None, find_codec("json")))


def test_an_array_is_sliced_and_not_looked_into():
    column = pa.array([b"x" * 1000] * 20_000)
    keys = pa.array(["a", "b"] * 10_000)
    batches = list(batches_of(column, keys, None))
    assert len(batches) == 3
    assert pa.chunked_array([pack for pack, _ in batches]).equals(pa.chunked_array([column]))
    assert pa.chunked_array([each for _, each in batches]).equals(pa.chunked_array([keys]))
    assert flat(batches_of(pa.array([], pa.binary()), None, None)) == []


@pytest.mark.parametrize(
    ("events", "key", "why"),
    [
        ([b"a", b"b"], ["k"], "fewer keys"),
        ([b"a"], ["k", "l"], "more keys"),
        ([b"a", 5], None, "not int"),
        (5, None, "not int"),
        ({"a": 1}, None, "not dict"),
        (pa.array([b"a"]), ["k", "l"], "do not fit"),
        (pa.array([b"a"]), str, "not from a function"),
    ],
)
def test_what_does_not_fit_is_refused(events, key, why):
    with pytest.raises(InvalidArgumentError, match=why):
        list(batches_of(events, key, None))
