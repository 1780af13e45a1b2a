"""What a local cluster starts, ends and kills, from the names of its processes and what happens to them."""

import pytest

from headrace.local_cluster.supervision import END_S, PAUSE_MAX_S, PAUSE_S, STAYED_S, Kind, Step, Supervision

KINDS = {
    "zookeeper": Kind.ZOOKEEPER,
    "controller-1": Kind.CONTROLLER,
    "store-1": Kind.STORE,
    "store-2": Kind.STORE,
}
OTHERS = {"controller-1", "store-1", "store-2"}


def started(supervision, now_s=0.0):
    return {name for step, name in supervision.steps(now_s) if step is Step.START}


def running(kinds=KINDS, **options):
    """Return a cluster that is up."""
    supervision = Supervision(kinds, **options)
    while names := started(supervision):
        for name in names:
            supervision.on_ready(name, 0.0)
    assert supervision.is_up
    return supervision


def test_zookeeper_is_ready_before_others_start_and_they_start_together():
    supervision = Supervision(KINDS)
    assert started(supervision) == {"zookeeper"}
    assert started(supervision) == set()
    supervision.on_ready("zookeeper", 1.0)
    assert started(supervision) == OTHERS
    assert supervision.starts
    for name in OTHERS:
        assert not supervision.is_up
        supervision.on_ready(name, 2.0)
    assert supervision.is_up
    assert not supervision.starts
    assert supervision.next_s() is None


def test_over_a_zookeeper_of_somebody_else_all_start_at_once():
    assert started(Supervision({name: KINDS[name] for name in OTHERS})) == OTHERS


def test_a_process_that_does_not_start_ends_everything():
    supervision = Supervision(KINDS)
    supervision.steps(0.0)
    supervision.on_ready("zookeeper", 0.0)
    supervision.steps(0.0)
    assert supervision.on_ended("store-2", 1.0) is None
    assert supervision.failed == "store-2"
    assert supervision.is_ending
    assert supervision.steps(1.0) == [(Step.END, "controller-1")]


def test_what_has_ended_is_started_again_after_pauses_that_grow_up_to_a_bound():
    supervision, now_s, pauses = running(), 10.0, []
    for _ in range(9):
        pauses.append(supervision.on_ended("store-1", now_s))
        assert started(supervision, now_s) == set()
        now_s = supervision.next_s()
        assert started(supervision, now_s) == {"store-1"}
    assert pauses[:3] == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S]
    assert pauses[-1] == PAUSE_MAX_S
    assert not supervision.failed


def test_what_stayed_for_long_is_started_again_at_once():
    supervision = running()
    for _ in range(4):
        supervision.on_ended("store-1", 0.0)
        supervision.steps(100.0)
    supervision.on_ready("store-1", 100.0)
    assert supervision.on_ended("store-1", 100.0 + STAYED_S) == PAUSE_S


def test_a_store_is_started_while_zookeeper_is_away():
    supervision = running()
    supervision.on_ended("zookeeper", 0.0)
    supervision.on_ended("store-1", 0.0)
    assert started(supervision, PAUSE_S) == {"zookeeper", "store-1"}


def test_without_restarts_what_has_ended_is_gone_and_others_go_on():
    supervision = running(restarts=False)
    assert supervision.on_ended("store-1", 0.0) is None
    assert supervision.steps(1000.0) == []
    assert supervision.next_s() is None
    assert not supervision.is_ending


def test_the_end_is_controllers_then_all_stores_then_zookeeper():
    supervision = running()
    supervision.end()
    assert supervision.steps(0.0) == [(Step.END, "controller-1")]
    assert supervision.steps(0.0) == []
    supervision.on_ended("controller-1", 1.0)
    assert supervision.steps(1.0) == [(Step.END, "store-1"), (Step.END, "store-2")]
    supervision.on_ended("store-1", 2.0)
    assert supervision.steps(2.0) == []
    supervision.on_ended("store-2", 2.0)
    assert supervision.steps(2.0) == [(Step.END, "zookeeper")]
    assert not supervision.is_over
    supervision.on_ended("zookeeper", 3.0)
    assert supervision.is_over


def test_what_does_not_end_is_killed_once():
    supervision = running()
    supervision.end()
    supervision.steps(5.0)
    assert supervision.next_s() == 5.0 + END_S
    assert supervision.steps(5.0 + END_S) == [(Step.KILL, "controller-1")]
    assert supervision.steps(100.0) == []
    assert supervision.next_s() is None


@pytest.mark.parametrize("ready", [(), ("zookeeper",)])
def test_an_end_during_the_start_ends_what_runs_and_starts_nothing(ready):
    supervision = Supervision(KINDS)
    supervision.steps(0.0)
    for name in ready:
        supervision.on_ready(name, 0.0)
    supervision.end()
    assert supervision.steps(0.0) == [(Step.END, "zookeeper")]
    supervision.on_ended("zookeeper", 0.0)
    assert supervision.is_over
    assert not supervision.failed


def test_what_waits_for_its_next_start_is_gone_at_the_end():
    supervision = running({"store-1": Kind.STORE})
    supervision.on_ended("store-1", 0.0)
    supervision.end()
    assert supervision.is_over
    assert supervision.steps(100.0) == []
