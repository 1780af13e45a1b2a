"""What the meter of one segment says, with the defaults."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.segment_report import Load
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.segmentstore.scaling.traffic_meter import TrafficMeter

CONFIG = ScalingConfig()
TARGET = 100.0
STEP = CONFIG.sample_s


class Driven:
    """A meter with its time, and what it said."""

    def __init__(self, **settings):
        self.meter = TrafficMeter(ScalingConfig(**settings), TARGET, 0.0)
        self.now = 0.0
        self.said = []

    def flow(self, rate, seconds, **options):
        """Let events arrive at a rate; return what was reported meanwhile."""
        before, end = len(self.said), self.now + seconds
        while self.now < end - 1e-9:
            self.now += STEP
            self.meter.sample(self.now, rate * STEP, **options)
            self.judge()
        return [found.load for _, found in self.said[before:]]

    def judge(self):
        found = self.meter.judge(self.now)
        if found is not None:
            self.said.append((self.now, found))

    def commit(self, lifetime, amount):
        self.now += STEP
        self.meter.sample(self.now, 0.0, [(lifetime, amount)])
        self.judge()


def test_a_segment_at_its_target_is_neither_hot_nor_cold():
    assert Driven().flow(0.95 * TARGET, 7200) == []
    assert Driven().flow(0.55 * TARGET, 7200) == []


@pytest.mark.parametrize("before", [0.2, 0.5, 0.95])
def test_a_tenfold_step_is_reported_in_time_with_the_pieces_it_takes(before):
    driven = Driven()
    driven.flow(before * TARGET, 400)
    began = driven.now
    assert Load.HOT in driven.flow(10 * before * TARGET, 120)
    at, found = driven.said[0]
    assert at - began < 60
    assert 2 <= found.pieces <= max(2, 10 * before)
    assert found.permille <= 10_000 * before + 1


def test_a_single_burst_is_not_reported():
    driven = Driven()
    driven.flow(0.3 * TARGET, 400)
    assert driven.flow(10 * TARGET, STEP) + driven.flow(0.3 * TARGET, 400) == []


def test_a_new_segment_is_not_reported_hot_during_its_cool_down_and_a_hot_one_not_twice():
    driven = Driven()
    driven.flow(20 * TARGET, 100)
    times = [at for at, _ in driven.said]
    assert times[0] >= CONFIG.cool_down_s
    assert all(later - earlier >= CONFIG.cool_down_s for earlier, later in itertools.pairwise(times))
    assert [found.pieces for _, found in driven.said] == [20] * len(times)


def test_a_cold_segment_is_reported_again_and_again_until_it_is_warm():
    driven = Driven()
    assert driven.flow(0.2 * TARGET, 2000) == [Load.COLD] * 3
    first = driven.said[0][1]
    assert driven.said[0][0] == pytest.approx(CONFIG.cold_s, abs=2 * STEP)
    assert first.permille == pytest.approx(200, abs=1)
    assert first.valid_ms > 1000 * CONFIG.cold_s, "the next report comes before the mark ends"
    assert driven.flow(0.8 * TARGET, 300) == [Load.WARM]
    assert driven.flow(0.2 * TARGET, 400) == []


def test_a_silent_segment_is_reported_once():
    driven = Driven()
    driven.flow(0.8 * TARGET, 300)
    assert driven.flow(0.0, 86_400) == [Load.SILENT]
    assert driven.meter.rates == (0.0, 0.0, 0.0)
    assert driven.flow(0.01 * TARGET, 700)[:1] == [Load.COLD]


def test_a_load_that_returns_before_the_cold_time_ends_keeps_its_segments():
    driven = Driven()
    for _ in range(20):
        driven.flow(0.9 * TARGET, 60)
        driven.flow(0.0, CONFIG.cold_s - 120)
    assert driven.said == []


@pytest.mark.parametrize("lifetime", [30, 60, 300, 600])
def test_transactions_count_as_if_their_events_had_arrived_one_by_one(lifetime):
    driven = Driven()
    for _ in range(4000 // lifetime):
        driven.flow(0.0, lifetime - STEP)
        driven.commit(lifetime, 0.9 * TARGET * lifetime)
        assert max(driven.meter.rates) == pytest.approx(0.9 * TARGET, rel=0.12)
    assert driven.said == []


@pytest.mark.parametrize(("lifetime", "factor"), [(30, 1.1), (60, 1.1), (90, 1.2), (300, 1.5), (600, 1.5)])
def test_transactions_above_the_target_are_reported(lifetime, factor):
    driven = Driven()
    for _ in range(10):
        driven.flow(0.0, lifetime - STEP)
        driven.commit(lifetime, factor * TARGET * lifetime)
    driven.flow(0.0, 60)
    assert {found.load for _, found in driven.said} == {Load.HOT}


def test_only_hot_segments_are_judged_if_asked():
    meter = TrafficMeter(CONFIG, TARGET, 0.0)
    for index in range(1, 300):
        meter.sample(index * 3.0, 0.0)
        assert meter.judge(index * 3.0, only_hot=True) is None
    assert meter.judge(900.0).load is Load.SILENT


def test_time_that_does_not_pass_changes_nothing():
    meter = TrafficMeter(CONFIG, TARGET, 5.0)
    meter.sample(5.0, 1e9)
    meter.sample(4.0, 1e9)
    assert meter.rates == (0.0, 0.0, 0.0)


@given(
    st.lists(
        st.tuples(
            st.floats(0.01, 1000),
            st.floats(0, 1e12),
            st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e12)), max_size=3),
        ),
        max_size=40,
    )
)
def test_rates_are_never_above_the_highest_rate_there_was(samples):
    meter, now = TrafficMeter(CONFIG, TARGET, 0.0), 0.0
    bound = 0.0
    for elapsed, amount, merged in samples:
        now += elapsed
        bound += amount / elapsed + sum(part / max(lifetime, elapsed) for lifetime, part in merged)
        meter.sample(now, amount, merged)
        found = meter.judge(now)
        assert all(math.isfinite(rate) and 0 <= rate <= bound * 1.000001 for rate in meter.rates)
        if found is not None:
            assert found.permille <= 1 << 31
            assert (found.pieces >= 2) == (found.load is Load.HOT)
            assert (found.valid_ms > 0) == (found.load is Load.COLD)
