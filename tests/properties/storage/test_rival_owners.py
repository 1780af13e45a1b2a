"""Random histories of chunked segments under owners that die, or live on fenced, on a store that fails."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.testing.object_store_faults import ObjectStoreFaults
from headrace.testing.simulation import simulate
from tests.effort import examples
from tests.simulation.scenarios.rival_storages import SEGMENTS, run_history
from tests.simulation.worlds.rival_storages import RivalStorages

numbers = st.integers(0, SEGMENTS - 1)
wait = st.booleans()

steps = st.one_of(
    st.tuples(st.just("write"), numbers, st.lists(st.integers(0, 90), min_size=1, max_size=3), wait),
    st.tuples(st.just("seal"), numbers, wait),
    st.tuples(st.just("truncate"), numbers, st.integers(0, 1000), wait),
    st.tuples(st.just("concat"), numbers, numbers, wait),
    st.tuples(st.just("delete"), numbers, wait),
    st.tuples(st.just("collect garbage")),
    st.tuples(st.just("collect orphans")),
    st.tuples(st.just("merge chunks"), numbers, wait),
    st.tuples(st.just("drop truncated"), numbers, wait),
    st.tuples(st.just("former merges"), numbers),
    st.tuples(st.just("former writes"), numbers),
    st.tuples(st.just("former collects")),
    st.tuples(st.just("take over"), st.booleans()),
    st.tuples(st.just("pause"), st.sampled_from([0.01, 0.1, 3.0])),
)

faults = st.builds(
    ObjectStoreFaults,
    latency_s_max=st.sampled_from([0.0, 0.02]),
    refused_per_thousand=st.sampled_from([0, 50]),
    lost_replies_per_thousand=st.sampled_from([0, 100]),
    slow_per_thousand=st.sampled_from([0, 100]),
    broken_per_thousand=st.sampled_from([0, 100]),
    slow_s_max=st.sampled_from([0.05, 10.0]),
    strangers_per_thousand=st.sampled_from([0, 50]),
)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(
    history=st.lists(steps, min_size=8, max_size=60),
    faults=faults,
    supports_append=st.booleans(),
    forgets=st.booleans(),
    lost_commits=st.sampled_from([0, 50]),
    seed=st.integers(0, 1000),
)
def test_whatever_owners_do_the_store_has_what_was_committed_and_nothing_else(
    history, faults, supports_append, forgets, lost_commits, seed
):
    async def scenario(sim):
        world = RivalStorages(
            sim,
            supports_append=supports_append,
            faults=faults,
            forgets=forgets,
            lost_commits_per_thousand=lost_commits,
        )
        await run_history(world, history)

    simulate(seed, scenario)
