"""What the planner promises, over thousands of random lives of a stream."""

import random
from collections import defaultdict

import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.stream_cut import COMPLETED
from headrace.spark.partitioning import (
    SegmentRead,
    advance,
    check_cover,
    earlier_of,
    later_of,
    plan_ranges,
    roll,
)
from tests.effort import seeds
from tests.unit.spark.stream_model import ModelGraph, StreamModel


def _check_position(model, position):
    ranges = sorted(model.ranges[segment_id] for segment_id in position)
    reached = 0
    for low, high in ranges:
        assert low == reached, f"keys {reached} to {low} are covered {'twice' if low < reached else 'never'}"
        reached = high
    assert reached == model.width


def _happen(model, chance):
    """Let something happen to the stream."""
    kind = chance.random()
    active = model.active
    if kind < 0.75:
        for _ in range(chance.randrange(1, 8)):
            model.append(chance.randrange(model.width), chance.choice((16, 20, 133)))
        return
    chosen = chance.choice(active)
    low, high = model.ranges[chosen]
    if kind < 0.87 and high - low > 1:
        middle = chance.randrange(low + 1, high)
        model.scale([chosen], [(low, middle), (middle, high)])
        return
    right = next((each for each in active if model.ranges[each][0] == high), None)
    if right is None:
        return
    end = model.ranges[right][1]
    # Merge two, or divide their common range anew: then a successor has several predecessors and siblings.
    cut = chance.randrange(low + 1, end)
    model.scale([chosen, right], [(low, end)] if chance.random() < 0.6 else [(low, cut), (cut, end)])


def _live(seed, *, key_order=True):
    chance = random.Random(seed)
    model = StreamModel()
    graph = ModelGraph(model)
    position, seen, plans = {0: 0}, defaultdict(list), []
    for _ in range(chance.randrange(5, 60)):
        for _ in range(chance.randrange(4)):
            _happen(model, chance)
        bytes_max = chance.choice((0, 0, 1, 50, 400))
        end = advance(position, graph, bytes_max=bytes_max)
        if chance.random() < 0.3:
            _happen(model, chance)  # between planning and reading
        _read(model, graph, position, end, seen)
        plans.append((position, end, plan_ranges(position, end, graph)))
        position = end
        _check_position(model, position)
    for _ in range(200):
        end = advance(position, graph)
        _read(model, graph, position, end, seen)
        plans.append((position, end, plan_ranges(position, end, graph)))
        if end == position:
            break
        position = end
    else:
        pytest.fail("the query never catches up")
    return model, graph, position, seen, plans


def _read(model, graph, start, end, seen):
    in_batch = defaultdict(list)
    for each in plan_ranges(start, end, graph):
        for key, number, _ in model.read(each.segment_id, each.start, each.end):
            in_batch[key].append((each.segment_id, number))
    for key, found in in_batch.items():
        assert len({segment_id for segment_id, _ in found}) == 1, "a key is in two partitions of one batch"
        seen[key].extend(number for _, number in found)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_every_event_comes_once_in_key_order_whatever_the_stream_does(block):
    for seed in seeds(100, 100 * block):
        model, _, position, seen, _ = _live(seed)
        for key in range(model.width):
            assert seen[key] == list(range(model.numbers[key])), f"seed {seed}, key {key}"
        assert position == model.tail(), f"seed {seed}"


@pytest.mark.slow
def test_a_replay_plans_the_same_ranges_after_the_stream_has_gone_on():
    for seed in seeds(400):
        model, graph, _, _, plans = _live(seed)
        chance = random.Random(-seed)
        for _ in range(10):
            _happen(model, chance)
        for start, end, ranges in plans:
            assert plan_ranges(start, end, graph) == ranges, f"seed {seed}"


@pytest.mark.slow
def test_a_batch_read_across_any_number_of_scale_events_holds_everything_once():
    for seed in seeds(400):
        model, graph, position, _, _ = _live(seed)
        found = sorted(
            event
            for each in plan_ranges({0: 0}, position, graph)
            for event in model.read(each.segment_id, each.start, each.end)
        )
        assert found == sorted(event for events in model.events.values() for event in events)


