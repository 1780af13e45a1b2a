import pytest

from headrace.testing.history import Outcome
from headrace.testing.segment_calls import AppendCall
from tests.effort import seeds
from tests.simulation.run_seeds import run_one


@pytest.mark.parametrize("seed", seeds(3))
def test_two_owners_never_acknowledge_against_each_other(seed):
    history = run_one("two_owners", seed).value
    appended = [
        operation
        for operation in history.operations
        if isinstance(operation.call, AppendCall) and operation.outcome is Outcome.OK
    ]
    assert len(appended) == 2 * 3 * 15
