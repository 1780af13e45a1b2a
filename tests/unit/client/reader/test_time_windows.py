"""What watermarks say at a position, also to readers whose segments are others than those of the cuts."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client import MarkedSegment, StreamCut, TimeWindow, TimeWindows, Watermark
from headrace.client.reader.time_windows import compare
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import FULL_RANGE, KeyRange

LOW, HIGH = KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)
RANGES = {0: LOW, 1: HIGH, 2: FULL_RANGE, 3: LOW, 4: HIGH}
"""0 and 1 are merged into 2, which is divided into 3 and 4."""


def mark(lower, upper, offsets):
    return Watermark(
        lower, upper, tuple(MarkedSegment(each, RANGES[each], offset) for each, offset in offsets.items())
    )


class Marks:
    """A mark stream that grows."""

    scope, stream = "s", "t"

    def __init__(self, *marks):
        self.left = list(marks)

    async def read(self):
        while self.left:
            yield self.left.pop(0)


class Ranges:
    async def ranges(self, scope, stream, segment_ids):
        return {each: RANGES[each] for each in segment_ids}


def at(offsets):
    return StreamCut("s", "t", offsets)


@pytest.mark.parametrize(
    ("position", "offsets", "expected"),
    [
        ({0: 5, 1: 5}, {0: 6, 1: 5}, -1),
        ({0: 5, 1: 5}, {0: 5, 1: 5}, 1),
        ({0: 6, 1: 5}, {0: 5, 1: 5}, 1),
        ({0: 6, 1: 4}, {0: 5, 1: 5}, 0),
        ({0: -1, 1: 5}, {0: 5, 1: 5}, 1),
        ({0: 9, 1: 9}, {2: 0}, -1),
        ({2: 0}, {0: 9, 1: 9}, 1),
        ({0: 9, 2: 0}, {0: 5, 1: 5}, 1),
        ({3: 1, 1: 5}, {2: 7}, 0),
        ({}, {2: 7}, 1),
    ],
)
def test_a_position_is_in_front_behind_or_both(position, offsets, expected):
    assert compare(position, RANGES, mark(1, 1, offsets)) == expected


def test_a_segment_of_unknown_range_may_be_anywhere():
    assert compare({9: 1}, {}, mark(1, 1, {0: 5, 1: 5})) == 1
    assert compare({9: 1}, {}, mark(1, 1, {0: 5, 2: 5})) == 1


async def test_the_window_follows_the_position():
    marks = Marks(mark(10, 12, {2: 100}), mark(20, 22, {2: 200}), mark(30, 32, {3: 10, 4: 20}))
    windows = TimeWindows(marks, Ranges())
    assert await windows.advance(at({0: 0, 1: 0})) == TimeWindow(None, 12)
    assert await windows.advance(at({2: 99})) == TimeWindow(None, 12)
    assert await windows.advance(at({2: 100})) == TimeWindow(10, 22)
    assert await windows.advance(at({2: 250})) == TimeWindow(20, 32)
    assert await windows.advance(at({3: 50, 4: 0})) == TimeWindow(20, 32)
    assert await windows.advance(at({3: 50, 4: 20})) == TimeWindow(30, None)
    marks.left.append(mark(40, 42, {3: 60, 4: 20}))
    assert await windows.advance(at({3: 50, 4: 20})) == TimeWindow(30, 42)


async def test_a_stream_without_watermarks_has_no_window():
    assert await TimeWindows(Marks(), Ranges()).advance(at({0: 0, 1: 0})) == TimeWindow(None, None)


async def test_a_position_of_another_stream_is_refused():
    with pytest.raises(InvalidArgumentError):
        await TimeWindows(Marks(), Ranges()).advance(StreamCut("s", "other", {0: 0}))
    with pytest.raises(InvalidArgumentError):
        await TimeWindows(Marks(), Ranges()).advance(StreamCut("", ""))


@pytest.mark.slow
async def test_very_many_watermarks_that_are_passed_in_part_are_thinned_out():
    many = [mark(number, number, {0: number, 1: number}) for number in range(1, 60_000)]
    windows = TimeWindows(Marks(*many), Ranges())
    assert await windows.advance(at({0: 60_000, 1: 0})) == TimeWindow(None, 59_999)
    found = await windows.advance(at({0: 60_000, 1: 30_000}))
    assert found.upper == 59_999
    assert 29_990 <= found.lower <= 30_000


@given(st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=6), st.data())
def test_a_window_that_was_reached_step_by_step_is_that_of_the_last_step(steps, data):
    """Cuts and positions ascend; the window depends on the position alone."""
    cuts, place = [], [0, 0]
    for step in steps:
        place = [here + more for here, more in zip(place, step, strict=True)]
        cuts.append(place)
    marks = [mark(time, time + 1, dict(enumerate(cut))) for time, cut in enumerate(cuts)]
    positions = sorted(data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=5)))
    pairs = [(position, data.draw(st.integers(0, 3))) for position in positions]

    async def run():
        followed = TimeWindows(Marks(*marks), Ranges())
        low = 0
        for position, more in pairs:
            low = max(low, position + more)
            found = await followed.advance(at({0: position, 1: low}))
        assert found == await TimeWindows(Marks(*marks), Ranges()).advance(at({0: position, 1: low}))
        if found.lower is not None:
            assert all(
                offset <= here for offset, here in zip(cuts[found.lower], (position, low), strict=True)
            )

    asyncio.run(run())
