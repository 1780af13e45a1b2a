"""Digests: what they know, what they refuse, what they hide."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.security.passwords import Digest

SALT = bytes(range(32))
DIGEST = Digest.of("secret", SALT, 10)


def encoded(text):
    return text.encode().hex()


def test_only_the_password_matches():
    assert DIGEST.matches("secret")
    for wrong in ("", "Secret", "secret ", "\udc80", "secre"):
        assert not DIGEST.matches(wrong)


def test_the_salt_makes_equal_passwords_differ():
    assert Digest.of("secret", SALT[::-1], 10).hash != DIGEST.hash


def test_an_empty_password_never_matches_whatever_a_file_says():
    import hashlib

    empty = hashlib.pbkdf2_hmac("sha256", b"", SALT, 10, 64)
    assert not Digest(10, SALT, empty).matches("")


def test_nothing_secret_is_printed():
    shown = f"{DIGEST!r} {DIGEST}"
    assert SALT.hex() not in shown
    assert DIGEST.hash.hex() not in shown
    assert repr(DIGEST.hash) not in shown


@pytest.mark.parametrize("size", [20, 32, 64])
def test_hashes_of_other_lengths_are_checked(size):
    text = f"10:{SALT.hex()}:{DIGEST.hash[:size].hex()}"
    assert Digest.parse(encoded(text)).matches("secret")
    assert Digest.parse(encoded(text).upper()).matches("secret")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zz",
        "35 30",
        "secret",
        "ff",
        encoded("0:" + "00" * 32 + ":" + "00" * 64),
        encoded("10000001:" + "00" * 32 + ":" + "00" * 64),
        encoded("05:" + "00" * 32 + ":" + "00" * 64),
        encoded("5:" + "00" * 7 + ":" + "00" * 64),
        encoded("5:" + "00" * 65 + ":" + "00" * 64),
        encoded("5:" + "00" * 32 + ":" + "00" * 19),
        encoded("5:" + "00" * 32 + ":" + "00" * 65),
        encoded("5:" + "00" * 32 + ":" + "00" * 64 + ":"),
        encoded("5:" + "00" * 32 + ":" + "00" * 64 + "\n"),
        encoded("5:" + "0" * 63 + ":" + "00" * 64),
    ],
)
def test_what_is_no_digest_is_refused_and_not_shown(text):
    with pytest.raises(InvalidArgumentError) as refused:
        Digest.parse(text)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize("password", ["", "a\r", "a\nb", "\x7f", "é" * 513, "\udc80"])
def test_what_is_no_password_is_refused_and_not_shown(password):
    with pytest.raises(InvalidArgumentError) as refused:
        Digest.of(password, SALT, 10)
    assert len(password) < 3 or password not in str(refused.value)
