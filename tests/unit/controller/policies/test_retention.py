"""The table of retention: whole, and what it must never do."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.policies.retention import (
    LOWER_BOUND,
    BoundToMember,
    choose_bound,
    choose_unbound,
    limits,
    thinned,
)
from headrace.controller.streams.retention_sets import SetMember
from headrace.limits import INT64_MAX
from headrace.model.policies import RetentionKind, RetentionPolicy
from headrace.model.stream_cut import Relation
from tests.effort import examples

BEFORE, AFTER, OVERLAPS = Relation.BEFORE, Relation.EQUAL_OR_AFTER, Relation.OVERLAPS
NOW_MS = 10_000
SIZES = [SetMember(1000 * index, 100 * index) for index in range(11)]
"""Eleven cuts, one per second, with 100 bytes between two of them; the last one is of now."""


def relate(mine, theirs):
    """Compare two cuts of one and the same segments, given as tuples of offsets."""
    smaller = [a < b for a, b in zip(mine, theirs, strict=True)]
    return BEFORE if all(smaller) else OVERLAPS if any(smaller) else AFTER


def answered(asking, answer):
    """Run a choice; ``answer`` is asked each question."""
    try:
        question = next(asking)
        while True:
            question = asking.send(answer(question))
    except StopIteration as end:
        return end.value


def choose(members, policy, bound, cuts, *, retains=0, now_ms=NOW_MS):
    """Choose with cuts that are tuples of offsets."""

    def answer(question):
        cut = cuts[question.index]
        return relate(bound, cut) if isinstance(question, BoundToMember) else relate(cut, bound)

    return answered(choose_bound(members, policy, now_ms, retains), answer)


LINE = [(100 * index,) for index in range(11)]


def by_line(policy, position, members=SIZES):
    """Choose for a stream of one segment whose slowest subscriber is at ``position``."""
    return choose(members, policy, (position,), LINE, retains=members[-1].size_bytes - position)


# ---- nobody reports


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetentionPolicy.by_size(250), 7),
        (RetentionPolicy.by_size(300), 7),
        (RetentionPolicy.by_size(1), 9),
        (RetentionPolicy.by_size(1000), 0),
        (RetentionPolicy.by_size(1001), None),
        (RetentionPolicy.by_time(2500), 7),
        (RetentionPolicy.by_time(3000), 7),
        (RetentionPolicy.by_time(10_001), None),
        (RetentionPolicy.by_size(250, 260), 7),  # a maximum says nothing
    ],
)
def test_without_a_bound_the_most_recent_cut_that_retains_the_minimum_is_chosen(policy, expected):
    assert choose_unbound(SIZES, policy, NOW_MS) == expected


def test_an_empty_set_offers_nothing():
    assert choose_unbound([], RetentionPolicy.by_size(1), NOW_MS) is None
    assert choose_unbound([], RetentionPolicy.by_time(1), NOW_MS) is None


def test_the_maximum_is_the_oldest_cut_between_both_limits_or_else_the_minimum():
    assert limits(SIZES, RetentionPolicy.by_size(200, 550), NOW_MS).maximum == 5
    assert limits(SIZES, RetentionPolicy.by_size(250, 260), NOW_MS).maximum == 7
    assert limits(SIZES, RetentionPolicy.by_size(200), NOW_MS).maximum == 0
    assert limits(SIZES, RetentionPolicy(RetentionKind.NONE, 200, 0), NOW_MS).maximum == 0


# ---- by size


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (950, 7),  # less than the minimum lies behind the bound: the cut of the minimum lies before it
        (700, LOWER_BOUND),
        (550, LOWER_BOUND),
        (402, LOWER_BOUND),
        (401, 5),  # the maximum is reached: 599 lie behind the bound, 500 behind the cut
        (50, 5),
    ],
)
def test_by_size_with_a_bound(position, expected):
    assert by_line(RetentionPolicy.by_size(250, 599), position) == expected


def test_by_size_the_bound_wins_over_a_maximum_that_retains_more():
    policy = RetentionPolicy.by_size(850, 860)  # no cut in between: the minimum, which retains 900
    assert by_line(policy, 130) == LOWER_BOUND
    assert by_line(policy, 90) == 1


def test_by_size_without_a_maximum_the_bound_is_safe():
    assert by_line(RetentionPolicy.by_size(250), 0) == LOWER_BOUND


def test_by_size_without_a_cut_of_the_minimum():
    members, cuts = SIZES[8:], LINE[8:]
    assert choose(members, RetentionPolicy.by_size(500), (990,), cuts, retains=10) is None
    assert choose(members, RetentionPolicy.by_size(500, 600), (0,), cuts, retains=1000) == LOWER_BOUND


def test_by_size_a_cut_that_overlaps_the_bound_is_replaced_by_the_last_one_before_it():
    cuts = [(50 * index, 50 * index) for index in range(11)]
    # the bound is at 340 and 500: 160 bytes behind it; the minimum is cut 7 (350, 350)
    assert choose(SIZES, RetentionPolicy.by_size(250), (340, 500), cuts, retains=160) == 6
    assert choose(SIZES, RetentionPolicy.by_size(250), (-1, 500), cuts, retains=160) is None


# ---- by time


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (701, 7),
        (700, LOWER_BOUND),  # no cut has the maximum's age behind the bound
        (450, LOWER_BOUND),
        (400, LOWER_BOUND),
        (399, 5),  # 4 is 6 s old: more than the maximum is retained for the subscriber
        (0, 5),
    ],
)
def test_by_time_with_a_bound(position, expected):
    assert by_line(RetentionPolicy.by_time(2500, 5500), position) == expected


def test_by_time_without_a_maximum_the_bound_is_safe():
    assert by_line(RetentionPolicy.by_time(2500), 0) == LOWER_BOUND


def test_by_time_without_a_cut_of_the_minimum_nothing_is_chosen():
    assert by_line(RetentionPolicy.by_time(10_001), 1000) is None


def test_by_time_a_cut_that_overlaps_the_bound_is_replaced_by_the_last_one_before_it():
    cuts = [(50 * index, 50 * index) for index in range(11)]
    assert choose(SIZES, RetentionPolicy.by_time(2500), (340, 500), cuts) == 6
    assert choose(SIZES, RetentionPolicy.by_time(2500), (-1, 500), cuts) is None


def test_by_time_an_expired_cut_that_overlaps_the_bound_is_chosen():
    cuts = [(50 * index, 50 * index) for index in range(11)]
    policy = RetentionPolicy.by_time(2500, 5500)
    assert choose(SIZES, policy, (100, 300), cuts) == 4


def test_a_segment_without_writes_does_not_stop_retention():
    cuts = [(100 * index, 7) for index in range(11)]
    assert choose(SIZES, RetentionPolicy.by_time(2500), (900, 7), cuts) == 7
    assert choose(SIZES, RetentionPolicy.by_size(250), (900, 7), cuts, retains=100) == 7


# ---- what must never happen


@st.composite
def situations(draw):
    """Draw a set over two segments, a policy, and a bound somewhere in the stream."""
    count = draw(st.integers(1, 12))
    time_ms = left = right = 0
    members, cuts = [], []
    for _ in range(count):
        time_ms += draw(st.integers(1, 50))
        left, right = left + draw(st.integers(0, 40)), right + draw(st.integers(0, 40))
        members.append(SetMember(time_ms, left + right))
        cuts.append((left, right))
    kind = draw(st.sampled_from([RetentionKind.TIME, RetentionKind.SIZE]))
    minimum = draw(st.integers(1, 400))
    maximum = draw(st.sampled_from([INT64_MAX, minimum, minimum + draw(st.integers(0, 200))]))
    bound = (draw(st.integers(-1, left)), draw(st.integers(-1, right)))
    retains = sum(end - max(0, at) for at, end in zip(bound, cuts[-1], strict=True))
    return members, cuts, RetentionPolicy(kind, minimum, maximum), bound, retains, time_ms


def delta(members, policy, index, now_ms):
    if policy.kind is RetentionKind.TIME:
        return now_ms - members[index].time_ms
    return members[-1].size_bytes - members[index].size_bytes


@pytest.mark.slow
@settings(max_examples=examples(1000))
@given(situations())
def test_the_minimum_is_retained_and_subscribers_lose_only_what_exceeds_the_maximum(situation):
    members, cuts, policy, bound, retains, now_ms = situation
    choice = choose(members, policy, bound, cuts, retains=retains, now_ms=now_ms)
    if choice is None:
        return
    if choice == LOWER_BOUND:
        if policy.kind is RetentionKind.SIZE:
            assert retains >= policy.minimum
        else:
            minimum = limits(members, policy, now_ms).minimum
            assert relate(cuts[minimum], bound) is AFTER
        return
    assert delta(members, policy, choice, now_ms) >= policy.minimum
    if relate(bound, cuts[choice]) is AFTER:
        return  # no subscriber loses anything
    assert policy.maximum != INT64_MAX
    if policy.kind is RetentionKind.SIZE:
        assert retains >= policy.maximum
    else:
        expired = limits(members, policy, now_ms).expired
        assert relate(bound, cuts[expired]) is not AFTER


@settings(max_examples=examples(300))
@given(situations())
def test_as_time_goes_by_the_choice_goes_only_forward(situation):
    members, cuts, policy, bound, retains, now_ms = situation
    if policy.kind is not RetentionKind.TIME:
        return
    position = (-2, -2)
    for later in range(0, 600, 37):
        choice = choose(members, policy, bound, cuts, retains=retains, now_ms=now_ms + later)
        if choice is not None:
            chosen = bound if choice == LOWER_BOUND else cuts[choice]
            assert relate(chosen, position) is not BEFORE
            position = chosen


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(2, 20))
def test_thinning_leaves_both_ends_and_halves_resolution_at_most(gaps, count_max):
    size, members = 0, []
    for index, gap in enumerate(gaps):
        size += gap
        members.append(SetMember(index, size))
    remaining = thinned(members, RetentionKind.SIZE, count_max)
    assert len(remaining) <= max(2, count_max)
    assert remaining == sorted(set(remaining))
    if members:
        assert remaining[0] == 0
        assert remaining[-1] == len(members) - 1
    if len(members) <= count_max:
        assert remaining == list(range(len(members)))
    mean = (members[-1].size_bytes - members[0].size_bytes) / (len(remaining) - 1 or 1)
    for left, right in pairwise(remaining):
        if right > left + 1:  # a gap that thinning made
            assert members[right].size_bytes - members[left].size_bytes <= 2 * mean + 200
