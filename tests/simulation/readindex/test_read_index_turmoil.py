"""Read indexes of two containers on one cache, whatever happens at once: the right bytes, or a reason."""

import pytest

from tests.effort import examples
from tests.simulation.found_seeds import READ_INDEX
from tests.simulation.run_seeds import run_one


@pytest.mark.parametrize("first", range(0, examples(80), 12))
def test_readers_get_what_was_appended_and_memory_comes_back(first):
    assert sum(run_one("read_index", seed).value.judged for seed in range(first, first + 12)) > 500


@pytest.mark.parametrize("seed", READ_INDEX)
def test_what_was_found_once_stays_away(seed):
    run_one("read_index", seed)
