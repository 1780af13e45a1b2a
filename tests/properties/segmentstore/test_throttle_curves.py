"""Every source of delay: nothing at the threshold, never above the maximum, never less for more load."""

import dataclasses
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.durablelog.throttle import (
    cache_pressure,
    memory_log_size,
    storage_backlog,
    wal_queue,
)
from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig

BYTES = st.integers(0, 1 << 62)
SECONDS = st.floats(0, 600, allow_nan=False)
CONFIGS = st.builds(
    ThrottleConfig,
    delay_max_s=SECONDS,
    delay_half_s=SECONDS,
    backlog_share=st.floats(0, 1),
    cache_share=st.floats(0, 1),
    memory_log_share=st.floats(0, 1),
    wal_queue_s=SECONDS,
)


@given(CONFIGS, BYTES, BYTES, st.integers(1, 1 << 40))
def test_storage_backlog_delays_more_the_more_is_behind(config, one, other, bytes_max):
    low, high = (storage_backlog.delay_s(each, bytes_max, config) for each in sorted((one, other)))
    assert 0 <= low <= high <= config.delay_max_s
    assert storage_backlog.delay_s(int(config.backlog_share * bytes_max), bytes_max, config) == 0
    assert storage_backlog.delay_s(bytes_max + 1, bytes_max, config) == config.delay_max_s


@given(CONFIGS, st.floats(0, 4), st.floats(0, 4))
def test_cache_pressure_delays_more_the_more_is_taken(config, one, other):
    low, high = (cache_pressure.delay_s(each, config) for each in sorted((one, other)))
    assert 0 <= low <= high <= config.delay_max_s
    assert cache_pressure.delay_s(config.cache_share, config) == 0
    assert cache_pressure.delay_s(1.01, config) == config.delay_max_s


@given(CONFIGS, st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 1 << 30))
def test_memory_log_delays_more_the_more_operations_wait(config, one, other, count_max):
    low, high = (memory_log_size.delay_s(each, count_max, config) for each in sorted((one, other)))
    assert 0 <= low <= high <= config.delay_max_s
    assert memory_log_size.delay_s(int(config.memory_log_share * count_max), count_max, config) == 0
    assert memory_log_size.delay_s(count_max + 1, count_max, config) == config.delay_max_s


@given(CONFIGS, st.integers(0, 1024), st.integers(0, 1024), st.integers(0, 8), SECONDS, SECONDS)
def test_the_log_delays_more_the_longer_its_queue_and_its_writes(config, one, other, in_flight, short, long):
    delay = partial(wal_queue.delay_s, config=config)
    fewer, more = sorted((one, other))
    faster, slower = sorted((short, long))
    assert 0 <= delay(fewer, in_flight, faster) <= delay(more, in_flight, faster) <= config.delay_max_s
    assert delay(fewer, in_flight, faster) <= delay(fewer, in_flight, slower)
    assert delay(more, 0, slower) == 0


@pytest.mark.parametrize("part", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_every_part_of_the_band_belongs_to_as_many_rates_as_any_other(part):
    """The rate is a burst per delay: (1 - part) / part of the rate half way."""
    config = ThrottleConfig(cache_share=0.0, delay_half_s=0.01, delay_max_s=1e9)
    rate = 1 / cache_pressure.delay_s(part, config)
    assert rate == pytest.approx(100 * (1 - part) / part)


def test_the_log_at_its_threshold_does_not_delay():
    config = dataclasses.replace(ThrottleConfig(), wal_queue_s=2.0)
    assert wal_queue.delay_s(4, 2, 1.0, config) == 0
    assert wal_queue.delay_s(6, 2, 1.0, config) == pytest.approx(1.0)
    assert wal_queue.delay_s(1000, 2, 1.0, config) == config.delay_max_s
