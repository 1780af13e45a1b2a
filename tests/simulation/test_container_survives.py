"""One container, every verb, every fault: answers are those of a correct container."""

import os

import pytest

from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.durablelog.durable_apply import DurableApply
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.testing.failures import SimulationError
from headrace.testing.loop_time import ExactTime
from tests.effort import is_long, seeds, without_long
from tests.simulation.found_seeds import ATTRIBUTES, CONTAINER, LONG_ATTRIBUTES, LONG_CONTAINER
from tests.simulation.reduction import ALL, Reduction, shrink
from tests.simulation.run_seeds import Found, choose_seeds, describe, run_one, run_seeds, shrink_one
from tests.simulation.scenarios.container_profile import FAULTS


@pytest.mark.parametrize("seed", seeds(12, 100))
def test_clients_are_told_what_a_correct_container_would_tell_them(seed):
    assert run_one("container", seed).value.judged > 10


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_merges_within_merges_are_as_good_as_others(seed):
    assert run_one("chains", seed).value.judged > 10


@pytest.mark.parametrize("seed", [*seeds(8, 2), *without_long(ATTRIBUTES, LONG_ATTRIBUTES)])
def test_attributes_that_leave_memory_are_as_good_as_others(seed):
    assert run_one("attributes", seed).value.judged > 10


@pytest.mark.parametrize("seed", without_long(CONTAINER, LONG_CONTAINER))
def test_what_was_found_once_stays_away(seed):
    run_one("container", seed, loop_time=ExactTime())  # as it was found


def first_failure(seeds=range(40)):
    """Return the first seed that fails, and how."""
    for seed in seeds:
        try:
            run_one("container", seed)
        except Exception as error:
            return seed, error
    raise AssertionError("no seed has failed")


def test_a_byte_that_changes_in_the_cache_is_convicted(monkeypatch):
    honest = ContainerReadIndex.append

    def lie(index, segment, offset, data):
        honest(index, segment, offset, bytes([data[0] ^ 1]) + bytes(data[1:]) if offset == 0 else data)

    monkeypatch.setattr(ContainerReadIndex, "append", lie)
    assert isinstance(first_failure()[1], SimulationError | AssertionError)


def test_a_merge_that_forgets_its_updates_is_convicted(monkeypatch):
    honest = SegmentContainer.merge

    async def forget(container, target, source_name, updates=()):
        return await honest(container, target, source_name, ())

    monkeypatch.setattr(SegmentContainer, "merge", forget)
    assert isinstance(first_failure()[1], SimulationError)


def test_an_acknowledgement_before_the_log_has_it_is_convicted(monkeypatch):
    """The log answers for a frame and drops every tenth."""
    from headrace.testing.wal_faults import FaultyMemoryWal

    honest = FaultyMemoryWal._finish_next

    def drop(wal):
        frame = wal._in_flight[0]
        if wal._written % 10 == 9:
            wal._written += 1
            wal._in_flight.popleft()
            done, frame.done = frame.done, None
            done(frame, None)
            return
        honest(wal)

    monkeypatch.setattr(FaultyMemoryWal, "_finish_next", drop)
    first_failure()


@pytest.mark.slow
@pytest.mark.skipif(not is_long(), reason="takes long: make soak")
def test_a_failing_run_is_made_smaller_and_can_be_repeated(monkeypatch):
    honest = DurableApply.apply

    def lose_attributes(apply, frame):
        honest(apply, frame)
        for item in frame.items:
            segment = getattr(item, "segment", None)
            if segment is not None:
                segment.attributes.durable.pop(item.owner.writer_id, None)

    monkeypatch.setattr(DurableApply, "apply", lose_attributes)
    seed, error = first_failure()
    reduction = shrink_one("container", seed, error, limit_s=600.0)
    assert reduction != ALL
    assert reduction.lives <= 2
    with pytest.raises(type(error)):
        run_one("container", seed, reduction=Reduction.parse(str(reduction)))


def test_a_reduction_is_the_smallest_that_fails():
    def fails(reduction):
        return reduction.clients >= 2 and reduction.steps >= 7 and "reads" not in reduction.without

    found = shrink(fails, lives=5, clients=4, steps=32, faults=FAULTS, go_on=lambda: True)
    assert (found.lives, found.clients, found.steps) == (1, 2, 7)
    assert found.without == frozenset(FAULTS) - {"reads"}
    assert Reduction.parse(str(found)) == found


def test_a_reduction_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="walls"):
        Reduction.parse("clients=1 walls=3")


def test_scenarios_that_are_not_named_run_in_shares():
    chosen = choose_seeds(None, 100, 50)
    assert chosen["container"] == chosen["data_plane"] == chosen["storage_writer"] == range(100, 150)
    assert chosen["two_owners"] == range(100, 110)
    assert choose_seeds(["two_owners"], 7, 50) == {"two_owners": range(7, 57)}
    assert choose_seeds(None, 0, 1)["two_owners"] == range(1)


def test_a_failure_says_how_to_repeat_it():
    found = Found("container", 1, 0.0, "NotLinearizableError: why", "clients=1 steps=2")
    text = describe(found)
    assert '--scenario container --first 1 --reduction "clients=1 steps=2"' in text
    assert "why" in text


@pytest.mark.cluster
def test_a_process_that_dies_ends_the_run_and_names_the_seeds_it_may_have_died_of(monkeypatch):
    monkeypatch.setattr("tests.simulation.run_seeds._run_job", _die)
    with pytest.raises(RuntimeError, match="container 31"):
        list(run_seeds({"container": [31]}, 1))


def _die(_job):
    os._exit(9)  # as a process does that the system ends
