"""The deciding parts of the storage writer, without loop or storage."""

from collections import deque
from dataclasses import replace
from math import inf

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_plan import (
    MERGES_MAX,
    CompareStep,
    ConcatStep,
    FinishMergeStep,
    WaitStep,
    WriteStep,
    is_absorbable,
    plan_step,
)
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.flush_turn import TurnEvent
from headrace.segmentstore.storagewriter.log_truncation import CHECKPOINTS_MAX, Acknowledgements
from headrace.segmentstore.storagewriter.segment_aggregator import (
    AGGREGATE_BYTES_MAX,
    PendingDelete,
    PendingMerge,
    PendingSeal,
    PendingTruncate,
    SegmentAggregator,
    queue_source_deletions,
)

CONFIG = StorageWriterConfig(flush_bytes=100, write_bytes_max=1000, flush_age_s=2.0, pressure_bytes=400)


def aggregator(durable=10_000, stored=0, *, in_storage=False, merged=False, sealed=False, start=0):
    segment = SegmentState(1, "s", stored_length=stored, durable_length=durable, accepted_length=durable)
    segment.start_offset = segment.accepted_start_offset = start
    segment.merged = segment.accepted_merged = merged
    segment.sealed = segment.accepted_sealed = sealed or merged
    return SegmentAggregator(segment, in_storage=in_storage, claimed=stored)


def source_with(length, **arguments):
    source = aggregator(length, merged=True, **arguments)
    if not source.segment.stored_length:
        source.add_append(1, 0, length)
        source.add_seal(2)
    return source


def step_of(found):
    return plan_step(found, write_bytes_max=CONFIG.write_bytes_max)


# ---- queue


def test_queueing_a_merge_does_not_look_at_those_that_wait():
    class Queue(deque):
        looks = 0

        def __iter__(self):
            for item in super().__iter__():
                Queue.looks += 1
                yield item

    found = aggregator(10_000, sealed=True)
    found.queue = Queue()
    for number in range(1000):
        found.add_merge(10 + number, number * 10, 10, source_with(10))
    found.add_seal(2000)
    assert Queue.looks == 0
    with pytest.raises(DataCorruptionError):
        found.add_merge(2001, 10_000, 0, source_with(1))
    found.clear()
    assert not found.seal_queued


def test_neighbouring_appends_become_one_item_until_it_is_large():
    found = aggregator(10 * AGGREGATE_BYTES_MAX)
    for number in range(1000):
        found.add_append(number, number * 1000, 1000)
    assert len(found.queue) == 1
    assert found.lowest_sequence == 0
    for number in range(1000, 3000):
        found.add_append(number, number * 1000, 1000)
    assert len(found.queue) == 3
    assert found.pending_bytes == 3_000_000
    found.check()


def test_what_storage_claims_is_compared_and_what_follows_is_written():
    found = aggregator(stored=25)
    found.add_append(1, 0, 10)
    found.add_append(2, 10, 10)
    found.add_append(3, 20, 10)
    assert found.lowest_sequence == 1  # the log is kept until the bytes were compared
    assert step_of(found) == CompareStep(0, 25)
    found.confirm(25)
    found.check()
    step = step_of(found)
    assert (step.offset, step.length) == (25, 5)
    found.confirm(30)
    assert not found.queue
    assert found.totals.size_bytes == 0


def test_comparing_goes_on_where_it_was_interrupted():
    found = aggregator(stored=25)
    found.add_append(1, 0, 30)
    found.confirm(7)
    assert step_of(found) == CompareStep(7, 25)


def test_bytes_that_the_log_does_not_have_any_more_are_not_compared():
    found = aggregator(stored=25)
    found.add_append(9, 25, 5)
    assert not found.compares
    assert isinstance(step_of(found), WriteStep)


