import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.key_space import (
    FULL_RANGE,
    KeyRange,
    any_overlap,
    covers_key_space,
    join_touching,
    key_position,
    split_evenly,
)


def test_even_ranges_share_bounds_and_end_exactly_at_one():
    for count in (*range(1, 300), 1999, 2000):
        ranges = split_evenly(FULL_RANGE, count)
        assert ranges[0].low == 0.0
        assert ranges[-1].high == 1.0
        assert all(left.high == right.low for left, right in itertools.pairwise(ranges))
        assert [piece.low for piece in ranges] == [index / count for index in range(count)]


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 50))
def test_every_position_is_in_exactly_one_even_range(position, count):
    assert sum(piece.contains(position) for piece in split_evenly(FULL_RANGE, count)) == 1


def test_a_known_routing_key_falls_where_clients_put_it():
    assert key_position("hello") == 0.658716230571337


def test_ranges_touch_but_do_not_overlap():
    left, right = KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)
    assert not left.overlaps(right)
    assert join_touching([right, left]) == [FULL_RANGE]
    assert covers_key_space([right, left])


def test_gaps_and_overlaps_do_not_cover():
    assert not covers_key_space([KeyRange(0.0, 0.5), KeyRange(0.6, 1.0)])
    assert not covers_key_space([KeyRange(0.0, 0.6), KeyRange(0.5, 1.0)])
    assert any_overlap([KeyRange(0.5, 1.0), KeyRange(0.0, 0.6)])
    assert not covers_key_space([])
