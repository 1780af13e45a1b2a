"""Containers that move between stores in trouble, for a few seeds; ``run_seeds`` has thousands."""

import logging

import pytest

from tests.effort import seeds
from tests.simulation.run_seeds import run_one


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("first", seeds(3))
def test_what_was_acknowledged_survives_what_happens_to_a_cluster(first):
    seen = [run_one("cluster", 4 * first + number).value for number in range(4)]
    assert sum(each.appends for each in seen) > 100
    assert sum(each.reads for each in seen) > 30
    assert sum(each.moves for each in seen) > 2
    assert sum(each.generations for each in seen) > 12