def test_an_item_that_a_write_has_taken_does_not_grow():
    found = aggregator()
    found.add_append(1, 0, 10)
    assert step_of(found).length == 10
    found.add_append(2, 10, 10)  # comes while the first ten bytes are written
    found.confirm(10)
    assert found.lowest_sequence == 2


def test_a_slow_stream_whose_appends_come_during_each_write_does_not_hold_the_log():
    found = aggregator()
    found.add_append(0, 0, 1)
    for number in range(1, 1000):
        step = step_of(found)
        found.add_append(number, number, 1)
        found.confirm(step.offset + step.length)
        assert found.lowest_sequence == number


def test_no_item_is_larger_than_its_bound():
    found = aggregator(10 * AGGREGATE_BYTES_MAX)
    size = AGGREGATE_BYTES_MAX // 3 + 1
    for number in range(20):
        found.add_append(number, number * size, size)
    assert max(item.end - item.offset for item in found.queue) <= AGGREGATE_BYTES_MAX
    found.check()


@pytest.mark.parametrize("late", ["append", "merge", "seal"])
def test_behind_a_seal_only_truncations_and_a_deletion_may_follow(late):
    found = aggregator(10, sealed=True)
    found.add_append(1, 0, 10)
    found.add_seal(2)
    found.add_truncate(3, 0)
    add_late = {
        "append": lambda: found.add_append(4, 10, 0),
        "merge": lambda: found.add_merge(4, 10, 0, source_with(0)),
        "seal": lambda: found.add_seal(4),
    }
    with pytest.raises(DataCorruptionError):
        add_late[late]()
    found.add_truncate(5, 0)
    found.add_delete(6)
    found.check()


def test_a_seal_the_segment_does_not_know_of_is_corruption():
    found = aggregator(10)
    found.add_append(1, 0, 10)
    with pytest.raises(DataCorruptionError):
        found.add_seal(2)


def test_a_truncation_beyond_the_start_of_the_segment_is_corruption():
    with pytest.raises(DataCorruptionError):
        aggregator(10, start=4).add_truncate(1, 5)


def test_a_hole_between_storage_and_log_is_corruption():
    found = aggregator(30, merged=True)  # merged: its head may be in the target, so it is added
    found.add_append(1, 20, 10)
    with pytest.raises(DataCorruptionError):
        step_of(found)


def test_a_merge_that_storage_has_in_part_is_corruption():
    with pytest.raises(DataCorruptionError):
        course(aggregator(stored=15), source_with(10), 10, offset=10)


@pytest.mark.parametrize(("offset", "length"), [(11, 1), (9, 5), (0, 10), (10, 9_991)])
def test_an_append_that_does_not_continue_is_corruption(offset, length):
    found = aggregator()
    found.add_append(1, 0, 10)
    with pytest.raises(DataCorruptionError):
        found.add_append(2, offset, length)


def test_the_first_append_after_recovery_must_touch_what_is_stored():
    with pytest.raises(DataCorruptionError):
        aggregator(stored=10).add_append(1, 11, 5)


@pytest.mark.parametrize("seen", [9_999, 0])
def test_a_seal_with_bytes_missing_is_corruption(seen):
    found = aggregator(sealed=True)
    if seen:
        found.add_append(1, 0, seen)
    with pytest.raises(DataCorruptionError):
        found.add_seal(2)


def test_truncations_are_joined_and_keep_the_oldest_sequence():
    found = aggregator(start=99)
    for sequence in range(1, 6):
        found.add_truncate(sequence, 100 - sequence)
    assert len(found.queue) == 1
    assert found.lowest_sequence == 1
    assert found.queue[0].offset == 99


def test_of_truncations_that_are_joined_the_furthest_counts():
    found = aggregator(start=90)
    for sequence, offset in enumerate((10, 90, 50), 1):
        found.add_truncate(sequence, offset)
    assert [item.offset for item in found.queue] == [90]


