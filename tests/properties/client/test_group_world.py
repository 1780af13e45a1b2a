"""Readers of a group share a stream that scales, whatever the order of their steps."""

import pytest

from tests.effort import seeds
from tests.properties.client.group_world import Plan, World

MANY = 40


def run(plan, seed):
    return World(seed, plan).run()


@pytest.mark.parametrize("kills", [False, True])
def test_every_event_is_handled_and_only_once_unless_readers_die(kills):
    for seed in seeds(MANY):
        assert run(Plan(kills=kills), seed) == [], f"seed {seed}"


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (Plan(complete_at_once=True), "checkpoint"),
        (Plan(acquire_anything=True), "has stopped"),
        (Plan(new_number_when_unsure=True), "has stopped"),
    ],
    ids=["successors before the checkpoint", "a segment twice", "a new number for what may have happened"],
)
def test_a_planted_bug_is_convicted(plan, told):
    assert any(told in each for seed in range(MANY) for each in run(plan, seed))
