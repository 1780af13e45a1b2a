import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.segment_map import SegmentMap, SegmentRange, Successor
from headrace.errors import ProtocolError
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly


def four():
    return SegmentMap(SegmentRange(n, r) for n, r in enumerate(split_evenly(FULL_RANGE, 4)))


def table(segments):
    return dict(zip(segments.highs, segments.ids, strict=True))


MERGED = [Successor(4, KeyRange(0.25, 0.75), (1, 2))]


def test_a_split_replaces_one_range():
    segments = four()
    segments.replace(1, [Successor(4, KeyRange(0.25, 0.375), (1,)), Successor(5, KeyRange(0.375, 0.5), (1,))])
    assert table(segments) == {0.25: 0, 0.375: 4, 0.5: 5, 0.75: 2, 1.0: 3}


def test_a_merge_takes_over_half_by_half():
    segments = four()
    segments.replace(1, MERGED)
    assert table(segments) == {0.25: 0, 0.5: 4, 0.75: 2, 1.0: 3}
    segments.replace(2, MERGED)
    assert table(segments) == {0.25: 0, 0.75: 4, 1.0: 3}


def test_a_merge_may_be_seen_from_its_upper_half_first():
    segments = four()
    segments.replace(2, MERGED)
    assert table(segments) == {0.25: 0, 0.5: 1, 0.75: 4, 1.0: 3}
    segments.replace(1, MERGED)
    assert table(segments) == {0.25: 0, 0.75: 4, 1.0: 3}


def test_a_merged_segment_may_be_split_before_its_other_half_is_known_to_be_sealed():
    segments = four()
    segments.replace(1, MERGED)
    halves = [Successor(5, KeyRange(0.25, 0.4), (4,)), Successor(6, KeyRange(0.4, 0.75), (4,))]
    segments.replace(4, halves)
    assert table(segments) == {0.25: 0, 0.4: 5, 0.5: 6, 0.75: 2, 1.0: 3}
    segments.replace(2, MERGED)
    segments.replace(4, halves)
    assert table(segments) == {0.25: 0, 0.4: 5, 0.75: 6, 1.0: 3}


@pytest.mark.parametrize(
    "successors",
    [
        [],
        [Successor(4, KeyRange(0.25, 0.5), (2,))],
        [Successor(4, KeyRange(0.3, 0.5), (1,))],
        [Successor(4, KeyRange(0.25, 0.3), (1,)), Successor(5, KeyRange(0.4, 0.5), (1,))],
    ],
)
def test_successors_that_do_not_continue_the_segment_change_nothing(successors):
    segments = four()
    with pytest.raises(ProtocolError):
        segments.replace(1, successors)
    assert table(segments) == table(four())


def test_a_segment_that_is_not_current_cannot_be_replaced():
    with pytest.raises(ProtocolError):
        four().replace(9, [Successor(10, KeyRange(0.0, 1.0), (9,))])


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [KeyRange(0.0, 0.9)],
        [KeyRange(0.1, 1.0)],
        [KeyRange(0.0, 0.5), KeyRange(0.6, 1.0)],
        [KeyRange(0.0, 0.6), KeyRange(0.5, 1.0)],
    ],
)
def test_segments_that_do_not_cover_the_key_space_are_no_map(ranges):
    with pytest.raises(ProtocolError):
        SegmentMap(SegmentRange(n, r) for n, r in enumerate(ranges))


def test_a_position_on_a_bound_belongs_to_the_range_below_it():
    segments = four()
    assert [segments.segment_at(position) for position in (0.0, 0.25, 0.2500001, 1.0)] == [0, 0, 1, 3]


@given(st.lists(st.floats(0, 1, exclude_max=True), max_size=50), st.integers(1, 9))
def test_many_positions_go_where_each_of_them_goes(positions, count):
    import numpy as np

    segments = SegmentMap(SegmentRange(n, r) for n, r in enumerate(split_evenly(FULL_RANGE, count)))
    expected = {}
    for index, position in enumerate(positions):
        expected.setdefault(segments.segment_at(position), []).append(index)
    if not positions:
        return
    for given_as in (positions, np.array(positions)):
        targets = segments.targets(given_as)
        if isinstance(targets, int):
            assert list(expected) == [targets]
        else:
            assert {each: list(chosen) for each, chosen in targets} == expected


@given(st.integers(0, 1 << 32))
def test_a_map_that_follows_seals_in_any_order_ends_with_the_newest_segments(seed):
    chance = random.Random(seed)
    current = dict(enumerate(split_evenly(FULL_RANGE, chance.randrange(1, 5))))
    segments = SegmentMap(SegmentRange(n, r) for n, r in current.items())
    history = {}
    number = len(current)
    for _ in range(6):
        ordered = sorted(current.items(), key=lambda item: item[1])
        at = chance.randrange(len(ordered))
        chosen = ordered[at : at + chance.randrange(1, len(ordered) - at + 1)]
        whole = KeyRange(chosen[0][1].low, chosen[-1][1].high)
        made = {number + n: r for n, r in enumerate(split_evenly(whole, chance.randrange(1, 4)))}
        number += len(made)
        for segment_id, key_range in chosen:
            history[segment_id] = [
                Successor(each, r, tuple(p for p, pr in chosen if pr.overlaps(r)))
                for each, r in made.items()
                if r.overlaps(key_range)
            ]
            del current[segment_id]
        current |= made
    while stale := [each for each in segments.segments() if each in history]:
        sealed = chance.choice(stale)
        segments.replace(sealed, history[sealed])
        segments.check()
    assert dict(zip(segments.ids, segments.highs, strict=True)) == {e: r.high for e, r in current.items()}