def test_a_deletion_replaces_everything_and_names_the_merges_that_go_with_it():
    found = aggregator()
    source = source_with(7)
    found.add_append(3, 0, 10)
    found.add_merge(4, 10, 7, source)
    merges = found.add_delete(5)
    assert [(merge.source, merge.sequence) for merge in merges] == [(source, 4)]
    assert isinstance(step_of(found), PendingDelete)
    assert found.lowest_sequence == 5


def test_sources_that_are_let_go_hold_the_log_from_their_merges_on():
    found, source, inner = aggregator(), source_with(7), source_with(3)
    source.clear()
    source.add_merge(4, 7, 0, inner)
    found.add_merge(9, 0, 7, source)
    assert list(queue_source_deletions(found)) == [inner, source]
    assert (source.lowest_sequence, inner.lowest_sequence) == (9, 4)
    assert source.target is inner.target is None


def test_a_source_holds_the_log_for_its_own_sources_until_all_of_them_are_let_go():
    found, source, inner = aggregator(), source_with(7), [source_with(3), source_with(3)]
    source.clear()
    for each in inner:
        each.clear()
    source.add_merge(4, 7, 0, inner[0])
    source.add_merge(5, 7, 0, inner[1])
    found.add_merge(9, 0, 7, source)
    let_go = queue_source_deletions(found)
    assert next(let_go) is inner[1]
    assert source.lowest_sequence == 4
    assert source.deleting
    assert next(let_go) is inner[0]
    assert next(let_go) is source
    assert source.lowest_sequence == 9


# ---- steps


def test_steps_come_in_the_order_of_the_log():
    found = aggregator(10, sealed=True, start=5)
    found.add_append(1, 0, 10)
    found.add_truncate(2, 5)
    found.add_seal(3)
    kinds = []
    while (step := step_of(found)) is not None:
        kinds.append(type(step))
        if isinstance(step, WriteStep):
            found.confirm(step.offset + step.length)
        else:
            found.finish(step)
    assert kinds == [WriteStep, PendingTruncate, PendingSeal]


def test_appends_and_small_merges_become_one_write():
    found = aggregator(1000)
    sources = [source_with(20), source_with(30)]
    found.add_append(3, 0, 10)
    found.add_merge(4, 10, 20, sources[0])
    found.add_append(5, 30, 5)
    found.add_append(6, 35, 5)
    found.add_merge(7, 40, 30, sources[1])
    step = step_of(found)
    assert (step.offset, step.length) == (0, 70)
    assert step.ranges == [
        (found.segment, 0, 10),
        (sources[0].segment, 0, 20),
        (found.segment, 30, 10),
        (sources[1].segment, 0, 30),
    ]
    assert [merge.source for merge in step.absorbed] == sources


def test_a_write_stops_at_its_bound_and_before_what_cannot_be_absorbed():
    found = aggregator()
    found.add_append(1, 0, 900)
    found.add_merge(4, 900, 200, source_with(200))
    step = step_of(found)
    assert (step.length, step.absorbed) == (900, [])
    found.confirm(900)
    assert step_of(found).absorbed
    large = aggregator()
    large.add_append(1, 0, 5000)
    assert step_of(large).length == CONFIG.write_bytes_max


def test_a_write_absorbs_so_many_merges_only():
    found = aggregator(2000)
    for number in range(1000):
        found.add_merge(number, 2 * number, 1, source_with(1))
        found.add_append(number, 2 * number + 1, 1)
    step = step_of(found)
    assert len(step.absorbed) == MERGES_MAX
    assert step.length == 2 * MERGES_MAX, "an append behind the last one goes with it"


# ---- merges


def course(target, source, length, offset=0):
    target.add_merge(9, offset, length, source)
    return type(plan_step(target, write_bytes_max=1000))


def test_a_merge_whose_bytes_the_target_has_is_only_finished():
    assert course(aggregator(stored=10), source_with(10), 10) is FinishMergeStep
    assert course(aggregator(), source_with(0), 0) is FinishMergeStep


