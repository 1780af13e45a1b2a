"""The bytes of a store's identity are pinned."""

from pathlib import Path

import pytest

from headrace.errors import ChecksumMismatchError, DataCorruptionError, InvalidArgumentError
from headrace.storage.identity_format import IDENTITY_NAME, decode_identity, encode_identity

GOLDEN = bytes.fromhex((Path(__file__).parent / "store_identity/v1/identity.hex").read_text())
SYSTEM = "000102030405060708090a0b0c0d0e0f"


def test_the_identity_has_the_bytes_it_always_had():
    assert IDENTITY_NAME == "_system/identity"
    assert encode_identity(SYSTEM) == GOLDEN
    assert decode_identity(GOLDEN) == SYSTEM


def test_what_is_none_is_refused():
    for length in range(len(GOLDEN)):
        with pytest.raises(DataCorruptionError):
            decode_identity(GOLDEN[:length])
    for at in range(1, len(GOLDEN)):
        with pytest.raises(ChecksumMismatchError):
            decode_identity(GOLDEN[:at] + bytes([GOLDEN[at] ^ 1]) + GOLDEN[at + 1 :])
    with pytest.raises(InvalidArgumentError, match="version 2"):
        decode_identity(b"\2" + GOLDEN[1:] + b"more")
