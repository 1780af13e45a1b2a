import pytest

from headrace.cli.stream.update import StreamChanges, changed, check_any
from headrace.errors import InvalidArgumentError
from headrace.model.policies import RetentionPolicy, ScalingPolicy, StreamConfiguration

BEFORE = StreamConfiguration(
    scaling=ScalingPolicy.by_event_rate(100, 3, 2),
    retention=RetentionPolicy.by_time(1000),
    tags=frozenset({"a", "b"}),
    timestamp_timeout_ms=7,
    rollover_size_bytes=9,
)


def after(**changes):
    return changed(BEFORE, StreamChanges(**changes))


@pytest.mark.parametrize(
    ("changes", "scaling"),
    [
        ({"segments_min": 4}, ScalingPolicy.by_event_rate(100, 3, 4)),
        ({"events_per_second": 7}, ScalingPolicy.by_event_rate(7, 3, 2)),
        ({"kib_per_second": 8, "scale_factor": 2}, ScalingPolicy.by_data_rate(8, 2, 2)),
        ({"fixed": True}, ScalingPolicy.fixed(2)),
    ],
)
def test_what_is_given_of_scaling_changes_and_nothing_else(changes, scaling):
    found = after(**changes)
    assert found.scaling == scaling
    assert (found.retention, found.tags) == (BEFORE.retention, BEFORE.tags)
    assert (found.timestamp_timeout_ms, found.rollover_size_bytes) == (7, 9)


@pytest.mark.parametrize(
    ("changes", "retention"),
    [
        ({"retention": RetentionPolicy.by_time(5)}, RetentionPolicy.by_time(5)),
        ({"retention": RetentionPolicy.by_size(6)}, RetentionPolicy.by_size(6)),
        ({"retention": RetentionPolicy.none()}, RetentionPolicy.none()),
    ],
)
def test_what_is_given_of_retention_changes_and_nothing_else(changes, retention):
    found = after(**changes)
    assert (found.retention, found.scaling, found.tags) == (retention, BEFORE.scaling, BEFORE.tags)


def test_tags_are_added_and_removed():
    assert after(tags_added=("c",), tags_removed=("a", "z")).tags == {"b", "c"}


@pytest.mark.parametrize(
    "changes",
    [
        {"tags_added": ("c",), "tags_removed": ("c",)},
        {"fixed": True, "scale_factor": 2},
        {"scale_factor": 0},
        {"segments_min": 0},
    ],
)
def test_what_contradicts_itself_is_refused(changes):
    with pytest.raises(InvalidArgumentError):
        after(**changes)


def test_nothing_to_change_is_no_change():
    with pytest.raises(InvalidArgumentError, match="nothing is to be changed"):
        check_any(StreamChanges())


def test_a_factor_that_other_clients_left_out_is_two():
    bare = StreamConfiguration(scaling=ScalingPolicy(ScalingPolicy.by_event_rate(5).kind, 5, 0, 1))
    assert changed(bare, StreamChanges(segments_min=3)).scaling == ScalingPolicy.by_event_rate(5, 2, 3)