def test_a_source_unknown_to_storage_is_absorbed_unless_it_is_large():
    assert course(aggregator(), source_with(1000), 1000) is WriteStep
    assert course(aggregator(), source_with(1001), 1001) is WaitStep


@pytest.mark.parametrize("trace", ["row", "claim", "stored bytes"])
def test_a_source_that_storage_has_anything_of_is_not_absorbed(trace):
    source = source_with(10)
    assert is_absorbable(PendingMerge(9, 0, 10, source))
    match trace:
        case "row":
            source.in_storage = True
        case "claim":
            source.claimed = 4
        case _:
            source.segment.stored_length = 4
    assert course(aggregator(), source, 10) is WaitStep


def test_a_source_that_is_being_flushed_is_waited_for():
    for stored in (0, 10):
        source = source_with(10)
        source.take_turn(TurnEvent.HOLD)
        assert course(aggregator(stored=stored), source, 10) is WaitStep


def test_a_stored_source_is_joined_once_it_owes_nothing():
    source = source_with(10, stored=10, in_storage=True)
    assert course(aggregator(), source, 10) is ConcatStep
    partly = aggregator(10, stored=4, in_storage=True, merged=True)
    partly.add_append(1, 4, 6)
    assert course(aggregator(), partly, 10) is WaitStep


def test_a_source_whose_head_is_missing_is_not_absorbed():
    source = aggregator(10, merged=True)
    source.add_append(1, 4, 6)  # recovered: the head may be in the target
    assert course(aggregator(), source, 10) is WaitStep
    assert course(aggregator(stored=10), source, 10) is FinishMergeStep


def test_a_source_that_is_nowhere_is_corruption():
    with pytest.raises(DataCorruptionError):
        course(aggregator(), aggregator(10, merged=True), 10)


def test_each_course_has_its_step():
    target = aggregator()
    source = source_with(10, stored=10, in_storage=True)
    target.add_merge(9, 0, 10, source)
    assert isinstance(step_of(target), ConcatStep)
    source.take_turn(TurnEvent.HOLD)
    assert isinstance(step_of(target), WaitStep)
    source.take_turn(TurnEvent.RELEASE)
    target.confirm(10)
    assert isinstance(step_of(target), FinishMergeStep)


# ---- acknowledgements


def test_the_newest_checkpoint_with_nothing_pending_before_it_is_the_candidate():
    found = Acknowledgements()
    for sequence in range(1, 31):
        found.on_taken(sequence)
        if sequence % 10 == 0:
            found.on_checkpoint(sequence)
    assert [found.candidate(lowest) for lowest in (5, 10, 11, 20, 29, 30, 31, None)] == [
        None,
        10,
        10,
        20,
        20,
        30,
        30,
        30,
    ]
    found.on_acknowledged(20)
    assert found.candidate(25) is None
    assert found.candidate(None) == 30
    found.check()


def test_bytes_behind_are_counted_from_the_first_checkpoint_that_waits():
    found = Acknowledgements()
    behind = []
    for sequence in range(1, 10):
        found.on_taken(sequence, 10 if sequence % 3 else 0)
        if sequence % 3 == 0:
            found.on_checkpoint(sequence)
        behind.append(found.bytes_behind)
    assert behind == [0, 0, 0, 10, 20, 20, 30, 40, 40]
    found.on_acknowledged(3)
    assert found.bytes_behind == 20
    found.on_acknowledged(9)
    assert found.bytes_behind == 0
    found.check()


def test_checkpoints_are_bounded_and_thinned_evenly():
    found = Acknowledgements()
    for sequence in range(1, 10 * CHECKPOINTS_MAX):
        found.on_taken(sequence)
        found.on_checkpoint(sequence)
        assert len(found._checkpoints) <= CHECKPOINTS_MAX
    found.check()
    assert found.candidate(20 * CHECKPOINTS_MAX) >= 10 * CHECKPOINTS_MAX - 2


