"""Which cuts of a stream are remembered, and which answers for a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.policies.cut_series import (
    BLOCK_BYTES_MAX,
    BLOCK_SAMPLES_MAX,
    DAY_MS,
    LEVEL_BLOCKS_MAX,
    LEVEL_BYTES_MAX,
    BlockPlace,
    Level,
    add_sample,
    blocks_of,
    find_block,
    find_sample,
    levels_of,
)
from headrace.controller.store.rows.cut_series_row import (
    CutSample,
    SeriesRow,
    decode_block,
    decode_series,
    encode_block,
    encode_series,
)
from tests.effort import examples

START_MS = 1_700_000_000_000
SMALL = (Level(10, 60), Level(60, 600), Level(600, 6000))
"""As the real levels, with a thousandth of the time."""


class Series:
    """A series in its rows, as a store has them."""

    def __init__(self, levels=SMALL):
        self.levels = levels
        self.row = SeriesRow(())
        self.blocks = {}
        self.taken = []
        """Every sample as it was taken, under the time it got."""

    def add(self, time_ms, offsets):
        added = add_sample(self.row, CutSample(time_ms, tuple(sorted(offsets.items()))), self.levels)
        if added is None:
            return
        self.row = decode_series(encode_series(added.row))
        for place, block in added.written:
            assert place not in self.blocks
            self.blocks[place] = encode_block(block)
        for place in added.dropped:
            self.blocks.pop(place, None)
        assert set(self.blocks) == set(blocks_of(self.row))
        self.taken.append(self.row.last())

    def find(self, time_ms):
        found = find_block(self.row, time_ms)
        if isinstance(found, BlockPlace):
            return find_sample(decode_block(self.blocks[found]), time_ms)
        return found

    def level(self, index):
        """Return all samples of a level, oldest first."""
        level = self.row.levels[index]
        numbers = range(level.first_block, level.next_block)
        blocks = [decode_block(self.blocks[BlockPlace(index, number)]) for number in numbers]
        return [sample for block in (*blocks, level.samples) for sample in block]


def stream_of(steps):
    """Return the series after (pause, growth, is scaled) each, sampled whenever it changed."""
    series, time_ms, epoch, length = Series(), START_MS, 0, 0
    for pause_ms, growth, is_scaled in steps:
        time_ms += pause_ms
        epoch, length = (epoch + 1, 0) if is_scaled else (epoch, length + growth)
        series.add(time_ms, {epoch << 32: length, (epoch << 32) + 1: length // 2})
    return series, time_ms


STEPS = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 9), st.integers(10, 200), st.integers(1000, 9000)),
        st.integers(0, 1000),
        st.sampled_from((False,) * 9 + (True,)),
    ),
    min_size=1,
    max_size=400,
)


@given(STEPS, st.data())
def test_what_is_left_out_is_no_longer_than_a_spacing(steps, data):
    series, now_ms = stream_of(steps)
    time_ms = data.draw(st.integers(max(START_MS, now_ms - 6000), now_ms + 100))
    best, found = find_sample(series.taken, time_ms), series.find(time_ms)
    if found is None:
        earlier = [each for each in series.taken if each.time_ms <= time_ms]
        assert all(each.time_ms // 10 == series.taken[0].time_ms // 10 for each in earlier) or (
            now_ms - time_ms >= 60
        )
        return
    assert found in series.taken
    assert found.time_ms <= best.time_ms <= time_ms
    spacing_ms = next((each.spacing_ms for each in SMALL if now_ms - time_ms < each.age_ms), 600)
    left_out = [each for each in series.taken if found.time_ms < each.time_ms <= time_ms]
    assert all(time_ms - each.time_ms < spacing_ms for each in left_out)


@given(STEPS)
def test_times_and_cuts_of_a_level_increase(steps):
    series, _ = stream_of(steps)
    for index, level in enumerate(SMALL):
        samples = series.level(index)
        times = [each.time_ms for each in samples]
        assert times == sorted(set(times))
        windows = [time // level.spacing_ms for time in times]
        assert windows == sorted(set(windows))
        assert [each.offsets for each in samples] == sorted({each.offsets for each in samples})


@given(STEPS, st.data())
def test_the_answer_is_that_of_a_linear_search(steps, data):
    series, now_ms = stream_of(steps)
    time_ms = data.draw(st.integers(START_MS - 5, now_ms + 5))
    everything = sorted(
        (each for index in range(3) for each in series.level(index) if each.time_ms <= time_ms),
        key=lambda each: each.time_ms,
    )
    assert series.find(time_ms) == (everything[-1] if everything else None)


@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(1, 9)), min_size=1, max_size=100))
def test_a_clock_that_goes_back_makes_no_cut_look_older_than_it_is(steps):
    series, time_ms, length, highest = Series(), START_MS, 0, 0
    for pause_ms, growth in steps:
        time_ms += pause_ms
        length += growth
        highest = max(highest + 1, time_ms)
        series.add(time_ms, {0: length})
        assert series.row.last() == CutSample(highest, ((0, length),))
    assert [each.time_ms for each in series.taken] == sorted({each.time_ms for each in series.taken})


def test_a_stream_that_did_not_change_adds_nothing():
    series = Series()
    series.add(START_MS, {0: 5})
    assert add_sample(series.row, CutSample(START_MS + 100, ((0, 5),)), SMALL) is None


def test_a_length_that_was_looked_at_earlier_does_not_go_back():
    series = Series()
    series.add(START_MS, {0: 5, 1: 5})
    series.add(START_MS + 100, {0: 4, 1: 6})
    assert series.row.last().offsets == ((0, 5), (1, 6))


@pytest.mark.slow
def test_three_days_of_a_busy_stream_stay_within_the_bounds():
    series = Series(levels_of(10_000))
    for index in range(3 * 8640 // 10):
        series.add(START_MS + index * 100_000, {0: index * 100})  # three days, each 100 s
    fine, minutes, tens = (series.level(index) for index in range(3))
    assert len(fine) <= 36 + 2 * BLOCK_SAMPLES_MAX
    assert 864 <= len(minutes) <= 864 + 2 * BLOCK_SAMPLES_MAX
    assert len(tens) == 3 * 144
    assert len(encode_series(series.row)) < 8000
    assert series.find(START_MS + DAY_MS).time_ms > START_MS + DAY_MS - 600_000


@pytest.mark.slow
def test_large_cuts_are_bounded_by_their_bytes():
    series = Series()
    offsets = {(1 << 32) + index: 1 << 40 for index in range(2000)}
    for step in range(examples(400)):
        series.add(START_MS + step * 10, {each: offset + step * 1000 for each, offset in offsets.items()})
        for level in series.row.levels:
            assert sum(block.size_bytes for block in level.blocks) <= LEVEL_BYTES_MAX
            assert level.samples.size_bytes <= BLOCK_BYTES_MAX + 30_000
            assert len(level.blocks) <= LEVEL_BLOCKS_MAX
