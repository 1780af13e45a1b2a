"""How many segments a reader takes, which it gives back, when it does what, and who is dead."""

import pytest

from headrace.client.groups.acquire_policy import (
    count_to_acquire,
    ranking,
    relative_sizes,
    segment_to_release,
)
from headrace.client.groups.group_cuts import to_cuts, to_ends, to_offsets
from headrace.client.groups.group_lag import has_read, segment_lags
from headrace.client.groups.group_state import UNKNOWN_DISTANCE, GroupState, apply
from headrace.client.groups.liveness import Liveness
from headrace.client.groups.proposals import automatic_checkpoint, create_checkpoint
from headrace.client.groups.timers import GroupTimers
from headrace.client.segment_address import SegmentAddress
from headrace.limits import INT64_MAX
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED, StreamCut

CONFIG = ReaderGroupConfig(starts={"s/t": UNBOUNDED})


def segments(*numbers):
    return {SegmentAddress("s", "t", number): 0 for number in numbers}


def group(*counts, free=0, distances=()):
    """A group whose readers a, b, ... have so many segments each."""
    numbers = iter(range(100))
    return GroupState(
        CONFIG,
        assigned={
            "abcdef"[place]: segments(*(next(numbers) for _ in range(count)))
            for place, count in enumerate(counts)
        },
        unassigned=segments(*(next(numbers) for _ in range(free))),
        distances=dict(zip("abcdef", distances, strict=False)),
    )


@pytest.mark.parametrize(
    ("counts", "free", "expected"),
    [
        ((0,), 0, 0),
        ((0,), 4, 4),
        ((0, 0), 4, 2),
        ((0, 0, 0), 4, 1),
        ((2, 0), 3, 1),
        ((0, 4), 4, 4),
        ((5, 0), 1, 1),
        ((0, 1), 2, 2),
    ],
)
def test_a_reader_takes_its_fair_part_and_one_at_least(counts, free, expected):
    assert count_to_acquire(group(*counts, free=free), "a") == expected


def test_the_reader_with_most_in_front_is_the_first_one():
    state = group(2, 3, 0, distances=(90_000, 30_000))
    assert relative_sizes(state) == {"a": 2.0, "b": 1.0, "c": 0.0}
    assert [ranking(state, reader) for reader in "abc"] == [0, 1, 2]
    unknown = group(1, 1, distances=(UNKNOWN_DISTANCE, 5))
    assert [ranking(unknown, reader) for reader in "ab"] == [0, 1]


def test_who_has_too_much_gives_back_the_segment_that_its_name_picks():
    assert segment_to_release(group(1, 0), "a") is None, "it keeps one"
    assert segment_to_release(group(2, 1), "a") is None
    assert segment_to_release(group(3, 1), "b") is None
    assert segment_to_release(group(4, 1, free=3), "a") is None, "there are enough to be taken"
    picked = segment_to_release(group(4, 1), "a")
    assert picked in segments(0, 1, 2, 3)
    assert segment_to_release(group(4, 1), "a") == picked


def test_readers_that_were_silent_for_half_a_minute_are_dead_if_they_are_ours():
    liveness = Liveness()
    online = ["a.py", "b.py", "java"]
    dead = [liveness.observe(5.0 * step, online, ["a.py"]) for step in range(8)]
    assert dead == [[]] * 6 + [["b.py"]] * 2


def test_nobody_is_dead_for_one_who_looked_away():
    liveness = Liveness()
    liveness.observe(0.0, ["a.py"], [])
    assert liveness.observe(60.0, ["a.py"], []) == []
    assert liveness.observe(69.0, ["a.py"], []) == []
    assert [liveness.observe(69.0 + 7.0 * step, ["a.py"], []) for step in range(1, 4)] == [[], [], ["a.py"]]


def test_times():
    timers = GroupTimers(100.0)
    assert timers.next(is_held=False) == 100.0, "it acquires at once"
    timers.on_fetched(100.0, 3000)
    timers.on_reported(100.0, readers=2)
    timers.on_attempted(100.0, readers=4, ranking=1)
    assert (timers.fetch, timers.report, timers.acquire, timers.release) == (101.0, 103.0, 103.0, 102.0)
    timers.acquire = 100.0
    assert timers.next(is_held=True) == 101.0, "it does not try again and again to acquire"
    timers.on_reported(100.0, readers=50)
    assert timers.report == 110.0, "others would take it for dead"
    timers.on_reader_left(100.0, readers=3, ranking=2)
    assert timers.acquire == 100.0, "the one with least takes over at once"
    timers.on_checkpoint(100.0, 30_000)
    assert timers.checkpoint == 130.0
    timers.on_waiting_for_checkpoint()
    assert timers.checkpoint == 101.0
    timers.on_checkpoint(100.0, -1)
    assert timers.checkpoint == float("inf")
    timers.on_config_checked(100.0)
    timers.on_attempt(100.0)
    assert (timers.config_check, timers.acquire) == (110.0, 130.0)
    timers.on_completed(105.0)
    assert timers.acquire == 105.0


def test_offsets_are_cuts_and_cuts_are_offsets():
    cuts = {"s/t": StreamCut("s", "t", {0: 5, 1: -1}), "s/u": StreamCut("s", "u", {0: 7})}
    assert to_cuts(to_offsets(cuts)) == cuts
    assert to_ends({**cuts, "s/v": UNBOUNDED}) == {**to_offsets(cuts), SegmentAddress("s", "t", 1): INT64_MAX}


def test_what_is_left_is_counted_to_the_ends():
    state = GroupState(
        CONFIG,
        assigned={"a": {SegmentAddress("s", "t", 0): 30}},
        unassigned={SegmentAddress("s", "t", 1): -1},
        future={SegmentAddress("s", "t", 2): frozenset({0})},
        ends={SegmentAddress("s", "t", 0): 70},
    )
    lengths = {SegmentAddress("s", "t", number): 100 for number in range(4)}
    lags = segment_lags(state, {SegmentAddress("s", "t", 3): 0}, lengths)
    assert [(each.reader, each.bytes) for each in lags] == [("a", 40), (None, 0), (None, 100), (None, 100)]
    assert has_read(StreamCut("s", "t", {0: 30, 1: 100}), lags)
    assert not has_read(StreamCut("s", "t", {0: 31, 1: 100}), lags)
    assert not has_read(StreamCut("s", "t", {1: 100, 2: 1}), lags)


def test_what_waits_for_a_checkpoint_finds_it_though_an_automatic_one_came_behind():
    state = group(free=2)  # without readers a checkpoint is complete at once
    kept = []
    for make, name in (
        (create_checkpoint, "mine"),
        (automatic_checkpoint, "first"),
        (automatic_checkpoint, "second"),
    ):
        for update in make(state, name):
            state = apply(state, update)
        kept.append(state.checkpoints.names)
    assert kept == [("mine",), ("mine", "first"), ("first", "second")]