@pytest.mark.parametrize("sequence", [5, 4])
def test_a_sequence_number_that_does_not_grow_is_corruption(sequence):
    found = Acknowledgements()
    found.on_taken(5)
    with pytest.raises(DataCorruptionError):
        found.on_taken(sequence)


# ---- schedule


def pending(size, since=0.0):
    found = aggregator()
    found.since = since
    found.add_append(1, 0, size)
    return found


def schedule_of(found=(), config=CONFIG):
    """A schedule that has the segments of ``found``."""
    schedule = FlushSchedule(config, lambda segment, _: {one.segment: one for one in found}[segment])
    for one in found:
        since = one.since
        schedule.get(one.segment, 0.0).since = since
    return schedule


def test_a_segment_is_due_by_size_by_age_on_request_and_never_before_its_pause_is_over():
    schedule = schedule_of()
    found = pending(99, since=5.0)
    assert schedule.due_at(found) == 7.0
    assert schedule.due_at(pending(100)) == 0.0
    found.urgent = True
    assert schedule.due_at(found) == 0.0
    found.not_before = 30.0
    assert schedule.due_at(found) == 30.0
    found.urgent, schedule.forced = False, True
    assert schedule.due_at(found) == 30.0
    obstacles = [TurnEvent.BEGIN, TurnEvent.WAIT, TurnEvent.HOLD, TurnEvent.RELEASE]
    for event in obstacles:
        found.take_turn(event)
        assert schedule.due_at(found) == inf
    found.take_turn(TurnEvent.RESUME)
    assert schedule.due_at(found) == 30.0


def test_what_appends_wait_for_is_due_at_once_the_oldest_first_and_none_that_fails():
    failing, old, young = found = [pending(1, since=float(number)) for number in range(3)]
    failing.not_before = 30.0
    schedule = schedule_of(found, StorageWriterConfig(flush_bytes=100, flush_age_s=900.0))
    schedule.press_oldest(5.0)
    schedule.press_oldest(5.0)
    assert schedule.next_due(suspect=False) is old
    assert schedule.next_due(suspect=False) is None
    old.take_turn(TurnEvent.BEGIN)
    schedule.press_oldest(5.0)
    assert schedule.next_due(suspect=False) is young


def test_due_segments_are_taken_in_the_order_in_which_they_became_due():
    schedule = schedule_of()
    found = [pending(1, since=float(number)) for number in (2, 0, 1)]
    for one in found:
        schedule.update(one, 0.0)
    assert schedule.next_due(suspect=False) is None
    assert schedule.wake_at() == 2.0
    schedule.advance(3.0)
    assert [schedule.next_due(suspect=False) for _ in range(3)] == [found[1], found[2], None]
    schedule.advance(100.0)
    assert schedule.next_due(suspect=False) is found[0]


def test_suspects_queue_apart():
    schedule = schedule_of()
    found = [pending(100) for _ in range(4)]
    found[0].suspect = found[2].suspect = True
    for one in found:
        schedule.update(one, 0.0)
    assert schedule.due_count == 4
    assert [schedule.next_due(suspect=False) for _ in range(3)] == [found[1], found[3], None]
    assert [schedule.next_due(suspect=True) for _ in range(3)] == [found[0], found[2], None]


def test_a_seal_a_merge_and_a_truncation_wait_a_shorter_time_than_bytes():
    schedule = schedule_of(config=StorageWriterConfig(flush_age_s=30.0, change_age_s=2.0))
    found = pending(1, since=5.0)
    assert schedule.due_at(found) == 35.0
    found.add_truncate(2, 0)
    assert schedule.due_at(found) == 7.0


def test_bytes_that_storage_claims_are_compared_at_once():
    schedule = schedule_of()
    found = aggregator(stored=10)
    found.since = 5.0
    found.add_append(1, 0, 20)
    assert schedule.due_at(found) == 0.0


