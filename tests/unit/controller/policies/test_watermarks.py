"""Watermarks of random marks at random places of random histories, judged key by key."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.policies.watermarks import judge_writers, newest_epoch, next_watermark
from headrace.controller.store.rows.marks_row import WriterMark
from headrace.controller.streams.epochs import first_epoch
from headrace.model.key_space import KeyRange, covers_key_space
from headrace.model.segment_id import make_segment_id
from headrace.model.watermark import MarkedSegment, Watermark
from tests.effort import examples
from tests.unit.controller.streams.drawn_histories import KEYS, histories
from tests.unit.controller.streams.history_model import EpochHistory

NONE = {}
UNKNOWN = make_segment_id(7, 900)


def judge(marks, last=None, idle_since=NONE, timeout_ms=0, now_ms=1000):
    return judge_writers(marks, last, idle_since, timeout_ms=timeout_ms, now_ms=now_ms)


def mark(time, position=((0, 0),), *, alive=True):
    return WriterMark(time, tuple(position), alive)


def make(marks, last, history):
    named = {segment_id for each in marks.values() for segment_id, _ in each.position}
    found = [history.find_segment(segment_id) for segment_id in named]
    ranges = {each.segment_id: each.key_range for each in found if each is not None}
    newest = history.find_epoch(newest_epoch(marks.values(), last, ranges))
    return next_watermark(marks, last, ranges, newest.segments)


AT_TEN = Watermark(10, 20, (MarkedSegment(0, KeyRange(0.0, 1.0), 5),))


# ---------------------------------------------------------------------------------- who is waited for


def test_without_a_watermark_every_writer_participates():
    judged = judge({"a": mark(-5), "b": mark(3)})
    assert set(judged.contributors) == {"a", "b"}
    assert not judged.evicted


def test_a_writer_that_has_not_gone_on_is_evicted_at_once_without_a_timeout():
    judged = judge({"a": mark(10), "b": mark(11)}, AT_TEN)
    assert judged.evicted == {"a": mark(10)}
    assert set(judged.contributors) == {"b"}


def test_a_writer_that_has_not_gone_on_is_waited_for_as_long_as_the_stream_says():
    marks = {"a": mark(10), "b": mark(11)}
    first = judge(marks, AT_TEN, timeout_ms=100, now_ms=1000)
    assert first.idle_since == {"a": 1000}
    assert not first.contributors
    assert not first.evicted
    later = judge(marks, AT_TEN, first.idle_since, timeout_ms=100, now_ms=1099)
    assert later.idle_since == {"a": 1000}
    assert not later.leaves
    end = judge(marks, AT_TEN, later.idle_since, timeout_ms=100, now_ms=1100)
    assert set(end.evicted) == {"a"}
    assert set(end.contributors) == {"b"}


def test_a_writer_that_goes_on_is_timed_anew_when_it_stops_again():
    first = judge({"a": mark(10)}, AT_TEN, timeout_ms=100, now_ms=1000)
    again = judge({"a": mark(11)}, AT_TEN, first.idle_since, timeout_ms=100, now_ms=1050)
    assert again.idle_since == {}
    assert set(again.contributors) == {"a"}


def test_a_clock_that_goes_back_waits_no_longer_than_the_timeout():
    judged = judge({"a": mark(10)}, AT_TEN, {"a": 5000}, timeout_ms=100, now_ms=1000)
    assert judged.idle_since == {"a": 1000}


def test_a_writer_that_was_shut_down_counts_until_the_watermark_has_reached_its_time():
    gone = mark(15, alive=False)
    assert set(judge({"a": gone, "b": mark(12)}, AT_TEN, timeout_ms=9).contributors) == {"a", "b"}
    at_fifteen = Watermark(15, 20, AT_TEN.cut)
    judged = judge({"a": gone, "b": mark(16)}, at_fifteen, timeout_ms=9)
    assert set(judged.evicted) == {"a"}
    assert set(judged.contributors) == {"b"}


def test_a_stream_without_writers_leaves():
    assert judge({}).leaves
    assert judge({"a": mark(10)}, AT_TEN).leaves
    assert not judge({"a": mark(10)}, AT_TEN, timeout_ms=1).leaves
    assert not judge({"a": mark(11)}, AT_TEN).leaves


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.builds(WriterMark, st.integers(5, 15), st.just(((0, 0),)), st.booleans()),
    ),
    st.dictionaries(st.sampled_from("abcd"), st.integers(900, 1100)),
    st.integers(0, 200),
)
def test_every_writer_is_evicted_waited_for_or_counted(marks, idle_since, timeout_ms):
    judged = judge(marks, AT_TEN, idle_since, timeout_ms=timeout_ms)
    participating = {name for name, each in marks.items() if each.time > AT_TEN.lower}
    assert not participating & (set(judged.evicted) | set(judged.idle_since))
    assert set(judged.evicted) | set(judged.idle_since) | participating == set(marks)
    assert not set(judged.evicted) & set(judged.idle_since)
    assert set(judged.contributors) == (set() if judged.idle_since else participating)


# ---------------------------------------------------------------------------------- the watermark


def test_times_are_the_least_and_the_greatest_and_places_are_the_furthest():
    history = EpochHistory([first_epoch(2, 0, 0)])
    made = make({"a": mark(7, ((0, 10), (1, 3))), "b": mark(9, ((0, 4), (1, 8)))}, None, history)
    assert (made.lower, made.upper) == (7, 9)
    assert made.offsets() == {0: 10, 1: 8}


def test_a_segment_that_a_writer_has_not_written_to_counts_from_its_start():
    history = EpochHistory([first_epoch(2, 0, 0)])
    assert make({"a": mark(7, ((0, -1), (1, 3)))}, None, history).offsets() == {0: 0, 1: 3}


def test_writers_without_a_place_leave_the_cut_where_it_was():
    history = EpochHistory([first_epoch(1, 0, 0)])
    assert make({"a": mark(7, ())}, None, history).offsets() == {0: 0}
    assert make({"a": mark(17, ())}, AT_TEN, history).offsets() == {0: 5}


def test_a_segment_that_the_stream_never_had_says_nothing():
    history = EpochHistory([first_epoch(2, 0, 0)])
    assert make({"a": mark(7, ((UNKNOWN, 99), (1, 3)))}, None, history).offsets() == {0: 0, 1: 3}


@st.composite
def rounds(draw):
    """Draw a history, and marks of some writers in each of some rounds, each seeing more of it."""
    history = draw(histories())
    seen = sorted(draw(st.lists(st.integers(0, history.last_epoch), min_size=1, max_size=4)))
    drawn = []
    for epoch in seen:
        visible = EpochHistory(history.records[: epoch + 1])
        ids = [each.segment_id for each in visible.segments()]
        position = st.dictionaries(st.sampled_from([*ids, UNKNOWN]), st.integers(-1, 20), max_size=4)
        drawn.append((visible, draw(st.lists(position, min_size=1, max_size=3))))
    return drawn


def lies_behind(cut, history, segment_id, offset):
    """Whether, for every key of the segment, the cut is at or behind the offset."""
    key_range = history.find_segment(segment_id).key_range
    for key in KEYS:
        if not key_range.contains(key):
            continue
        (mine,) = [each for each in cut if each.key_range.contains(key)]
        if mine.segment_id == segment_id and mine.offset < offset:
            return False
        if mine.segment_id < segment_id:
            return False
    return True


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(rounds())
def test_a_watermark_owns_every_key_lies_behind_every_position_and_never_goes_back(drawn):
    last = None
    for number, (history, positions) in enumerate(drawn):
        marks = {
            str(index): mark(number * 10 + index, sorted(position.items()))
            for index, position in enumerate(positions)
        }
        made = make(marks, last, history)
        assert covers_key_space(each.key_range for each in made.cut)
        for each in made.cut:
            assert history.find_segment(each.segment_id).key_range == each.key_range
            assert each.offset >= 0
        for position in positions:
            for segment_id, offset in position.items():
                if segment_id != UNKNOWN:
                    assert lies_behind(made.cut, history, segment_id, offset)
        if last is not None:
            assert made.lower > last.lower
            for each in last.cut:
                assert lies_behind(made.cut, history, each.segment_id, each.offset)
        last = made
