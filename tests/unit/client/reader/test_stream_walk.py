import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.reader.stream_walk import Start, StreamWalk
from headrace.client.segment_map import Successor
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import FULL_RANGE, KeyRange, covers_key_space, split_evenly
from headrace.model.segment_id import make_segment_id


class History:
    """A stream's epochs, made at random: any run of neighbours is replaced by any number of pieces."""

    def __init__(self, chance, segments, scales):
        self.epochs = [dict(enumerate(split_evenly(FULL_RANGE, segments)))]
        number = segments
        for epoch in range(1, scales + 1):
            current = sorted(self.epochs[-1].items(), key=lambda item: item[1])
            at = chance.randrange(len(current))
            chosen = current[at : at + chance.randrange(1, len(current) - at + 1)]
            kept = dict(item for item in current if item not in chosen)
            for piece in split_evenly(KeyRange(chosen[0][1].low, chosen[-1][1].high), chance.randrange(1, 4)):
                kept[make_segment_id(number, epoch)] = piece
                number += 1
            self.epochs.append(kept)
        self.ranges = {each: r for epoch in self.epochs for each, r in epoch.items()}
        self.lengths = {each: chance.randrange(5) for each in self.ranges}

    def successors(self, segment_id):
        for before, after in zip(self.epochs, self.epochs[1:], strict=False):
            if segment_id in before and segment_id not in after:
                return [
                    Successor(
                        each,
                        r,
                        tuple(p for p, pr in before.items() if pr.overlaps(r) and p not in after),
                    )
                    for each, r in after.items()
                    if each not in before and r.overlaps(before[segment_id])
                ]
        return []

    def head(self):
        return dict.fromkeys(self.epochs[0], 0)


def walk_through(chance, history, walk, done, stop_after):
    """Read one unit of a random segment at a time; return False if it stopped early."""
    reading = {start.segment_id: start.offset for start in walk.to_read()}
    while reading:
        if stop_after == 0:
            return False
        stop_after -= 1
        segment_id = chance.choice(sorted(reading))
        if reading[segment_id] < history.lengths[segment_id]:
            for other in done:  # nothing younger with common keys was read before
                assert other <= segment_id or not history.ranges[other].overlaps(history.ranges[segment_id])
            done.setdefault(segment_id, []).append(reading[segment_id])
            reading[segment_id] += 1
            walk.on_read(segment_id, reading[segment_id])
        else:
            del reading[segment_id]
            length, successors = history.lengths[segment_id], history.successors(segment_id)
            for start in walk.on_finished(segment_id, length, successors):
                assert start.end is None
                reading[start.segment_id] = start.offset
        walk.check()
        assert covers_key_space([history.ranges[each] for each in walk.offsets()])
    return True


@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(0, 8))
def test_everything_is_read_once_in_order_from_any_position(seed, segments, scales):
    chance = random.Random(seed)
    history = History(chance, segments, scales)
    cut, done = history.head(), {}
    while True:
        walk = StreamWalk(cut, history.ranges)
        if walk_through(chance, history, walk, done, chance.randrange(1, 40)):
            break
        cut = walk.offsets()
    assert walk.is_complete
    assert {each: list(range(length)) for each, length in history.lengths.items() if length} == done


@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(0, 6), st.integers(0, 40))
def test_a_bounded_walk_reads_exactly_what_lies_in_front_of_its_end(seed, segments, scales, steps):
    chance = random.Random(seed)
    history = History(chance, segments, scales)
    first, before = StreamWalk(history.head(), history.ranges), {}
    walk_through(chance, history, first, before, steps)
    end = first.offsets()
    walk, found = StreamWalk(history.head(), history.ranges, end), {}
    reading = {start.segment_id: start for start in walk.to_read()}
    while reading:
        segment_id = chance.choice(sorted(reading))
        start = reading.pop(segment_id)
        stop = history.lengths[segment_id] if start.end is None else start.end
        if stop > start.offset:
            found[segment_id] = list(range(start.offset, stop))
            walk.on_read(segment_id, stop)
        if walk.needs_successors(segment_id):
            begun = walk.on_finished(segment_id, stop, history.successors(segment_id))
            reading |= {each.segment_id: each for each in begun if each.end is None or each.end > 0}
    assert walk.is_complete
    assert walk.offsets() == end
    assert found == before


def test_a_merge_waits_for_its_slower_half():
    halves = dict(enumerate(split_evenly(FULL_RANGE, 2)))
    merged = [Successor(2, FULL_RANGE, (0, 1))]
    walk = StreamWalk({0: 0, 1: 0}, halves)
    assert walk.to_read() == [Start(0, 0, None), Start(1, 0, None)]
    assert walk.on_finished(0, 5, merged) == []
    assert walk.offsets() == {0: 5, 1: 0}
    assert not walk.is_complete
    assert walk.on_finished(1, 7, merged) == [Start(2, 0, None)]
    assert walk.offsets() == {2: 0}
    assert walk.on_finished(2, 3, []) == []
    assert walk.is_complete


def test_an_end_within_a_merge_is_reached():
    halves = dict(enumerate(split_evenly(FULL_RANGE, 2)))
    merged = [Successor(2, FULL_RANGE, (0, 1))]
    walk = StreamWalk({0: 0, 1: 0}, {**halves, 2: FULL_RANGE}, {0: 5, 2: -1})
    assert not walk.needs_successors(0)
    assert walk.on_finished(1, 7, merged) == []
    assert not walk.is_complete
    walk.on_read(0, 5)
    assert walk.is_complete


def test_a_cut_with_a_segment_the_stream_does_not_know_is_refused():
    with pytest.raises(InvalidArgumentError):
        StreamWalk({7: 0}, {})