def test_what_keeps_the_log_from_being_cut_becomes_due():
    found = [pending(1) for _ in range(3)]
    found[1].queue[0].sequence = 10
    source = source_with(5)
    schedule_of([*found, source]).press(10, 0.0)
    assert [one.urgent for one in (*found, source)] == [True, False, True, False]


def test_timers_of_segments_that_are_no_longer_due_do_not_pile_up():
    schedule = schedule_of()
    found = pending(1)
    for number in range(20_000):
        found.not_before = 20_000.0 - number
        schedule.update(found, -1.0)
    assert len(schedule._timers) < 4096


def test_pressure_makes_the_largest_due_until_no_more_than_asked_for_is_left():
    found = [pending(size) for size in (10, 90, 50, 80, 70, 60, 95)]
    schedule_of(found).relieve(0.0, 200)
    assert sorted(one.pending_bytes for one in found if one.urgent) == [80, 90, 95]
    sources = [source_with(90) for _ in range(20)]
    schedule_of(sources).relieve(0.0, 200)
    assert not any(source.urgent for source in sources)


def test_pressure_chooses_nobody_while_more_are_due_than_there_are_places():
    due = [pending(100) for _ in range(2)]
    small, large = pending(10), pending(90)
    schedule = schedule_of([*due, small, large], replace(CONFIG, flushes_max=2))
    for one in due:
        schedule.update(one, 0.0)
    schedule.relieve(0.0, 50)
    assert not small.urgent
    assert not large.urgent
    assert schedule.next_due(suspect=False) is due[0]
    small.add_append(2, 10, 85)  # what was not chosen grows on; the choice is made with what is known then
    due[0].take_turn(TurnEvent.BEGIN)
    schedule.relieve(0.0, 90)
    assert (small.urgent, large.urgent) == (True, False)


def test_suspects_that_are_due_do_not_keep_others_from_being_chosen():
    hanging = [pending(100) for _ in range(10)]
    found = pending(90)
    schedule = schedule_of([*hanging, found], replace(CONFIG, flushes_max=2))
    for one in hanging:
        one.suspect = True
        schedule.update(one, 0.0)
    schedule.relieve(0.0, 50)
    assert found.urgent


def test_what_is_queued_is_counted_whatever_becomes_of_it():
    found = aggregator(durable=1000)
    totals = found.totals
    found.add_append(1, 0, 600)
    found.add_append(2, 600, 400)
    found.add_truncate(3, 0)
    assert (totals.items, totals.size_bytes) == (2, 1000)
    found.confirm(1000)
    assert (totals.items, totals.size_bytes) == (1, 0)
    found.finish(found.queue[0])
    assert (totals.items, totals.size_bytes) == (0, 0)
    other = aggregator(durable=1000)
    other.totals = totals
    other.add_append(4, 0, 1000)
    other.add_delete(5)
    assert (totals.items, totals.size_bytes) == (1, 0)


def test_each_failure_halves_what_the_next_write_dares():
    found = aggregator(durable=100_000)
    found.add_append(1, 0, 100_000)
    sizes = []
    for failures in (0, 1, 2, 3, 10, 500):
        found.failures = failures
        sizes.append(plan_step(found, write_bytes_max=16_384).length)
    assert sizes == [16_384, 8192, 4096, 2048, 1024, 1024]


def test_a_merge_is_absorbed_whole_or_not_at_all_when_writes_fail():
    found, source = aggregator(durable=5000), source_with(4000)
    found.add_merge(1, 0, 4000, source)
    found.add_append(3, 4000, 1000)
    for failures, length in ((0, 5000), (1, 5000), (2, 4096)):
        found.failures = failures
        step = plan_step(found, write_bytes_max=16_384)
        assert isinstance(step, WriteStep)
        assert (step.length, len(step.absorbed)) == (length, 1)
    for failures in (3, 9, 500):
        found.failures = failures
        assert plan_step(found, write_bytes_max=16_384) == WaitStep(source), "it takes its own steps"
