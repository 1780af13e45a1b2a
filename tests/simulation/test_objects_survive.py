"""Containers, and storage alone, on an object store that is far away, slow, unreliable and cannot append."""

import pytest

from tests.effort import seeds
from tests.simulation.run_seeds import run_one


@pytest.mark.parametrize("seed", seeds(4, 204))
def test_a_container_on_an_object_store_loses_nothing_and_leaves_nothing_there(seed):
    assert run_one("objects", seed).value.judged > 10


@pytest.mark.parametrize("seed", seeds(20))
def test_former_owners_change_nothing_that_their_successors_know(seed):
    run_one("rival_storages", seed)
