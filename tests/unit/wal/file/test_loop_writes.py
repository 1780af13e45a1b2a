"""When the loop writes to the log itself, and when it leaves that to threads."""

import pytest

from headrace.limits import KIB
from headrace.wal.loop_writes import (
    IN_FLIGHT_MAX,
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    STALL_FACTOR,
    STALL_S,
    LoopWrites,
    LoopWritesConfig,
)

QUICK_S = 0.0001
SLOW_S = 0.008
SMALL = 4 * KIB


class Clock:
    """Time that passes with writes."""

    def __init__(self):
        self.now = 1000.0
        self.writes = LoopWrites(LoopWritesConfig())

    @property
    def allowed(self):
        return self.writes.allows(SMALL, self.now)

    def write(self, *seconds):
        """Make writes of such lengths as long as that is allowed; return how many were made."""
        for number, length in enumerate(seconds):
            if not self.allowed:
                return number
            self.now += length
            self.writes.add(length, self.now)
        return len(seconds)

    def write_for(self, seconds, length):
        """Make writes of this length for so long, on the loop if it may; return the part they took of it."""
        began, spent = self.now, 0.0
        while self.now < began + seconds:
            made = self.write(length)
            spent += made * length
            self.now += 0.001 if made else 0.1
        return spent / (self.now - began)

    @property
    def statistics(self):
        return self.writes.statistics()


@pytest.fixture
def clock():
    return Clock()


def test_small_writes_are_made_here_and_large_ones_are_not(clock):
    writes = clock.writes
    assert writes.allows(16 * KIB, 0.0)
    assert not writes.allows(16 * KIB + 1, 0.0)


def test_many_logs_at_work_have_threads(clock):
    clock.writes.in_flight = IN_FLIGHT_MAX
    assert clock.allowed
    clock.writes.in_flight += 1
    assert not clock.allowed


def test_none_is_made_here_if_none_is_to_be():
    writes = LoopWrites(LoopWritesConfig(log_write_bytes_max=0))
    assert not writes.allows(1, 0.0)


def test_a_quick_disk_with_a_slow_write_now_and_then_keeps_its_loop(clock):
    for _ in range(100):
        assert clock.write(SLOW_S, *99 * [QUICK_S]) == 100
    assert clock.statistics.pauses == 0
    assert clock.statistics.write_seconds_mean < 0.0005


def test_a_slow_disk_has_three_writes_and_then_a_pause(clock):
    assert clock.write(*10 * [SLOW_S]) == 3
    assert clock.statistics.pauses == 1
    clock.now += PAUSE_S_MIN - 0.001
    assert not clock.allowed
    clock.now += 0.002
    assert clock.allowed


def test_the_pauses_of_a_slow_disk_get_longer_up_to_a_bound(clock):
    lengths = []
    for _ in range(14):
        clock.write(*10 * [SLOW_S])
        lengths.append(clock.statistics.pause_seconds_last)
        clock.now += lengths[-1]
    assert lengths[:4] == [PAUSE_S_MIN, 2 * PAUSE_S_MIN, 4 * PAUSE_S_MIN, 8 * PAUSE_S_MIN]
    assert lengths[-1] == PAUSE_S_MAX


@pytest.mark.slow
def test_who_was_quick_for_long_begins_with_short_pauses_again(clock):
    for _ in range(5):
        clock.write(*10 * [SLOW_S])
        clock.now += clock.statistics.pause_seconds_last
    clock.write_for(90.0, QUICK_S)
    clock.write(*100 * [SLOW_S])
    assert clock.statistics.pause_seconds_last == PAUSE_S_MIN


def test_the_mean_begins_anew_behind_a_pause(clock):
    clock.write(*10 * [SLOW_S])
    clock.now += PAUSE_S_MIN
    assert clock.write(*10 * [QUICK_S]) == 10
    assert clock.statistics.pauses == 1


def test_one_stall_is_enough_and_its_pause_is_in_proportion(clock):
    assert clock.write(*100 * [QUICK_S], 0.999 * STALL_S) == 101
    assert clock.allowed
    assert clock.write(0.1, QUICK_S) == 1
    assert clock.statistics.pause_seconds_last == pytest.approx(0.1 * STALL_FACTOR)
    clock.now += 0.1 * STALL_FACTOR
    assert clock.allowed


def test_a_stall_of_a_minute_is_forgiven_some_day(clock):
    clock.write(60.0)
    assert clock.statistics.pause_seconds_last == PAUSE_S_MAX


@pytest.mark.slow
@pytest.mark.parametrize("length", [0.001, 0.004, SLOW_S, 0.015, STALL_S, 0.1, 1.0])
def test_a_slow_disk_takes_a_small_part_of_the_loops_time(clock, length):
    assert clock.write_for(4000.0, length) < 0.01


def test_statistics_tell_what_it_took(clock):
    clock.write(0.001, 0.002)
    found = clock.statistics
    assert (found.writes, found.write_seconds_max) == (2, 0.002)
    assert found.write_seconds_total == pytest.approx(0.003)
    clock.write(0.001)
    assert found.writes == 2  # a copy