def test_a_batch_read_between_two_positions_of_a_query_is_what_the_query_read_between_them():
    for seed in seeds(200):
        _, graph, _, _, plans = _live(seed)
        middle = len(plans) // 2
        start, end = plans[middle // 2][0], plans[-1][1]
        whole = sum(each.end - each.start for each in plan_ranges(start, end, graph))
        parts = sum(each.end - each.start for _, _, ranges in plans[middle // 2 :] for each in ranges)
        assert whole == parts, f"seed {seed}"


@pytest.mark.slow
def test_a_bound_is_reached_and_never_passed():
    for seed in seeds(400):
        chance = random.Random(seed)
        model, graph, bound, _, plans = _live(seed)
        for _ in range(12):
            _happen(model, chance)
        position = plans[len(plans) // 2][0]
        for _ in range(300):
            further = advance(position, graph, bytes_max=chance.choice((0, 30, 200)), end=bound)
            _check_position(model, further)
            if further == position:
                break
            position = further
        assert position == bound, f"seed {seed}"
        assert advance(model.tail(), graph, end=bound) == model.tail(), (
            "a query behind its bound stands still"
        )


def test_a_limit_takes_something_of_every_segment_so_that_none_starves():
    model = StreamModel()
    model.scale([0], [(0, 4), (4, 8)])
    for _ in range(1000):
        model.append(0, 100)
    model.append(7, 100)
    graph = ModelGraph(model)
    small, large = sorted(model.active, key=model.length)
    position = advance({0: 0}, graph, bytes_max=500)
    assert position[small] == 100
    assert position[large] == 500


def test_a_merge_waits_for_a_half_that_is_still_in_front_of_an_older_segment():
    model = StreamModel()
    model.scale([0], [(0, 4), (4, 8)])
    left, right = model.active
    model.append(0, 50)
    model.scale([left], [(0, 2), (2, 4)])
    between = next(each for each in model.active if model.ranges[each] == (2, 4))
    model.scale([between, right], [(2, 8)])
    graph = ModelGraph(model)
    # The right half is read, but keys 2 to 4 are still owned by the unread left segment.
    assert roll({left: 0, right: 0}, graph) == {left: 0, right: 0}
    assert roll({left: 50, right: 0}, graph).keys() == set(model.active)


def test_a_segment_marked_as_read_is_not_read_again():
    model = StreamModel()
    model.append(0, 50)
    graph = ModelGraph(model)
    model.scale([0], [(0, 8)])
    assert plan_ranges({0: COMPLETED}, model.tail(), graph) == []
    assert plan_ranges({0: 0}, {0: COMPLETED}, graph) == [SegmentRead(0, 0, 50)]


def test_a_start_behind_the_end_gives_nothing():
    model = StreamModel()
    model.append(0, 50)
    model.scale([0], [(0, 8)])
    (child,) = model.active
    model.append(0, 50)
    assert plan_ranges({child: 0}, {0: 50}, ModelGraph(model)) == []
    assert plan_ranges({child: 50}, {child: 0}, ModelGraph(model)) == []


HALVES = {1: KeyRange(0.0, 0.5), 2: KeyRange(0.5, 1.0)}
LATER = {**HALVES, 1 << 32 | 3: KeyRange(0.0, 0.25), 1 << 32 | 4: KeyRange(0.25, 0.5), 0: KeyRange(0.0, 1.0)}


def test_later_and_earlier_positions_are_taken_key_by_key():
    third, fourth = 1 << 32 | 3, 1 << 32 | 4
    position, head = {1: 40, 2: 90}, {third: 0, fourth: 7, 2: 10}
    assert later_of(position, head, LATER) == {2: 90, third: 0, fourth: 7}
    assert earlier_of(position, head, LATER) == {1: 40, 2: 10}
    assert later_of({0: 5}, position, LATER) == position
    assert earlier_of({1: COMPLETED, 2: 5}, {1: 9, 2: COMPLETED}, LATER) == {1: 9, 2: 5}
    assert later_of({1: COMPLETED, 2: 5}, {1: 9, 2: COMPLETED}, LATER) == {1: COMPLETED, 2: COMPLETED}


@pytest.mark.parametrize("cut", [{1: 0}, {2: 0}, {0: 0, 1: 0}, {1: 0, 2: 0, 77: 0}, {}])
def test_a_cut_that_does_not_own_every_key_once_is_refused(cut):
    with pytest.raises(InvalidArgumentError):
        check_cover(cut, LATER)


def test_a_cut_that_owns_every_key_once_is_accepted():
    check_cover({1: 5, 2: 6}, LATER)
    check_cover({1 << 32 | 3: 0, 1 << 32 | 4: 0, 2: COMPLETED}, LATER)
