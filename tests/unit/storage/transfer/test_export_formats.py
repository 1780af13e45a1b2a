"""Headers and lists of exports: whole, torn, damaged, of another version."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError, InvalidArgumentError, UnsupportedError
from headrace.storage.transfer.export_format import ExportedSegment, decode_list, encode_list
from headrace.storage.transfer.header_layout import (
    HeaderEntry,
    decode_header,
    encode_header,
    header_name,
    part_name,
    segment_of_header,
)

NAMES = st.text(st.characters(exclude_characters=";", exclude_categories=["Cs"]), min_size=1, max_size=20)


@st.composite
def entries(draw):
    offsets = sorted(draw(st.sets(st.integers(0, 2**63 - 1), max_size=8)))
    return [HeaderEntry(offset, draw(NAMES)) for offset in offsets]


@given(entries(), st.data())
def test_a_header_is_read_as_it_was_written_also_if_its_end_is_torn(entries, data):
    encoded = encode_header(entries)
    assert decode_header(encoded) == entries
    torn = encoded.decode()[: data.draw(st.integers(0, len(encoded.decode())))].encode()
    found = decode_header(torn)
    assert found == entries[: len(found)]


@pytest.mark.parametrize(
    "data", [b"0;", b":a;", b"x:a;", b"0:;", b"5:a;5:b;", b"5:a;4:b;", b"\xff:a;", b"9" * 19 + b"9:a;"]
)
def test_a_damaged_header_is_refused(data):
    with pytest.raises(DataCorruptionError):
        decode_header(data)


def test_names():
    assert segment_of_header(header_name("a/b")) == "a/b"
    assert segment_of_header("$header") is None
    assert segment_of_header(part_name("a/b", 5)) is None
    with pytest.raises(InvalidArgumentError):
        encode_header([HeaderEntry(0, "a;b")])


def test_a_list_that_is_damaged_or_newer_is_refused():
    segment = ExportedSegment("s", 1, 2, True, 3, {"event_count": 4})
    lines = encode_list([segment], 5).splitlines()
    head = json.loads(lines[0])
    for changed, error in [
        ([], DataCorruptionError),
        ([b"{"], DataCorruptionError),
        ([b"[]"], DataCorruptionError),
        (lines[:1], DataCorruptionError),
        ([lines[0], b'{"segment": "s"}'], DataCorruptionError),
        ([json.dumps(head | {"format": "x"}).encode(), lines[1]], DataCorruptionError),
        ([json.dumps(head | {"version": 2}).encode(), lines[1]], UnsupportedError),
    ]:
        with pytest.raises(error):
            list(decode_list(b"\n".join(changed)))
    more = json.dumps(json.loads(lines[1]) | {"later": 1}).encode()
    assert list(decode_list(b"\n".join([lines[0], more]))) == [segment]
