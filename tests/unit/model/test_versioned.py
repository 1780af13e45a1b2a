import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.model.versioned import (
    COMPACT_INT_MAX,
    COMPACT_LONG_MAX,
    COMPACT_SIGNED_MAX,
    COMPACT_SIGNED_MIN,
    VersionedReader,
    encode_compact_int,
    encode_compact_long,
    encode_compact_signed,
    encode_object,
)

VECTORS = json.loads(
    (Path(__file__).parents[2] / "golden" / "stream_cut" / "v1" / "vectors.json").read_text(encoding="utf-8")
)["numbers"]
FORMS = {
    "int": (encode_compact_int, VersionedReader.compact_int),
    "long": (encode_compact_long, VersionedReader.compact_long),
    "signed": (encode_compact_signed, VersionedReader.compact_signed),
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["value"]))
@pytest.mark.parametrize("form", sorted(FORMS))
def test_numbers_have_the_bytes_every_other_client_writes(form, vector):
    encode, decode = FORMS[form]
    if vector[form] is None:
        with pytest.raises(InvalidArgumentError):
            encode(vector["value"])
        return
    assert encode(vector["value"]).hex() == vector[form]
    assert decode(VersionedReader(bytes.fromhex(vector[form]))) == vector["value"]


@given(st.integers(0, COMPACT_INT_MAX))
def test_compact_ints_round_trip(value):
    assert VersionedReader(encode_compact_int(value)).compact_int() == value


@given(st.integers(0, COMPACT_LONG_MAX))
def test_compact_longs_round_trip(value):
    assert VersionedReader(encode_compact_long(value)).compact_long() == value


@given(st.integers(COMPACT_SIGNED_MIN, COMPACT_SIGNED_MAX))
def test_compact_signed_longs_round_trip(value):
    assert VersionedReader(encode_compact_signed(value)).compact_signed() == value


@given(st.integers(0, COMPACT_LONG_MAX), st.data())
def test_a_number_cut_short_is_refused(value, data):
    raw = encode_compact_long(value)
    kept = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(InvalidArgumentError):
        VersionedReader(raw[:kept]).compact_long()


def test_unknown_revisions_are_skipped_and_known_ones_kept():
    version, revisions = VersionedReader(encode_object(3, b"\x05", b"later")).envelope()
    assert version == 3
    assert revisions[0].compact_int() == 5
    assert revisions[0].remaining == 0


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "01",
        "0001",
        "000101",
        "00010100000000",
        "000101000000ff00",
        "000102000000000000000000000000",
        "00010100ffffffff",
    ],
)
def test_a_broken_envelope_is_refused(raw):
    with pytest.raises(InvalidArgumentError):
        VersionedReader(bytes.fromhex(raw)).envelope()
