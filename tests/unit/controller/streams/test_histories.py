"""Random histories: scales and rolls of every shape, judged key by key."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.policies.scale_request import check_ranges, plan_scale
from headrace.controller.store.rows.stream_row import StreamRow, StreamState
from headrace.controller.streams.cuts import later_of, positions, relate_cuts
from headrace.controller.streams.epochs import scaled_epoch
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.policies import StreamConfiguration
from headrace.model.stream_cut import Relation
from tests.effort import examples
from tests.unit.controller.streams.drawn_histories import KEYS, chain, histories, reader_cuts, scales
from tests.unit.controller.streams.history_model import before as segments_before
from tests.unit.controller.streams.history_model import between as segments_between
from tests.unit.controller.streams.history_model import is_valid, place


@given(histories())
def test_every_epoch_divides_the_key_space_and_numbers_grow_with_scales(history):
    history.check()


@given(histories())
def test_following_successors_meets_every_segment_of_a_key_in_order(history):
    for key in KEYS[::16]:
        expected = chain(history, key)
        met = [expected[0]]
        while True:
            after = [
                each.segment.segment_id
                for each in history.successors(met[-1])
                if each.segment.key_range.contains(key)
            ]
            if not after:
                break
            assert len(after) == 1
            met.append(after[0])
        assert met == expected
        assert met == sorted(met)


@given(histories())
def test_predecessors_and_successors_mirror_each_other(history):
    for segment in history.segments():
        for follower in history.successors(segment.segment_id):
            assert segment.segment_id in follower.predecessors
            for before in follower.predecessors:
                named = [each.segment.segment_id for each in history.successors(before)]
                assert follower.segment.segment_id in named


@given(st.data())
@settings(max_examples=examples(200))
def test_every_position_of_a_reader_is_a_valid_cut(data):
    history = data.draw(histories())
    assert is_valid(history, data.draw(reader_cuts(history)))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(200))
def test_the_later_of_a_head_and_the_tail_of_an_epoch_is_a_valid_cut_behind_both(data):
    history = data.draw(histories())
    epoch = data.draw(st.sampled_from(history.records))
    cut = {segment_id: data.draw(st.integers(0, 3)) for segment_id in epoch.segment_ids()}
    head = data.draw(reader_cuts(history))
    later = later_of(place(history, cut), place(history, head))
    assert is_valid(history, later)
    assert relate_cuts(place(history, later), place(history, cut)) is Relation.EQUAL_OR_AFTER
    assert relate_cuts(place(history, later), place(history, head)) is Relation.EQUAL_OR_AFTER
    for key in KEYS[::16]:
        at = [
            next(
                (piece.segment_id, each[piece.segment_id])
                for piece in positions(place(history, each))
                if piece.key_range.contains(key)
            )
            for each in (cut, head, later)
        ]
        assert at[2] == max(at[:2])


@given(st.data())
@settings(max_examples=examples(200))
def test_nothing_before_a_readers_position_is_needed_any_more(data):
    history = data.draw(histories())
    cut = data.draw(reader_cuts(history))
    before = segments_before(history, cut)
    at = {}
    for piece in positions(place(history, cut)):
        for key in KEYS[::8]:
            if piece.key_range.contains(key):
                assert key not in at
                at[key] = piece.segment_id
    for key, present in at.items():
        for segment in chain(history, key):
            assert (segment in before) <= (segment < present)
    # And what is behind everywhere is not kept.
    for segment in history.segments():
        keys = [key for key in KEYS[::8] if segment.key_range.contains(key)]
        if keys and segment.segment_id not in cut:
            behind_everywhere = all(segment.segment_id < at[key] for key in keys)
            assert (segment.segment_id in before) <= behind_everywhere


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(200))
def test_cuts_relate_as_their_positions_do_at_every_key(data):
    history = data.draw(histories())
    one, other = data.draw(reader_cuts(history)), data.draw(reader_cuts(history))

    def at(cut, key):
        (piece,) = [each for each in positions(place(history, cut)) if each.key_range.contains(key)]
        return piece.segment_id, cut[piece.segment_id]

    bounds = {piece.key_range.low for cut in (one, other) for piece in positions(place(history, cut))}
    smaller = [at(one, key) < at(other, key) for key in sorted(bounds)]
    expected = (
        Relation.BEFORE if all(smaller) else Relation.OVERLAPS if any(smaller) else Relation.EQUAL_OR_AFTER
    )
    assert relate_cuts(place(history, one), place(history, other)) is expected
    assert relate_cuts(place(history, one), place(history, one)) is Relation.EQUAL_OR_AFTER


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(200))
def test_between_two_positions_lie_exactly_the_segments_a_reader_meets(data):
    history = data.draw(histories())
    lower, upper = data.draw(reader_cuts(history)), data.draw(reader_cuts(history))
    if relate_cuts(place(history, upper), place(history, lower)) is not Relation.EQUAL_OR_AFTER:
        return
    between = set(segments_between(history, lower, upper))
    for key in KEYS[::8]:
        held = chain(history, key)
        (start,) = [p.segment_id for p in positions(place(history, lower)) if p.key_range.contains(key)]
        (end,) = [p.segment_id for p in positions(place(history, upper)) if p.key_range.contains(key)]
        assert {segment for segment in held if start <= segment <= end} <= between | {
            segment for segment in held if segment in lower or segment in upper
        }


@given(histories(), st.data())
def test_a_legal_scale_is_planned_and_leads_to_a_whole_epoch(history, data):
    active = history.records[-1]
    plan = data.draw(scales(active))
    row = StreamRow(bytes(16), 0, StreamState.ACTIVE, StreamConfiguration(), active)
    accepted = plan_scale(row, plan.sealed, plan.ranges, 5)
    scaled_epoch(active, accepted).check()


@given(
    st.lists(st.tuples(st.floats(), st.floats()), max_size=5),
    st.lists(st.tuples(st.floats(), st.floats()), max_size=5),
)
def test_ranges_that_are_no_ranges_are_refused_and_nothing_else_happens(old, new):
    old = [KeyRange(low, high) for low, high in old]
    try:
        check_ranges(old, [KeyRange(low, high) for low, high in new])
    except InvalidArgumentError:
        return
    assert all(0.0 <= low < high <= 1.0 for low, high in new)
