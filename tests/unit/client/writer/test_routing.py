import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.writer.places import choose_places, resolve_places, slice_places
from headrace.client.writer.routing import (
    KNOWN_KEYS_MAX,
    KeyPositions,
    SpreadPositions,
    checked_keys,
    key_positions,
)
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import key_position

KEYS = st.lists(st.text(max_size=45), max_size=30)


@given(KEYS)
def test_columns_and_lists_of_keys_lie_where_single_keys_lie(keys):
    expected = [key_position(key) for key in keys]
    assert list(key_positions(keys)) == expected
    assert list(key_positions(pa.array(keys, pa.string()))) == expected
    assert list(key_positions(pa.array(keys, pa.large_string()).dictionary_encode())) == expected


@pytest.mark.slow
@pytest.mark.parametrize("alphabet", ["abc019-", "aé日😀"])
def test_many_distinct_keys_are_hashed_together_with_the_same_result(alphabet):
    keys = [alphabet[n % len(alphabet)] * (n % 37) + str(n) for n in range(2000)]
    expected = [key_position(key) for key in keys]
    assert list(key_positions(keys)) == expected
    assert list(key_positions(pa.array(keys))) == expected
    chunks = pa.chunked_array([pa.array(keys[:7]), pa.array(keys[7:])])
    assert list(key_positions(chunks)) == expected


def test_lone_surrogates_are_keys_like_any_other():
    keys = ["\ud83d"] + [f"\ude00{n}" for n in range(1000)]
    assert list(key_positions(keys)) == [key_position(key) for key in keys]


@pytest.mark.parametrize("keys", [[None], ["a", 5], [b"a"], pa.array(["a", None])])
def test_what_is_no_key_is_refused(keys):
    with pytest.raises(InvalidArgumentError):
        checked_keys(keys)


def test_events_without_a_key_are_spread_evenly_and_repeatably():
    one, many = SpreadPositions(b"12345678"), SpreadPositions(b"12345678")
    positions = [one.next() for _ in range(1000)]
    assert list(many.many(1000)) == positions
    assert one.next() == many.next()
    for quarter in range(4):
        assert 230 < sum(quarter / 4 <= position < (quarter + 1) / 4 for position in positions) < 270


def test_places_are_resolved_whatever_their_form():
    spread = SpreadPositions(b"12345678")
    assert resolve_places(0.25, 3, spread) == 0.25
    assert resolve_places("key", 3, spread) == key_position("key")
    assert len(resolve_places(None, 3, spread)) == 3
    mixed = resolve_places(["key", 0.5, None], 3, spread)
    assert mixed[:2] == [key_position("key"), 0.5]
    assert 0.0 <= mixed[2] < 1.0
    assert list(resolve_places(pa.array(["key"]), 1, spread)) == [key_position("key")]


def test_parts_of_places_follow_their_events():
    for same in (None, 0.5, "key"):
        assert slice_places(same, 1, 2) == same
        assert choose_places(same, [1]) == same
    assert slice_places(["a", "b", "c"], 1, 3) == ["b", "c"]
    assert choose_places(["a", "b", "c"], [0, 2]) == ["a", "c"]


@pytest.mark.parametrize("count", [3, 2_000])
def test_remembered_places_are_those_of_fresh_keys(count):
    remembered = KeyPositions()
    keys = [f"key-{number % 700}" for number in range(count)]
    for extra in ("", "é" * 300, "new"):
        mixed = [*keys, extra]
        assert list(remembered.of(mixed)) == [key_position(key) for key in mixed]
        assert list(remembered.of(tuple(mixed))) == [key_position(key) for key in mixed]


@pytest.mark.slow
def test_remembered_keys_are_bounded():
    remembered = KeyPositions()
    for first in range(0, 3 * KNOWN_KEYS_MAX, KNOWN_KEYS_MAX // 4):
        remembered.of([str(number) for number in range(first, first + KNOWN_KEYS_MAX // 4)])
        assert len(remembered._known) <= KNOWN_KEYS_MAX


@pytest.mark.parametrize("keys", [["a", None], ["a", 1], ["a", ["b"]]])
def test_what_is_no_key_is_refused_beside_remembered_ones(keys):
    remembered = KeyPositions()
    remembered.of(["a"])
    with pytest.raises(InvalidArgumentError):
        remembered.of(keys)
