import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly
from headrace.model.watermark import (
    MarkedSegment,
    Watermark,
    decode_watermark,
    encode_watermark,
    frame_watermark,
    split_marks,
)

VECTORS = json.loads(
    (Path(__file__).parents[2] / "golden" / "watermark" / "v1" / "vectors.json").read_text(encoding="utf-8")
)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


def watermark_of(vector):
    cut = tuple(
        MarkedSegment(segment_id, KeyRange(low, high), offset)
        for segment_id, low, high, offset in vector["cut"]
    )
    return Watermark(vector["lower"], vector["upper"], cut)


@st.composite
def watermarks(draw):
    lower, upper = sorted((draw(TIMES), draw(TIMES)))
    ranges = split_evenly(FULL_RANGE, draw(st.integers(1, 300)))
    return Watermark(
        lower, upper, tuple(MarkedSegment(3 << 32 | at, each, 7 * at) for at, each in enumerate(ranges))
    )


@pytest.mark.parametrize("vector", VECTORS)
def test_the_bytes_are_those_of_other_controllers(vector):
    assert encode_watermark(watermark_of(vector)).hex() == vector["hex"]
    assert decode_watermark(bytes.fromhex(vector["hex"])) == watermark_of(vector)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("segments", "count"), [(127, "7f"), (128, "8080"), (16383, "bfff"), (16384, "c0004000")]
)
def test_the_number_of_segments_is_a_compact_int(segments, count):
    cut = tuple(MarkedSegment(at, each, 0) for at, each in enumerate(split_evenly(FULL_RANGE, segments)))
    data = encode_watermark(Watermark(1, 1, cut))
    assert data[24:].hex().startswith(count + "0000010000000018")
    assert int.from_bytes(data[4:8], "big") == len(data) - 8
    assert decode_watermark(data).cut == cut


@given(watermarks())
def test_what_was_encoded_is_decoded(watermark):
    assert decode_watermark(encode_watermark(watermark)) == watermark


@given(st.lists(watermarks(), max_size=4), st.integers(0, 100))
def test_a_mark_stream_is_split_at_its_events_and_an_incomplete_one_is_left(marks, missing):
    data = b"".join(frame_watermark(each) for each in marks)
    whole = list(split_marks(data))
    assert [decode_watermark(payload) for _, payload in whole] == marks
    assert [end for end, _ in whole[-1:]] == [len(data)] * bool(marks)
    part = data[: max(0, len(data) - 1 - missing)]
    assert list(split_marks(part)) == [each for each in whole if each[0] <= len(part)]


@given(watermarks(), st.data())
def test_damaged_bytes_are_refused_or_read_as_something(watermark, data):
    raw = bytearray(encode_watermark(watermark))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(DataCorruptionError):
        decode_watermark(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


@pytest.mark.parametrize(
    "data", [b"\x00\x00\x00\x01\x00\x00\x00\x00", b"\x00\x00\x00\x00\x7f\xff\xff\xff", b"\xff" * 8]
)
def test_bytes_that_are_no_events_are_refused(data):
    with pytest.raises(DataCorruptionError):
        list(split_marks(data))


def test_times_out_of_order_are_refused():
    with pytest.raises(DataCorruptionError):
        decode_watermark(encode_watermark(Watermark(2, 1, ())))
