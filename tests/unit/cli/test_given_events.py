import json
import os
import random

import pytest

from headrace.cli.event.given_events import (
    EVENT_MAX,
    event_document,
    field_keyed_events,
    json_events,
    key_of,
    keyed_events,
    plain_events,
    record_document,
)
from headrace.errors import InvalidArgumentError

SAMPLES = [
    b"text",
    "ü€😀".encode(),
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"a\nb\r\n",
    b"\x00",
    bytes(range(256)),
    b" ",
]


@pytest.mark.parametrize("data", [*SAMPLES, random.Random(27).randbytes(1000)])
def test_what_is_printed_is_read_back_unchanged(data):
    line = json.dumps({"segment": 0, "offset": 8, **event_document(data)}).encode()
    assert json_events(None)(line).data == data


@pytest.mark.parametrize("data", [b"\xff:a", b"a\r", b"\x00"])
def test_plain_text_is_taken_byte_for_byte(data):
    event = plain_events("k")(data)
    assert (event.data, event.key) == (data, "k")


def test_the_key_is_what_stands_before_the_first_separator():
    parse = keyed_events(b"::")
    assert (parse(b"k::a::b").key, parse(b"k::a::b").data) == ("k", b"a::b")
    assert parse("ü::x".encode()).key == "ü"
    assert parse(b"\xff::x").key != parse(b"\xfe::x").key
    assert parse(b"::x").key == ""
    assert parse(b"").data == b""
    with pytest.raises(InvalidArgumentError, match="has no '::' in it"):
        parse(b"k:a")
    with pytest.raises(InvalidArgumentError, match="separator of keys is empty"):
        keyed_events(b"")


def test_a_key_is_the_bytes_that_the_shell_passed():
    assert key_of(os.fsencode("ü")) == "ü"


def test_a_json_object_may_name_its_key():
    parse = json_events("default")
    assert parse(b'{"event": "a", "key": "k"}').key == "k"
    assert parse(b'{"event": "a"}').key == "default"
    assert parse(b'{"event": ""}').data == b""
    assert parse(b"  ").data == b""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"1" * 5000, "is not JSON"),
        (b"[]", "is no JSON object"),
        (b"{}", "either 'event' or 'event_base64'"),
        (b'{"event": "a", "event_base64": "YQ=="}', "either 'event' or 'event_base64'"),
        (b'{"event": 1}', "has a 'event' that is no string"),
        (b'{"event": "a", "Key": "k"}', "unknown member 'Key'; known are event"),
        (b'{"event": "\\ud800"}', "no Unicode text"),
        (b'{"event_base64": "Y"}', "no base64"),
        (b'{"event_base64": "YQ==\\n!"}', "no base64"),
        ('{"event_base64": "ü"}'.encode(), "no base64"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(line, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        json_events(None)(line)


def test_an_event_beyond_the_limit_is_refused():
    parse = plain_events(None)
    assert len(parse(bytes(EVENT_MAX)).data) == EVENT_MAX
    with pytest.raises(InvalidArgumentError, match=f"larger than the limit of {EVENT_MAX}"):
        parse(bytes(EVENT_MAX + 1))


def test_a_field_of_the_event_is_its_key_and_the_event_is_the_line_as_it_is():
    parse = field_keyed_events("customer")
    line = b'{"customer":  "\xc3\xbc", "n": 1}'
    assert (parse(line).data, parse(line).key) == (line, "ü")
    assert parse(b'{"customer": 17}').key == "17"
    assert parse(b'{"customer": true}').key == "true"
    assert parse(b"  ").data == b""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"Customer": "a"}', "has no field 'customer'"),
        (b'{"customer": null}', "has no field 'customer'"),
        (b'{"customer": [1]}', "has a 'customer' that is no string or number"),
        (b"[]", "is no JSON object"),
        (b"customer=a", "is not JSON"),
    ],
)
def test_a_line_without_the_field_is_refused_with_the_reason(line, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        field_keyed_events("customer")(line)


@pytest.mark.parametrize("key", [None, b"", b"k", b"\xff"])
@pytest.mark.parametrize("headers", [{}, {"a": b"1", "b": b"\xff", "c": b""}])
def test_a_record_that_is_printed_is_read_back_unchanged(key, headers):
    document = {**event_document(b""), **record_document("2026-11-25T10:00:00.007Z", key, headers)}
    event = json_events("of all")(json.dumps(document).encode())
    assert (event.data, event.time_ms, event.headers or {}) == (b"", 1_795_600_800_007, headers)
    assert event.key == ("of all" if key is None else key_of(key))
    assert not event.is_nothing


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"time": "noon"}, "'time'"),
        ({"time": True}, "'time'"),
        ({"time": [1]}, "'time'"),
        ({"headers": ["a"]}, "'headers'"),
        ({"headers": {"a": 1}}, "'headers'"),
        ({"headers_base64": {"a": "ü"}}, "a header that is no base64"),
        ({"headers": {"a": "\ud800"}}, "a header that is no Unicode"),
        ({"key_base64": "?"}, "a key that is no base64"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(members, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        json_events(None)(json.dumps({"event": "x", **members}).encode())


def test_the_time_of_a_record_may_be_a_number():
    assert json_events(None)(b'{"event": "x", "time": -7}').time_ms == -7
