"""Every load: no delay at its threshold, never above the maximum, never less for more load."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.admission.throttle.load import Load, longest_delay

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


def delay(config, **load):
    return longest_delay(Load(**load), config)[0]


@given(CONFIGS, BYTES, BYTES, st.integers(1, 1 << 40))
def test_storage_backlog_delays_more_the_more_is_behind(config, one, other, bytes_max):
    low, high = (
        delay(config, unstored_bytes=each, unstored_bytes_max=bytes_max) for each in sorted((one, other))
    )
    assert 0 <= low <= high <= config.delay_max_s
    at_threshold = int(config.backlog_share * bytes_max * (1 - 1e-12))
    assert delay(config, unstored_bytes=at_threshold, unstored_bytes_max=bytes_max) == 0
    if config.backlog_share < 1:
        full = delay(config, unstored_bytes=bytes_max + 1, unstored_bytes_max=bytes_max)
        assert full == config.delay_max_s


@given(CONFIGS, st.floats(0, 4), st.floats(0, 4))
def test_cache_pressure_delays_more_the_more_is_taken(config, one, other):
    low, high = (delay(config, cache_pressure=each) for each in sorted((one, other)))
    assert 0 <= low <= high <= config.delay_max_s
    assert delay(config, cache_pressure=config.cache_share) == 0
    assert delay(config, cache_pressure=1.01) == config.delay_max_s


@given(CONFIGS, st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 1 << 30))
def test_memory_log_delays_more_the_more_operations_wait(config, one, other, count_max):
    low, high = (delay(config, operations=each, operations_max=count_max) for each in sorted((one, other)))
    assert 0 <= low <= high <= config.delay_max_s
    assert delay(config, operations=2 * count_max, operations_max=count_max) == config.delay_max_s


@given(CONFIGS, st.integers(0, 1024), st.integers(0, 1024), st.integers(0, 8), SECONDS, SECONDS)
def test_the_log_delays_more_the_longer_its_queue_and_its_writes(config, one, other, in_flight, short, long):
    def queue(frames, write_s):
        return delay(config, frames=frames, frames_in_flight=in_flight, write_s=write_s)

    fewer, more = sorted((one, other))
    faster, slower = sorted((short, long))
    assert 0 <= queue(fewer, faster) <= queue(more, faster) <= config.delay_max_s
    assert queue(more, faster) <= queue(more, slower) <= config.delay_max_s


def test_delays_do_not_add_up_and_the_longest_says_what_asks_for_it():
    config = ThrottleConfig(delay_half_s=0.05)
    backlog = Load(unstored_bytes=900, unstored_bytes_max=1000, cache_pressure=0.6)
    delay_s, source = longest_delay(backlog, config)
    assert source == "storage backlog"
    assert delay_s == longest_delay(dataclasses.replace(backlog, cache_pressure=0.0), config)[0]
    assert longest_delay(Load(), config) == (0.0, "")


@pytest.mark.parametrize("share", [0.5, 0.75])
def test_half_way_between_threshold_and_bound_a_load_asks_for_the_half_delay(share):
    config = ThrottleConfig(cache_share=share, delay_half_s=0.05)
    assert delay(config, cache_pressure=(1 + share) / 2) == pytest.approx(0.05)
