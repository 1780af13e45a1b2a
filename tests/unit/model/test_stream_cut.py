import base64
import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.segment_id import make_segment_id
from headrace.model.stream_cut import UNBOUNDED, Relation, StreamCut

VECTORS = json.loads(
    (Path(__file__).parents[2] / "golden" / "stream_cut" / "v1" / "vectors.json").read_text(encoding="utf-8")
)
IDS = st.builds(make_segment_id, st.integers(0, 2**31 - 1), st.integers(0, 2**29 - 1))
CUTS = st.builds(
    StreamCut.from_offsets,
    st.just("scope"),
    st.just("stream"),
    st.dictionaries(IDS, st.integers(-1, 2**60), max_size=20),
)


def expected(vector):
    offsets = {int(segment_id): offset for segment_id, offset in vector["offsets"].items()}
    return StreamCut.from_offsets(vector["scope"], vector["stream"], offsets)


@pytest.mark.parametrize("vector", VECTORS["text"], ids=lambda v: v["text"][:20])
def test_the_text_of_every_runtime_is_the_same_cut(vector):
    assert StreamCut.from_text(vector["text"]) == expected(vector)


@pytest.mark.parametrize("vector", VECTORS["binary"], ids=lambda v: v["hex"][:30])
def test_the_binary_form_is_the_one_other_clients_write(vector):
    assert expected(vector).to_bytes().hex() == vector["hex"]
    assert StreamCut.from_bytes(bytes.fromhex(vector["hex"])) == expected(vector)


def test_version_zero_of_the_binary_form_has_unsigned_offsets():
    old = "0000010000000013000c73636f70652f73747265616d01004064"
    assert StreamCut.from_bytes(bytes.fromhex(old.replace("00000013", "00000012"))).offsets == {0: 100}


@given(CUTS)
def test_both_forms_round_trip(cut):
    assert StreamCut.from_text(cut.as_text()) == cut
    assert StreamCut.from_bytes(cut.to_bytes()) == cut
    assert hash(StreamCut.from_text(cut.as_text())) == hash(cut)


def test_the_unbounded_cut_has_its_own_forms():
    assert UNBOUNDED.as_text() == "UNBOUNDED"
    assert UNBOUNDED.to_bytes() == b""
    assert StreamCut.from_text("UNBOUNDED") == UNBOUNDED
    assert StreamCut.from_bytes(b"") == UNBOUNDED
    assert UNBOUNDED.is_unbounded


def test_the_tail_of_a_sealed_stream_is_bounded_and_empty():
    cut = StreamCut.from_offsets("scope", "stream", {})
    assert not cut.is_unbounded
    assert StreamCut.from_text(cut.as_text()) == cut
    assert StreamCut.from_bytes(cut.to_bytes()) == cut


def _text(body):
    return base64.b64encode(gzip.compress(body.encode(), mtime=0)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unbounded",
        "!!!",
        "AAAA",
        _text("0:scope/stream:0:0"),
        _text("0:stream:0:0:1"),
        _text("0:scope/stream:0,1:0:1"),
        _text("0:scope/stream:x:0:1"),
        _text("0:scope/stream:-1:0:1"),
        _text("0:scope/stream:0:4294967296:1"),
        _text("0:scope/stream:0:0:-2"),
        _text("0:scope/stream:0:0:1")[:-8],
        "ä",
    ],
)
def test_a_text_that_is_no_cut_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        StreamCut.from_text(text)


@given(st.binary(max_size=80))
def test_no_bytes_escape_the_typed_error(raw):
    with contextlib.suppress(InvalidArgumentError):
        StreamCut.from_bytes(raw)


@given(CUTS, st.data())
def test_a_binary_cut_truncated_anywhere_is_refused(cut, data):
    raw = cut.to_bytes()
    kept = data.draw(st.integers(1, len(raw) - 1))
    with pytest.raises(InvalidArgumentError):
        StreamCut.from_bytes(raw[:kept])


def cut_of(**offsets):
    return StreamCut.from_offsets("s", "t", {int(name[1:]): offset for name, offset in offsets.items()})


HALVES = {0: KeyRange(0.0, 0.5), 1: KeyRange(0.5, 1.0), 2: KeyRange(0.0, 1.0)}


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        (cut_of(_0=5, _1=5), cut_of(_0=5, _1=5), Relation.EQUAL_OR_AFTER),
        (cut_of(_0=6, _1=5), cut_of(_0=5, _1=5), Relation.EQUAL_OR_AFTER),
        (cut_of(_0=4, _1=4), cut_of(_0=5, _1=5), Relation.BEFORE),
        (cut_of(_0=4, _1=6), cut_of(_0=5, _1=5), Relation.OVERLAPS),
        (cut_of(_2=0), cut_of(_0=5, _1=5), Relation.EQUAL_OR_AFTER),
        (cut_of(_0=5, _1=5), cut_of(_2=0), Relation.BEFORE),
    ],
)
def test_cuts_are_ordered_by_offset_and_by_age(one, other, relation):
    assert one.relation_to(other, HALVES) is relation


def test_cuts_of_different_segments_need_their_ranges():
    with pytest.raises(InvalidArgumentError):
        cut_of(_2=0).relation_to(cut_of(_0=5, _1=5))
    with pytest.raises(InvalidArgumentError):
        cut_of(_0=0).relation_to(UNBOUNDED)


@pytest.mark.parametrize("text", ["head", "garbage", "\N{SNOWMAN}", "!" * 1000])
def test_a_refused_text_is_shown_shortened(text):
    with pytest.raises(InvalidArgumentError) as refused:
        StreamCut.from_text(text)
    assert text[:8] in str(refused.value)
    assert len(str(refused.value)) < 100
