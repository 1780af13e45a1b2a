"""Answers of a segment store get lost: each append of a controller is there once, or was refused."""

import pytest

from headrace.testing.simulation import simulate
from tests.effort import seeds
from tests.simulation.scenarios.remote_segments import APPENDS, CLIENTS, cut_appends


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_a_lost_answer_neither_doubles_an_append_nor_loses_one(seed):
    told = simulate(seed, cut_appends).value
    assert len(told.there) + len(told.absent) + len(told.unknown) == CLIENTS * APPENDS
    assert told.dropped > 5
    assert len(told.there) > CLIENTS * APPENDS / 2


@pytest.mark.slow
def test_answers_are_lost_and_found_again():
    """Else the others prove nothing."""
    told = [simulate(seed, cut_appends).value for seed in range(3)]
    assert sum(each.moves for each in told)
    assert any(offset is None for each in told for _, offset in each.there.values())
