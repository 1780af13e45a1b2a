"""What a process knows of its parts: their states, their statistics, their tables, and nothing twice."""

import pytest

from headrace.web.process_parts import (
    DOWN,
    STARTING,
    UP,
    contributors_of,
    metrics_of,
    statistics_of,
    status_of,
)
from tests.unit.web.mill import Mill


def test_a_process_shows_what_each_of_its_parts_brings():
    parts = [Mill("upper"), Mill("lower")]
    assert list(contributors_of(parts)) == ["upperWheel", "lowerWheel"]
    assert [metric.path for metric in metrics_of(parts)] == ["ready", "upper.turns", "lower.turns"]
    assert statistics_of(parts) == {"ready": True, "upper": {"turns": 3}, "lower": {"turns": 3}}
    assert [metric.path for metric in metrics_of(parts[:1])] == ["ready", "upper.turns"]


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ((UP,), UP),
        ((UP, UP), UP),
        ((UP, STARTING), STARTING),
        ((STARTING, DOWN), DOWN),
        ((DOWN, UP), DOWN),
    ],
)
def test_a_process_is_up_once_all_of_its_parts_are(states, status):
    assert status_of([Mill("upper", state) for state in states]) == status


def test_a_process_is_ready_once_nothing_hinders_a_part():
    assert statistics_of([Mill("upper"), Mill("lower", hindered="no water")])["ready"] is False
    assert statistics_of([Mill("upper", STARTING)])["ready"] is False
