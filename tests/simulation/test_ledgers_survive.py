"""The log over BookKeeper loses, doubles and reorders nothing, whatever happens to bookies and owners."""

import pytest

from tests.effort import seeds
from tests.simulation.run_seeds import run_one


@pytest.mark.slow
def test_what_was_acknowledged_is_read_by_every_later_owner():
    assert sum(run_one("ledgers", seed).value for seed in seeds(100)) > 0
