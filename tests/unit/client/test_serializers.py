import json
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest

from headrace.client.reader.event_batch import Decoder, Event
from headrace.client.serializers import find_codec
from headrace.errors import EventNotDecodedError, InvalidArgumentError


@dataclass
class Price:
    amount: Decimal
    since: date


class Numbers:
    def dumps(self, value):
        return memoryview(value.to_bytes(4))

    def loads(self, data):
        if len(data) != 4:
            raise ValueError("four bytes are a number")
        return int.from_bytes(data)


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        ("json", {"grüße": [1, None]}, '{"grüße":[1,null]}'.encode()),
        ("utf8", "grüße", "grüße".encode()),
        (json, [1, "ü"], b'[1, "\\u00fc"]'),
        (pickle, (1, b"x"), pickle.dumps((1, b"x"))),
        (Numbers(), 5, b"\0\0\0\5"),
    ],
)
def test_values_become_bytes_and_values_again(serializer, value, data):
    codec = find_codec(serializer)
    assert codec.encode(value) == data
    assert type(codec.encode(value)) is bytes
    assert Event(data, 3, 40, Decoder(codec, "s", "t")).value == value


@pytest.mark.parametrize(
    ("serializer", "value", "why"),
    [
        ("json", {1, 2}, "json takes no such set"),
        ("json", float("nan"), "json takes no such float"),
        ("utf8", b"bytes", "utf8 takes no such bytes"),
        ("utf8", "\ud800", "no text"),
        (Numbers(), -1, "Numbers takes no such int"),
    ],
)
def test_a_value_that_it_does_not_take_is_refused(serializer, value, why):
    with pytest.raises(InvalidArgumentError, match=why):
        find_codec(serializer).encode(value)


def test_an_event_that_it_does_not_take_says_where_it_is():
    event = Event(b"{", 3, 40, Decoder(find_codec("json"), "s", "t"))
    with pytest.raises(
        EventNotDecodedError, match="the event at 40 of segment 3 of s/t is no json"
    ) as caught:
        _ = event.value
    assert (caught.value.stream, caught.value.segment_id, caught.value.offset) == ("s/t", 3, 40)
    assert event.data == b"{"


def test_without_one_the_value_is_the_bytes():
    event = Event(b"raw", 0, 0)
    assert event.value is event.data
    assert event == Event(b"raw", 0, 0, Decoder(find_codec("utf8"), "s", "t"))
    assert pickle.loads(pickle.dumps(event)) == event


def test_a_value_is_made_once_and_only_if_it_is_wanted():
    made = []

    class Counting:
        dumps = staticmethod(str)

        def loads(self, data):
            made.append(data)
            return object()

    event = Event(b"x", 0, 0, Decoder(find_codec(Counting()), "s", "t"))
    assert made == []
    assert event.value is event.value
    assert made == [b"x"]


@pytest.mark.parametrize("serializer", ["yaml", 5, object(), b"json"])
def test_what_is_no_serializer_is_refused(serializer):
    with pytest.raises(InvalidArgumentError, match="serializer"):
        find_codec(serializer)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 11, 25, 10, 0, 0, 7, UTC), '"2026-11-25T10:00:00.000007+00:00"'),
        (date(2026, 11, 25), '"2026-11-25"'),
        (time(10), '"10:00:00"'),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        (Price(Decimal(3), date(2026, 1, 2)), '{"amount":"3","since":"2026-01-02"}'),
        ([Price(Decimal("0.5"), date(2026, 1, 2))], '[{"amount":"0.5","since":"2026-01-02"}]'),
    ],
)
def test_json_takes_what_programs_have_beside_its_own_types(value, text):
    assert find_codec("json").encode(value) == text.encode()


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), b"x", {1, 2}, Price, object()])
def test_json_refuses_what_it_has_nothing_for(value):
    with pytest.raises(InvalidArgumentError, match="json takes no such"):
        find_codec("json").encode([value])
