import pytest

from headrace.cli.table.texts import bytes_of, key_of, member, shown, whole_key
from headrace.errors import InvalidArgumentError
from headrace.model.key_value_table import KeyValueTableConfiguration

ONE = KeyValueTableConfiguration(primary_key_bytes=3)
TWO = KeyValueTableConfiguration(primary_key_bytes=3, secondary_key_bytes=2)


def test_a_word_is_a_key():
    assert key_of(bytes_of("abc", is_hex=False), ONE) == b"abc"
    assert key_of(bytes_of("abc12", is_hex=False), TWO) == (b"abc", b"12")
    assert key_of(bytes_of("0001ff", is_hex=True), ONE) == b"\x00\x01\xff"
    assert bytes_of("\udcff", is_hex=False) == b"\xff"


@pytest.mark.parametrize("key", [b"abc", (b"abc", b"12")])
def test_a_key_and_its_bytes_are_inverses(key):
    assert key_of(whole_key(key), ONE if isinstance(key, bytes) else TWO) == key


@pytest.mark.parametrize(("data", "table"), [(b"ab", ONE), (b"abcd", ONE), (b"abc", TWO), (b"", TWO)])
def test_a_key_of_another_length_is_refused(data, table):
    with pytest.raises(InvalidArgumentError, match=f"not {len(data)}"):
        key_of(data, table)


@pytest.mark.parametrize("word", ["0", "zz", "0x00", "ä"])
def test_what_is_not_hexadecimal_is_refused(word):
    with pytest.raises(InvalidArgumentError):
        bytes_of(word, is_hex=True)


def test_bytes_are_shown_and_put_into_documents():
    assert shown(b"abc", is_hex=False) == "abc"
    assert shown(b"a\xff", is_hex=False) == "a\\xff"
    assert shown(b"a\xff", is_hex=True) == "61ff"
    assert member("key", b"abc") == {"key": "abc"}
    assert member("key", b"\xff") == {"key_base64": "/w=="}
