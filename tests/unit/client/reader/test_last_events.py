"""A cut with so many events behind it, of streams that scale and of segments that are busy and silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.reader.last_events import SegmentTail, choose_start, epochs_of, share_out
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly
from headrace.model.segment_id import make_segment_id

EVENT = bytes(4) + (5).to_bytes(4, "big") + b"event"
SIZE = len(EVENT)


def tail_of(count, start=0):
    data = EVENT * count
    return SegmentTail("s", start * SIZE, len(data), reading(data))


def reading(data):
    async def read(begin, end):
        return data[begin:end]

    return read


async def chosen(segments, epochs, wanted, floors=(), starts=None):
    """``segments`` are counts of events by id; answers counts of events behind the cut."""
    starts = starts or {}
    tails = {each: tail_of(count, starts.get(each, 0)) for each, count in segments.items()}

    async def tail(segment_id):
        return tails[segment_id]

    async def known():
        for floor in floors:
            yield {each: at * SIZE for each, at in floor.items()}

    found = await choose_start(epochs, tail, known(), wanted)
    return {each: segments[each] - offset // SIZE for each, offset in found.items()}


@pytest.mark.parametrize("count", [1, 10, 20_000])
async def test_events_are_counted_from_the_end_and_no_further_than_is_asked(count):
    read = []
    data = EVENT * count

    async def noted(begin, end):
        read.append(end - begin)
        return data[begin:end]

    tail = SegmentTail("s", 0, len(data), noted)
    assert await tail.count(5, 0) == min(5, count)
    assert tail.begin_of_last(min(5, count)) == len(data) - min(5, count) * SIZE
    assert sum(read) <= 64 << 10
    assert await tail.count(count + 1, 0) == count
    assert await tail.count(count, (count - 1) * SIZE) == 1
    assert tail.begin_of_last(0) == len(data)


async def test_plain_bytes_have_no_last_event():
    data = b"no events here, " * 10
    with pytest.raises(InvalidArgumentError, match="are no events"):
        await SegmentTail("s/t/0", 0, len(data), reading(data)).count(1, 0)


async def test_segments_that_take_events_at_once_give_equal_shares():
    assert await chosen({0: 10, 1: 10, 2: 1}, [[0, 1, 2]], 7) == {0: 3, 1: 3, 2: 1}
    assert await chosen({0: 10, 1: 10}, [[0, 1]], 100) == {0: 10, 1: 10}
    assert await chosen({0: 0}, [[0]], 1) == {0: 0}


async def test_events_of_a_silent_segment_are_older_than_those_since_a_time_that_is_known():
    assert await chosen({0: 10, 1: 10}, [[0, 1]], 4, floors=[{0: 9, 1: 9}, {0: 5, 1: 10}, {0: 0, 1: 0}]) == {
        0: 4,
        1: 0,
    }


async def test_those_before_a_scale_follow_when_the_successors_have_too_few():
    first, second = make_segment_id(1, 1), make_segment_id(2, 1)
    segments = {0: 50, first: 2, second: 1}
    epochs = [[first, second], [0]]
    assert await chosen(segments, epochs, 2) == {first: 1, second: 1}
    assert await chosen(segments, epochs, 10) == {0: 7}
    assert await chosen(segments, epochs, 1000) == {0: 50}


async def test_a_segment_that_was_not_scaled_is_counted_once():
    kept, old, new = 0, 1, make_segment_id(2, 1)
    segments = {kept: 2, old: 10, new: 3}
    assert await chosen(segments, [[kept, new], [kept, old]], 7) == {kept: 2, old: 2}


async def test_what_was_truncated_is_not_counted():
    assert await chosen({0: 10}, [[0]], 100, starts={0: 6}) == {0: 4}


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 50), min_size=1), st.integers(1, 200))
def test_shares_are_what_there_is_or_what_is_wanted(counts, wanted):
    shares = share_out(counts, wanted)
    assert sum(shares.values()) == min(wanted, sum(counts.values()))
    assert all(0 <= shares[each] <= counts[each] for each in counts)
    cut_off = [shares[each] for each in counts if shares[each] < counts[each]]
    assert not cut_off or max(shares.values()) - min(cut_off) <= 1


def test_epochs_own_all_keys_from_the_present_backwards():
    halves, quarters = split_evenly(FULL_RANGE, 2), split_evenly(KeyRange(0.0, 0.5), 2)
    left, right = make_segment_id(1, 1), make_segment_id(2, 1)
    pieces = [make_segment_id(3, 2), make_segment_id(4, 2)]
    ranges = {
        0: FULL_RANGE,
        left: halves[0],
        right: halves[1],
        pieces[0]: quarters[0],
        pieces[1]: quarters[1],
    }
    found = list(epochs_of(list(ranges), ranges))
    assert found == [[right, *pieces], [left, right], [0]]
