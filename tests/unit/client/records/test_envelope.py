from datetime import UTC, datetime, timedelta, timezone

import pytest

from headrace.client.records.envelope import (
    HEADERS_MAX,
    KEY_BYTES_MAX,
    TIME_MS_MAX,
    TIME_MS_MIN,
    datetime_of,
    decode_headers,
    encode_headers,
    key_bytes,
    prefix_of,
    read_head,
    time_ms_of,
)
from headrace.errors import InvalidArgumentError

NOON = datetime(2026, 11, 25, 12, tzinfo=timezone(timedelta(hours=2)))


def test_times_are_whole_milliseconds_of_every_year_that_a_datetime_has():
    assert datetime_of(time_ms_of(NOON)) == NOON
    assert datetime_of(TIME_MS_MIN) == datetime(1, 1, 1, tzinfo=UTC)
    assert datetime_of(TIME_MS_MAX) == datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    for wrong in (NOON.replace(tzinfo=None), TIME_MS_MAX + 1, TIME_MS_MIN - 1, True, 1.5, "now"):
        with pytest.raises(InvalidArgumentError):
            time_ms_of(wrong)


def test_keys_are_text_and_bytes_of_a_command_line():
    assert key_bytes("kü") == "kü".encode()
    assert key_bytes(b"\xff".decode(errors="surrogateescape")) == b"\xff"
    for wrong in (b"k", 7, "\ud800", "k" * (KEY_BYTES_MAX + 1)):
        with pytest.raises(InvalidArgumentError):
            key_bytes(wrong)


def test_headers_take_text_and_bytes():
    headers = {"a": "ü", "b": bytearray(b"x"), "c": memoryview(b"y")}
    assert decode_headers(encode_headers(headers)) == {"a": "ü".encode(), "b": b"x", "c": b"y"}
    assert encode_headers(None) == encode_headers({}) == b""


@pytest.mark.parametrize(
    "headers",
    [
        {"": b""},
        {"n" * 256: b""},
        {7: b""},
        {b"n": b""},
        {"n": 7},
        {"n": None},
        {"n": bytes(65_536)},
        {"n": bytes(40_000), "m": bytes(40_000)},
        {str(n): b"" for n in range(HEADERS_MAX + 1)},
        [("n", b"")],
    ],
)
def test_headers_that_a_record_does_not_take_are_refused(headers):
    with pytest.raises(InvalidArgumentError, match="header"):
        encode_headers(headers)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (b"", "0 bytes are too few"),
        (b"a plain event, and a long one", "begins with the byte 0x61"),
        (b"\xfe\2" + bytes(12), "version 2 instead of 1"),
        (b"\xfe\1" + bytes(8) + b"\0\1\0\0", "do not fit into 14 bytes"),
        (b"\xfe\1" + bytes(8) + b"\xff\xff\0\1", "do not fit into 14 bytes"),
        (b"\xfe\1\x7f" + bytes(7) + b"\xff\xff\0\0", "its time is"),
    ],
)
def test_what_is_no_record_is_told_why(event, why):
    found = read_head(b"x" + event + prefix_of(None, 0, b""), 1, 1 + len(event))
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    "damaged", [b"\1", b"\1a\0", b"\1a\0\1", b"\0\0\0", b"\1\xff\0\0", encode_headers({"a": b""}) * 65]
)
def test_damaged_headers_are_none(damaged):
    with pytest.raises(ValueError, match=r"header|utf-8"):
        decode_headers(damaged)
