"""Controllers in trouble, for a few seeds; ``run_seeds`` has thousands."""

import pytest

from tests.effort import sampled, seeds
from tests.simulation.run_seeds import run_one


@pytest.mark.parametrize("first", seeds(4))
def test_streams_survive_what_happens_to_controllers(first):
    numbers = sampled(range(6 * first, 6 * first + 6))
    seen = [run_one("controllers", number).value for number in numbers]
    assert sum(each.events for each in seen) > 100
    assert sum(each.moves for each in seen) > 5
    assert sum(each.stream_epochs for each in seen) > 3
    assert any(each.truncated for each in seen)
