"""What follows the end of a container."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError, FencedOutError, StorageFullError, WalWriteError
from headrace.segmentstore.hosting.next_step import History, NextStep, Outcome, cause_of, outcome_of

AGAIN, OFFLINE, RELEASE = NextStep.START_AGAIN, NextStep.STAY_OFFLINE, NextStep.RELEASE
OUTCOMES = st.sampled_from(Outcome)
TERMS_S = st.sampled_from([0.0, 1.0, 29.9, 30.0, 3600.0])


@pytest.mark.parametrize(
    ("error", "first", "later"),
    [
        (StorageFullError("x"), AGAIN, AGAIN),
        (WalWriteError("x"), RELEASE, AGAIN),
        (RuntimeError("a bug"), RELEASE, AGAIN),
        (DataCorruptionError("x"), RELEASE, OFFLINE),
        (FencedOutError("x"), RELEASE, RELEASE),
    ],
)
def test_what_follows_depends_on_the_failure_and_on_whether_it_ever_ran(error, first, later):
    history = History(0.2, 30.0)
    assert history.on_ended(outcome_of(error), 0.0) is first
    history.has_run = True
    assert history.on_ended(outcome_of(error), 0.0) is later


def test_a_failure_that_forbids_another_start_counts_more_than_the_first_one():
    first, later = WalWriteError("first"), WalWriteError("later")
    assert cause_of([first, later]) is first
    for final in (DataCorruptionError("damaged"), FencedOutError("taken")):
        assert cause_of([first, final, later]) is final


@given(st.booleans(), st.lists(st.tuples(OUTCOMES, TERMS_S), max_size=30))
def test_no_history_starts_what_is_damaged_or_anothers_and_pauses_stay_in_their_bounds(has_run, ends):
    history = History(0.2, 30.0)
    history.has_run = has_run
    before_s = None
    for outcome, ran_s in ends:
        step = history.on_ended(outcome, ran_s)
        assert step is not AGAIN or outcome not in {Outcome.DAMAGED, Outcome.FENCED, Outcome.TAKEN}
        assert step is not OFFLINE or outcome is Outcome.DAMAGED
        expected_s = 0.2 if before_s is None or ran_s >= 30.0 else min(2 * before_s, 30.0)
        assert history.pause_s == pytest.approx(expected_s)
        before_s = history.pause_s
