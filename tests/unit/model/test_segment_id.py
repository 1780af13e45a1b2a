import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.model.segment_id import make_segment_id, parse_segment_id, segment_id_text

PARTS = st.integers(0, (1 << 31) - 1)


@given(PARTS, PARTS)
def test_an_id_is_read_back_from_both_of_its_texts(number, epoch):
    segment_id = make_segment_id(number, epoch)
    assert segment_id_text(segment_id) == f"{number}#{epoch}"
    assert parse_segment_id(segment_id_text(segment_id)) == segment_id
    assert parse_segment_id(str(segment_id)) == segment_id


@pytest.mark.parametrize(
    "text",
    [
        *("", "#", "1#", "#1", "-1", "+1", "1#-1", "1.#epoch.0", "a", "1#2#3", "1 ", "1\n", "¹"),
        *(f"{1 << 31}#0", f"0#{1 << 31}", str(1 << 31), str(1 << 63), str(1 << 100)),
    ],
)
def test_what_is_no_segment_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="is no segment"):
        parse_segment_id(text)
