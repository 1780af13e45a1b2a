"""Random histories: scales and rolls of every shape, judged key by key."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.policies.scale_request import check_ranges, plan_scale
from headrace.controller.store.rows.stream_row import ScalePlan, StreamRow, StreamState
from headrace.controller.streams.cuts import (
    check_cut,
    is_valid_cut,
    later_of,
    positions,
    relate,
    segments_before,
    segments_between,
)
from headrace.controller.streams.epochs import EpochHistory, duplicated_epoch, first_epoch, scaled_epoch
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.policies import StreamConfiguration
from headrace.model.stream_cut import Relation
from tests.effort import examples

KEYS = [index / 97 for index in range(97)]


@st.composite
def histories(draw):
    """Draw a history of up to six changes, some of them rolls."""
    history = EpochHistory([first_epoch(draw(st.integers(1, 4)), draw(st.integers(0, 3)), 1000)])
    for _ in range(draw(st.integers(0, 6))):
        active = history.records[-1]
        if len(history.records) > 1 and draw(st.booleans()):
            original = history.records[draw(st.integers(0, active.epoch))]
            history.extend(duplicated_epoch(original, active.epoch + 1, active.created_ms + 1))
            history.extend(duplicated_epoch(active, active.epoch + 2, active.created_ms + 2))
        else:
            history.extend(scaled_epoch(active, draw(scales(active))))
    return history


@st.composite
def scales(draw, active):
    first = draw(st.integers(0, len(active.segments) - 1))
    last = draw(st.integers(first, min(first + 2, len(active.segments) - 1)))
    sealed = active.segments[first : last + 1]
    low, high = sealed[0].key_range.low, sealed[-1].key_range.high
    inner = draw(st.lists(st.integers(1, 15), max_size=3, unique=True))
    bounds = sorted({low, high} | {low + (high - low) * each / 16 for each in inner})
    ranges = tuple(KeyRange(left, right) for left, right in pairwise(bounds))
    return ScalePlan(active.epoch, tuple(segment.segment_id for segment in sealed), ranges, 0)


def chain(history, key):
    """Return the segments that hold the key's data, in the order readers meet them."""
    found = []
    for record in history.records:
        (segment,) = [each for each in record.segments if each.key_range.contains(key)]
        if not found or found[-1] is not segment.segment_id:
            found.append(segment.segment_id)
    return list(dict.fromkeys(found))


@st.composite
def reader_cuts(draw, history):
    """Draw a position that a reader of the whole stream can be in: segment by segment, in order."""
    active = {segment.segment_id for segment in history.records[0].segments}
    finished = set()
    for _ in range(draw(st.integers(0, 12))):
        if not active:
            break
        done = draw(st.sampled_from(sorted(active)))
        followers = history.successors(done)
        if not followers:
            continue
        finished.add(done)
        active.discard(done)
        for follower in followers:
            if set(follower.predecessors) <= finished:
                active.add(follower.segment.segment_id)
    cut = {segment: draw(st.integers(0, 3)) for segment in active}
    for done in finished:
        for follower in history.successors(done):
            if not set(follower.predecessors) <= finished:
                cut[follower.segment.segment_id] = -1
    return cut


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
    cut = data.draw(reader_cuts(history))
    check_cut(history, cut)


@given(st.data())
@settings(max_examples=examples(200))
def test_the_later_of_a_head_and_the_tail_of_an_epoch_is_a_valid_cut_behind_both(data):
    history = data.draw(histories())
    epoch = data.draw(st.sampled_from(history.records))
    cut = {segment_id: data.draw(st.integers(0, 3)) for segment_id in epoch.segment_ids()}
    head = data.draw(reader_cuts(history))
    later = later_of(history, cut, head)
    check_cut(history, later)
    assert relate(history, later, cut) is Relation.EQUAL_OR_AFTER
    assert relate(history, later, head) is Relation.EQUAL_OR_AFTER
    for key in KEYS[::16]:
        at = [
            next(
                (piece.segment_id, each[piece.segment_id])
                for piece in positions(history, each)
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
    for piece in positions(history, cut):
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


@given(st.data())
@settings(max_examples=examples(200))
def test_cuts_relate_as_their_positions_do_at_every_key(data):
    history = data.draw(histories())
    one, other = data.draw(reader_cuts(history)), data.draw(reader_cuts(history))

    def at(cut, key):
        (piece,) = [each for each in positions(history, cut) if each.key_range.contains(key)]
        return piece.segment_id, cut[piece.segment_id]

    bounds = {piece.key_range.low for cut in (one, other) for piece in positions(history, cut)}
    smaller = [at(one, key) < at(other, key) for key in sorted(bounds)]
    expected = (
        Relation.BEFORE if all(smaller) else Relation.OVERLAPS if any(smaller) else Relation.EQUAL_OR_AFTER
    )
    assert relate(history, one, other) is expected
    assert relate(history, one, one) is Relation.EQUAL_OR_AFTER


@given(st.data())
@settings(max_examples=examples(200))
def test_between_two_positions_lie_exactly_the_segments_a_reader_meets(data):
    history = data.draw(histories())
    lower, upper = data.draw(reader_cuts(history)), data.draw(reader_cuts(history))
    if relate(history, upper, lower) is not Relation.EQUAL_OR_AFTER:
        return
    between = set(segments_between(history, lower, upper))
    for key in KEYS[::8]:
        held = chain(history, key)
        (start,) = [p.segment_id for p in positions(history, lower) if p.key_range.contains(key)]
        (end,) = [p.segment_id for p in positions(history, upper) if p.key_range.contains(key)]
        assert {segment for segment in held if start <= segment <= end} <= between | {
            segment for segment in held if segment in lower or segment in upper
        }


@given(histories(), st.dictionaries(st.integers(0, 20), st.integers(-1, 5), max_size=6))
def test_no_cut_however_strange_breaks_the_checks(history, cut):
    if is_valid_cut(history, cut):
        segments_before(history, cut)
        relate(history, cut, cut)
    else:
        with pytest.raises(InvalidArgumentError):
            check_cut(history, cut)


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
