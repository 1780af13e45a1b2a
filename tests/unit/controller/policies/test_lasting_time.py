"""A wall clock that jumps ahead counts only if it stays there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.policies.lasting_time import JUMP_MS, LastingTime
from headrace.testing.clock import WALL_START_MS

LASTING_MS = 60_000
SECOND, DAY = 1000, 86_400_000
YEARS = 14 * 365 * DAY


def at(time, passed_ms, ahead_ms=0):
    """Look when so much has passed since the start, with a wall clock that is so much ahead."""
    return time.look(WALL_START_MS + passed_ms + ahead_ms, passed_ms)


@pytest.fixture
def time():
    time = LastingTime(LASTING_MS)
    at(time, 0)
    return time


def test_clocks_that_agree_are_believed(time):
    for passed_ms in (SECOND, DAY, 30 * DAY):
        assert at(time, passed_ms).time_ms == WALL_START_MS + passed_ms


def test_a_jump_ahead_for_a_minute_does_not_count_and_is_told_once(time):
    told = []
    for passed_ms in range(SECOND, 60 * SECOND, 10 * SECOND):
        counted = at(time, passed_ms, YEARS)
        assert counted.time_ms == WALL_START_MS + passed_ms
        told.append(counted.jumped_ms)
    assert told == [YEARS, 0, 0, 0, 0, 0]
    assert at(time, 70 * SECOND).time_ms == WALL_START_MS + 70 * SECOND
    assert at(time, 80 * SECOND, YEARS).jumped_ms == YEARS, "the next one lasts from its own beginning"
    assert at(time, 80 * SECOND + LASTING_MS, YEARS).time_ms == WALL_START_MS + 80 * SECOND + LASTING_MS


def test_a_jump_that_lasts_counts(time):
    assert at(time, SECOND, YEARS).time_ms == WALL_START_MS + SECOND
    later = SECOND + LASTING_MS + 1
    assert at(time, later, YEARS).time_ms == WALL_START_MS + later + YEARS
    assert at(time, later + SECOND, YEARS).jumped_ms == 0


def test_a_second_jump_during_the_first_one_lasts_from_its_own_beginning(time):
    at(time, SECOND, YEARS)
    assert at(time, 50 * SECOND, 2 * YEARS).jumped_ms == 2 * YEARS
    assert at(time, 90 * SECOND, 2 * YEARS).time_ms == WALL_START_MS + 90 * SECOND


@pytest.mark.parametrize("ahead_ms", [JUMP_MS, 1, -1, -YEARS])
def test_a_correction_and_a_clock_that_goes_back_are_followed_at_once(time, ahead_ms):
    counted = at(time, SECOND, ahead_ms)
    assert (counted.time_ms, counted.jumped_ms) == (WALL_START_MS + SECOND + ahead_ms, 0)


@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(-2 * DAY, 2 * DAY)), max_size=40))
def test_time_is_never_ahead_of_a_clock_that_has_not_lasted(looks):
    """What counts is the wall clock, or less; and less only while there has been no look for so long."""
    time, passed_ms = LastingTime(LASTING_MS), 0
    at(time, 0)
    believed_at = 0
    for pause_ms, ahead_ms in looks:
        passed_ms += pause_ms
        wall_ms = WALL_START_MS + passed_ms + ahead_ms
        counted_ms = at(time, passed_ms, ahead_ms).time_ms
        assert counted_ms <= wall_ms
        if counted_ms == wall_ms:
            believed_at = passed_ms
        else:
            assert counted_ms < wall_ms - JUMP_MS
            assert passed_ms >= believed_at
