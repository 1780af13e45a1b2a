"""Tables, whatever happens to them and their callers at once: answers follow from what is durable."""

import pytest

from headrace.testing.simulation import simulate
from tests.effort import examples
from tests.simulation.found_seeds import TABLES
from tests.simulation.run_seeds import run_one
from tests.simulation.scenarios.tables import upheaval


@pytest.mark.parametrize("first", range(0, examples(200), 25))
def test_callers_are_told_what_the_durable_log_says(first):
    assert sum(run_one("tables", seed).value.judged for seed in range(first, first + 25)) > 500


@pytest.mark.parametrize("seed", TABLES)
def test_what_was_found_once_stays_away(seed):
    run_one("tables", seed)


def test_a_run_repeats():
    """Whatever iterates over something must do so in the same order each time."""

    def trace():
        return simulate(7, upheaval, trace_callbacks=True).trace.digest

    assert trace() == trace()
