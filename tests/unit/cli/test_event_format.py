import pytest

from headrace.cli.event.format import LETTERS, format_of
from headrace.client.reader.event_batch import Event
from headrace.errors import InvalidArgumentError
from headrace.model.segment_id import make_segment_id

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


@pytest.mark.parametrize("text", ["%k", "%", r"a\q", "a\\"])
def test_an_unknown_letter_or_escape_is_refused_with_those_that_are_known(text):
    with pytest.raises(InvalidArgumentError, match="known are") as raised:
        format_of(text)
    assert "%" not in text or all(f"%{letter}" in str(raised.value) for letter in LETTERS)
