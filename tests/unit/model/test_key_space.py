import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.model.hashing import SEED_ROUTING_KEY, SEED_TABLE_KEY, murmur3
from headrace.model.key_space import (
    KeyRange,
    covers_exactly,
    hash_position,
    initial_ranges,
    join_touching,
    key_position,
    owner_index,
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
    assert owner_index([0.25, 0.5, 0.75, 1.0], vector["position"]) == vector["quarter"]


@pytest.mark.parametrize("vector", VECTORS["table_partition"], ids=lambda v: v["key_hex"])
def test_a_table_key_lies_where_every_other_client_puts_it(vector):
    raw = bytes.fromhex(vector["key_hex"])
    assert table_key_position(raw) == vector["position"]
    assert f"{murmur3(raw, SEED_TABLE_KEY)[0]:016x}" == vector["h1"]


def test_positions_stay_below_one_and_reach_zero():
    assert hash_position((1 << 64) - 1) < 1.0
    assert hash_position(0) == 0.0
    assert hash_position(0xFFF) == 0.0


def test_an_unpaired_surrogate_is_a_key_like_any_other():
    assert 0.0 <= key_position("\ud83d") < 1.0


@pytest.mark.parametrize("count", [1, 2, 49, 98, 103, 107, 161, 1999])
def test_initial_ranges_end_at_exactly_one_for_every_count(count):
    ranges = initial_ranges(count)
    assert len(ranges) == count
    assert ranges[-1].high == 1.0
    assert covers_exactly(ranges)


@given(st.integers(1, 500), st.floats(0, 1, exclude_max=True))
def test_every_position_has_exactly_one_owner_and_it_is_the_one_found(count, position):
    ranges = initial_ranges(count)
    owners = [index for index, part in enumerate(ranges) if part.owns(position)]
    assert owners == [owner_index([part.high for part in ranges], position)]


@given(st.integers(2, 40), st.integers(2, 9), st.data())
def test_splitting_and_joining_gives_the_range_back(count, pieces, data):
    ranges = initial_ranges(count)
    chosen = data.draw(st.integers(0, count - 1))
    parts = ranges[chosen].split(pieces)
    assert join_touching(parts) == [ranges[chosen]]
    assert covers_exactly(ranges[:chosen] + parts + ranges[chosen + 1 :])


def test_ranges_that_only_touch_do_not_overlap():
    assert not KeyRange(0.0, 0.5).overlaps(KeyRange(0.5, 1.0))
    assert KeyRange(0.0, 0.5).overlaps(KeyRange(0.4, 0.6))
    assert KeyRange(0.0, 1.0).covers(KeyRange(0.5, 1.0))


def test_a_gap_or_an_overlap_does_not_cover_the_key_space():
    assert not covers_exactly([KeyRange(0.0, 0.5), KeyRange(0.6, 1.0)])
    assert not covers_exactly([KeyRange(0.0, 0.5), KeyRange(0.4, 1.0)])
    assert not covers_exactly([KeyRange(0.0, 0.5)])
    assert not covers_exactly([])


@pytest.mark.parametrize(
    ("low", "high"), [(0.5, 0.5), (0.6, 0.5), (-0.1, 0.5), (0.5, 1.1), (float("nan"), 1.0)]
)
def test_an_impossible_range_is_refused(low, high):
    with pytest.raises(InvalidArgumentError):
        KeyRange(low, high)


def test_overlapping_ranges_cannot_be_joined():
    with pytest.raises(InvalidArgumentError):
        join_touching([KeyRange(0.0, 0.5), KeyRange(0.4, 1.0)])
