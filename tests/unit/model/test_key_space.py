import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.hashing import SEED_ROUTING_KEY, SEED_TABLE_KEY, murmur3
from headrace.model.key_space import (
    FULL_RANGE,
    KeyRange,
    any_overlap,
    covers_key_space,
    hash_to_position,
    join_touching,
    key_position,
    split_evenly,
    table_key_position,
)

VECTORS = json.loads(
    (Path(__file__).parents[2] / "golden" / "key_space" / "v1" / "vectors.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("vector", VECTORS["event_routing"], ids=lambda v: ascii(v["key"]))
def test_a_routing_key_lies_where_every_other_client_puts_it(vector):
    assert key_position(vector["key"]) == vector["position"]
    if vector["h1"] is not None:
        word = murmur3(vector["key"].encode("utf-16-le"), SEED_ROUTING_KEY)[0]
        assert f"{word:016x}" == vector["h1"]
    receivers = [part.receives(vector["position"]) for part in split_evenly(FULL_RANGE, 4)]
    assert receivers == [number == vector["quarter"] for number in range(4)]


@pytest.mark.parametrize("vector", VECTORS["table_partition"], ids=lambda v: v["key_hex"])
def test_a_table_key_lies_where_every_other_client_puts_it(vector):
    raw = bytes.fromhex(vector["key_hex"])
    assert table_key_position(raw) == vector["position"]
    assert f"{murmur3(raw, SEED_TABLE_KEY)[0]:016x}" == vector["h1"]


def test_positions_stay_below_one_and_reach_zero():
    assert hash_to_position((1 << 64) - 1) < 1.0
    assert hash_to_position(0) == 0.0
    assert hash_to_position(0xFFF) == 0.0


def test_an_unpaired_surrogate_is_a_key_like_any_other():
    assert 0.0 <= key_position("\ud83d") < 1.0


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


@given(st.integers(1, 500), st.floats(0, 1))
def test_every_position_has_exactly_one_receiver(count, position):
    assert sum(part.receives(position) for part in split_evenly(FULL_RANGE, count)) == 1


@given(st.integers(2, 40), st.integers(2, 9), st.data())
def test_splitting_and_joining_gives_the_range_back(count, pieces, data):
    ranges = split_evenly(FULL_RANGE, count)
    chosen = data.draw(st.integers(0, count - 1))
    parts = split_evenly(ranges[chosen], pieces)
    assert join_touching(parts) == [ranges[chosen]]
    assert covers_key_space(ranges[:chosen] + parts + ranges[chosen + 1 :])


def test_ranges_touch_but_do_not_overlap():
    left, right = KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)
    assert not left.overlaps(right)
    assert left.overlaps(KeyRange(0.4, 0.6))
    assert FULL_RANGE.covers(left)
    assert not left.covers(FULL_RANGE)
    assert join_touching([right, left]) == [FULL_RANGE]
    assert covers_key_space([right, left])


def test_gaps_and_overlaps_do_not_cover():
    assert not covers_key_space([KeyRange(0.0, 0.5), KeyRange(0.6, 1.0)])
    assert not covers_key_space([KeyRange(0.0, 0.6), KeyRange(0.5, 1.0)])
    assert not covers_key_space([KeyRange(0.0, 0.5)])
    assert any_overlap([KeyRange(0.5, 1.0), KeyRange(0.0, 0.6)])
    assert not covers_key_space([])
