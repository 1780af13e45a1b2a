import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.policies import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfig,
    check_stream_config,
)


def test_a_stream_has_one_fixed_segment_and_keeps_everything_unless_told_otherwise():
    config = check_stream_config(StreamConfig())
    assert config.scaling == ScalingPolicy.fixed(1)
    assert config.retention == RetentionPolicy.none()


def test_the_unit_of_a_rate_or_bound_is_in_its_type():
    assert ScalingPolicy.by_event_rate(100).scale_type is ScaleType.EVENTS_PER_SECOND
    assert ScalingPolicy.by_data_rate(100).scale_type is ScaleType.KILOBYTES_PER_SECOND
    assert RetentionPolicy.by_time(5).retention_type is RetentionType.TIME
    assert RetentionPolicy.by_size(5, 6).keep_max == 6


@pytest.mark.parametrize(
    "config",
    [
        StreamConfig(ScalingPolicy.fixed(0)),
        StreamConfig(ScalingPolicy.by_event_rate(0)),
        StreamConfig(ScalingPolicy.by_event_rate(1, -1)),
        StreamConfig(retention=RetentionPolicy.by_time(-1)),
        StreamConfig(tags=tuple(str(number) for number in range(128))),
        StreamConfig(tags=("x" * 256,)),
        StreamConfig(tags=("",)),
        StreamConfig(rollover_bytes=-1),
    ],
)
def test_what_cannot_be_kept_is_refused(config):
    with pytest.raises(InvalidArgumentError):
        check_stream_config(config)
