import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.tables.key_layout import KeyLayout, next_key
from headrace.errors import InvalidArgumentError

ONE = KeyLayout(4, 0)
TWO = KeyLayout(4, 2)


def test_a_key_is_its_bytes_or_a_pair_of_them():
    assert ONE.join(b"abcd") == b"abcd"
    assert ONE.join((b"abcd", b"")) == b"abcd"
    assert TWO.join((bytearray(b"abcd"), memoryview(b"12"))) == b"abcd12"
    assert ONE.split(b"abcd") == b"abcd"
    assert TWO.split(b"abcd12") == (b"abcd", b"12")


@pytest.mark.parametrize(
    ("layout", "key"),
    [
        (ONE, b"abc"),
        (ONE, b"abcde"),
        (ONE, b""),
        (ONE, "abc"),
        (ONE, "\u00e4\u00f6\u00fc"),
        (ONE, "abc\udcff"),
        (TWO, "abcd12"),
        (ONE, 4),
        (ONE, None),
        (ONE, (b"abcd", b"1")),
        (ONE, (b"abcd",)),
        (TWO, b"abcd12"),
        (TWO, (b"abcd", b"1")),
        (TWO, (b"abc", b"123")),
        (TWO, (b"abcd", "1")),
        (TWO, (b"abcd", b"12", b"")),
        (TWO, ()),
    ],
)
def test_what_is_no_key_of_the_table_is_refused(layout, key):
    with pytest.raises(InvalidArgumentError):
        layout.join(key)


def test_a_text_is_its_utf_8():
    assert ONE.join("abcd") == b"abcd"
    assert ONE.join("\u00e4\u00f6") == "\u00e4\u00f6".encode()
    assert TWO.join(("abcd", b"12")) == TWO.join((b"abcd", "12")) == b"abcd12"
    assert TWO.bounds("abcd", prefix="1") == TWO.bounds(b"abcd", prefix=b"1")
    assert ONE.bounds(first="b", last="c") == ONE.bounds(first=b"b", last=b"c")


def test_bounds_are_filled_to_whole_keys():
    assert TWO.bounds() == (b"\0\0\0\0\0\0", b"\xff\xff\xff\xff\xff\xff")
    assert TWO.bounds(prefix=b"ab") == (b"ab\0\0\0\0", b"ab\xff\xff\xff\xff")
    assert TWO.bounds(first=b"ab", last=b"abcd") == (b"ab\0\0\0\0", b"abcd\xff\xff")
    assert TWO.bounds(b"abcd") == (b"abcd\0\0", b"abcd\xff\xff")
    assert TWO.bounds(b"abcd", prefix=b"1") == (b"abcd1\0", b"abcd1\xff")
    assert TWO.bounds(b"abcd", first=b"11", last=b"2") == (b"abcd11", b"abcd2\xff")
    assert TWO.bounds(b"abcd", last=b"2") == (b"abcd\0\0", b"abcd2\xff")
    assert ONE.bounds(b"abcd") == (b"abcd", b"abcd")
    assert ONE.bounds(first=b"b") == (b"b\0\0\0", b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    "arguments",
    [
        {"prefix": b"abcde"},
        {"first": b"abcde"},
        {"last": b"abcde"},
        {"prefix": "abcde"},
        {"prefix": b"a", "first": b"a"},
        {"prefix": b"a", "last": b"a"},
        {"first": b"b", "last": b"a"},
        {"primary": b"abc"},
        {"primary": b"abcd", "prefix": b"123"},
        {"primary": b"abcd", "first": b"2", "last": b"1"},
        {"primary": 3},
    ],
)
def test_a_range_that_makes_no_sense_is_refused(arguments):
    with pytest.raises(InvalidArgumentError):
        TWO.bounds(**arguments)


def test_the_next_key_is_one_more_as_a_number_of_the_same_length():
    assert next_key(b"\x00\x00") == b"\x00\x01"
    assert next_key(b"\x00\xff") == b"\x01\x00"
    assert next_key(b"\x7f\xff\xff") == b"\x80\x00\x00"
    assert next_key(b"\xff\xfe") == b"\xff\xff"
    assert next_key(b"\xff\xff") is None


@given(st.binary(min_size=1, max_size=20))
def test_no_key_lies_between_one_and_the_next(key):
    following = next_key(key)
    if following is None:
        assert set(key) == {0xFF}
    else:
        assert len(following) == len(key)
        assert int.from_bytes(following) - int.from_bytes(key) == 1
