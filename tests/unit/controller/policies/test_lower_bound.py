"""The lower bound against a model: at every key, the least of what was reported."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.policies.lower_bound import LowerBound
from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.streams.cuts import positions, relate_cuts
from headrace.model.key_space import KeyRange
from headrace.model.stream_cut import Relation
from tests.effort import examples
from tests.unit.controller.streams.drawn_histories import KEYS, histories, reader_cuts
from tests.unit.controller.streams.history_model import place

RANGES = {
    0: (0.0, 1.0),
    1: (0.0, 0.5),
    2: (0.5, 1.0),
    3: (0.25, 0.75),
    4: (0.0, 1.0),
}


def find(segment_id):
    found = RANGES.get(segment_id)
    return found and SegmentRecord(segment_id, 0, KeyRange(*found))


def bound_of(*cuts):
    bound = LowerBound(find)
    for cut in cuts:
        bound.include(cut)
    return bound.offsets


def test_without_reports_there_is_no_bound():
    assert bound_of() == {}
    assert bound_of({}) == {}


def test_of_one_segment_the_smaller_offset_counts():
    assert bound_of({1: 5, 2: 7}, {1: 9, 2: 3}) == {1: 5, 2: 3}
    assert bound_of({1: 5, 2: 7}, {1: -1, 2: 8}) == {1: -1, 2: 7}


def test_older_segments_take_the_place_of_younger_ones_they_overlap():
    assert bound_of({4: 10}, {1: 5, 2: 7}) == {1: 5, 2: 7}
    assert bound_of({1: 5, 2: 7}, {4: 10}) == {1: 5, 2: 7}
    assert bound_of({1: 5, 2: 7}, {0: 3}) == {0: 3}


def test_a_future_segment_stays_while_older_ones_do_not_cover_it():
    assert bound_of({1: 5, 4: -1}) == {1: 5, 4: -1}
    assert bound_of({1: 5, 4: -1}, {1: 6, 2: 1}) == {1: 5, 2: 1}
    assert bound_of({1: 6, 2: 1}, {1: 5, 4: -1}) == {1: 5, 2: 1}
    assert bound_of({4: 3}, {1: 5, 4: -1}) == {1: 5, 4: -1}


def test_segments_that_never_were_are_ignored():
    assert bound_of({1: 5, 2: 7, 99: 1}) == {1: 5, 2: 7}


def places(history, cut):
    """Return (segment, offset) at each of the keys."""
    pieces = positions(place(history, cut))
    return [
        next((each.segment_id, cut[each.segment_id]) for each in pieces if each.key_range.contains(key))
        for key in KEYS
    ]


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.data())
def test_at_every_key_it_is_the_least_position_in_any_order(data):
    history = data.draw(histories())
    cuts = data.draw(st.lists(reader_cuts(history), min_size=1, max_size=4))
    bounds = []
    for ordered in (cuts, cuts[::-1]):
        bound = LowerBound(history.find_segment)
        for cut in ordered:
            bound.include(cut)
        bounds.append(bound.offsets)
    assert places(history, bounds[0]) == places(history, bounds[1])
    for cut in cuts:
        assert relate_cuts(place(history, cut), place(history, bounds[0])) is Relation.EQUAL_OR_AFTER
    least = [min(each) for each in zip(*(places(history, cut) for cut in cuts), strict=True)]
    assert places(history, bounds[0]) == least
