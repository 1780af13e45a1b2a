import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.policies import (
    SEGMENTS_MAX,
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)


def test_a_stream_has_one_fixed_segment_and_keeps_everything_unless_told_otherwise():
    configuration = StreamConfiguration()
    assert configuration.scaling == ScalingPolicy.fixed(1)
    assert configuration.retention.kind is RetentionKind.NONE


def test_rates_are_per_segment_and_carry_their_unit_in_the_kind():
    assert ScalingPolicy.by_event_rate(100).kind is ScalingKind.EVENTS_PER_SECOND
    assert ScalingPolicy.by_data_rate(100).kind is ScalingKind.KILOBYTES_PER_SECOND
    assert RetentionPolicy.by_time(5).kind is RetentionKind.TIME
    assert RetentionPolicy.by_size(5, 6).maximum == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScalingPolicy.fixed(0),
        lambda: ScalingPolicy.fixed(SEGMENTS_MAX + 1),
        lambda: ScalingPolicy.by_event_rate(0),
        lambda: ScalingPolicy.by_event_rate(1, -1),
        lambda: ScalingPolicy.by_event_rate(1, 0),
        lambda: ScalingPolicy.by_data_rate(1, 0),
        lambda: RetentionPolicy.by_time(-1),
        lambda: RetentionPolicy.by_time(0),
        lambda: RetentionPolicy.by_size(0, 100),
        lambda: RetentionPolicy.by_time(5, 4),
        lambda: StreamConfiguration(tags=frozenset(str(number) for number in range(128))),
        lambda: StreamConfiguration(tags=frozenset({"x" * 256})),
        lambda: StreamConfiguration(tags=frozenset({""})),
        lambda: StreamConfiguration(rollover_size_bytes=-1),
        lambda: ScalingPolicy.by_event_rate(1 << 31),
        lambda: ScalingPolicy.by_data_rate(1, 1 << 31),
        lambda: RetentionPolicy.by_size(1, 1 << 63),
        lambda: RetentionPolicy.by_time(1 << 63),
        lambda: StreamConfiguration(timestamp_timeout_ms=1 << 63),
        lambda: StreamConfiguration(rollover_size_bytes=1 << 63),
    ],
)
def test_what_cannot_be_kept_is_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_a_policy_of_another_client_is_read_though_ours_makes_none_like_it():
    with pytest.raises(InvalidArgumentError, match="scale factor of 0"):
        ScalingPolicy.by_event_rate(1, 0)
    assert ScalingPolicy(ScalingKind.EVENTS_PER_SECOND, 1, 0, 1).scale_factor == 0
