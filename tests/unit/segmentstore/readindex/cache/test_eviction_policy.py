from __future__ import annotations

import pytest

from headrace.limits import MIB
from headrace.segmentstore.readindex.cache.eviction_policy import HISTORY, TAIL, CacheConfig, EvictionPolicy


@pytest.fixture
def policy():
    return EvictionPolicy(CacheConfig(bytes_max=400 * 4096, history_share_max=0.25, history_share_min=0.05))


def test_appends_take_from_history_first_but_not_its_last_part(policy):
    assert policy.queues_for_append(history=21) == (HISTORY, TAIL)
    assert policy.queues_for_append(history=20) == (TAIL, HISTORY)


def test_history_takes_from_the_tail_only_up_to_its_share(policy):
    assert policy.queues_for_history(history=90, wanted=10) == (TAIL, HISTORY)
    assert policy.queues_for_history(history=90, wanted=11) == (HISTORY,)


def test_reserves_stop_when_half_of_the_cache_is_essential(policy):
    assert not policy.is_tight(200)
    assert policy.is_tight(201)


@pytest.mark.parametrize("segments", [0, 1, 10, 1000, 1_000_000])
def test_all_tails_together_stay_a_quarter_of_the_cache_or_one_block_each(policy, segments):
    blocks = policy.tail_blocks_max(segments)
    assert blocks == 1 or blocks * segments <= 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"bytes_max": 100},
        {"extent_bytes_max": 3 * MIB},
        {"arena_bytes": 1 * MIB, "extent_bytes_max": 2 * MIB},
        {"history_share_min": 0.5, "history_share_max": 0.4},
        {"pinned_share_max": 1.5},
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong):
    with pytest.raises(AssertionError):
        CacheConfig(**wrong)
