"""Days of streams that scale by themselves: soon enough, never to and fro, and as the page says."""

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scaling import DAYS, STEP_AT_S, run_day, table
from tests.effort import is_long, sampled, seeds, soak

PAGE = Path(__file__).parents[2] / "docs" / "flows" / "scale.md"


HOURS = 24 if is_long() else 7
"""Of each day, unless a test needs all of it: the last change of a load is in the fifth."""


@functools.cache
def day(name, hours=HOURS):
    found = next(each for each in DAYS if each.name.startswith(name))
    return run_day(replace(found, seconds=hours * 3600))


@pytest.mark.parametrize("name", [each.name for each in DAYS if "tenfold" in each.name])
def test_a_tenfold_step_is_answered_within_a_minute(name):
    course = day(name)
    assert course.first_after(STEP_AT_S, "split") < 60
    assert course.settled_after(STEP_AT_S) < 300
    assert course.overload_s < 90


def test_segments_are_merged_after_the_load_has_gone_and_not_sooner():
    course = day("tenfold step and back")
    merges = [at for at, kind, _ in course.scales if kind == "merge"]
    assert min(merges) > STEP_AT_S + 7200
    assert max(merges) < STEP_AT_S + 7200 + 2 * 3600
    assert course.segments_end <= 2


@pytest.mark.parametrize(
    "name", sampled(["flat", "bursts", "bursts: 4", "transactions", "tenfold step, 0.9"], 2)
)
def test_a_load_that_stays_as_it_is_leaves_the_segments_as_they_are(name):
    course = day(name)
    assert course.merges == 0
    assert [at for at, _, _ in course.scales if at > STEP_AT_S + 1800] == []


def test_a_day_with_one_peak_splits_upwards_and_merges_downwards():
    course = day("daily", 24)
    kinds = [kind for _, kind, _ in course.scales]
    assert kinds == sorted(kinds, reverse=True), "all splits, then all merges"
    assert len(kinds) <= 40
    assert course.overload_s < 60
    assert course.segments_end == 1


def test_a_hot_key_does_not_split_its_segment_for_ever():
    course = day("five times, 80 %")
    assert course.segments_max <= 16
    later = [at for at, _, _ in course.scales if at > 7200]
    most = 3 * 4 * 4 * HOURS / 24
    assert len(later) <= most, "three keys, four attempts a day, each a split and its merge"


@pytest.mark.parametrize("seed", seeds(4, 2))
def test_no_seed_makes_a_flat_load_restless(seed):
    flat = next(each for each in DAYS if each.name.startswith("flat"))
    course = run_day(replace(flat, seconds=14_400), seed=seed)
    assert course.settled_after(0.0) < 600
    assert course.merges == 0
    assert course.scales[-1][0] < 600


@soak
def test_the_page_shows_this_table():
    assert table([day(each.name, 24) for each in DAYS]) in PAGE.read_text()
