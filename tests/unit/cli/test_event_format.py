import pytest

from headrace.cli.event.format import LETTERS, format_of
from headrace.client.reader.event_batch import Event
from headrace.client.reader.record_batch import Record
from headrace.client.records.envelope import encode_headers, prefix_of
from headrace.errors import InvalidArgumentError
from headrace.model.segment_id import make_segment_id

RECORD = Record(
    prefix_of("kü", 1_795_600_800_007, encode_headers({"a": "1", "b": b"\xff"})) + b"value",
    make_segment_id(3, 1),
    120,
)
EVENT = Event(b"\xffdata", make_segment_id(3, 1), 120)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", b""),
        (r"%e\n", b"\xffdata\n"),
        (r"%s %S %o %l\t|", b"3#1 4294967299 120 5\t|"),
        (r"100%%\\n\0ü", "100%\\n\0ü".encode()),
        ("%e%e", b"\xffdata\xffdata"),
        (b"\xfe".decode(errors="surrogateescape"), b"\xfe"),
    ],
)
def test_letters_and_escapes_are_replaced_and_nothing_is_added(text, printed):
    assert format_of(text)(EVENT) == printed


@pytest.mark.parametrize("text", ["%q", "%", r"a\q", "a\\"])
def test_an_unknown_letter_or_escape_is_refused_with_those_that_are_known(text):
    with pytest.raises(InvalidArgumentError, match="known are") as raised:
        format_of(text)
    assert "%" not in text or all(f"%{letter}" in str(raised.value) for letter in LETTERS)


def test_a_record_has_a_time_a_key_and_headers_and_a_plain_event_has_none():
    printed = format_of("%t|%k|%h|%e|%l")
    assert printed(RECORD) == "2026-11-25T10:00:00.007Z|kü|a=1,b=".encode() + b"\xff|value|5"
    assert printed(EVENT) == b"|||\xffdata|5"
