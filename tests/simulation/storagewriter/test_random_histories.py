"""Random work, faults, deaths and readers in between; at the end everything is stored once and exactly."""

import pytest

from tests.effort import seeds
from tests.simulation.found_seeds import STORAGE_WRITER
from tests.simulation.run_seeds import run_one


@pytest.mark.parametrize("seed", [*STORAGE_WRITER, *seeds(24)])
def test_whatever_happens_everything_is_stored_once(seed):
    run_one("storage_writer", seed)
