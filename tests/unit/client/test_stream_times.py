"""What is asked for by a datetime or a number."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from headrace.client.control.stream_times import asked_ms
from headrace.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("time", "time_ms"),
    [
        (0, 0),
        (1_700_000_000_123, 1_700_000_000_123),
        (datetime(2023, 11, 14, 22, 13, 20, 1_999, tzinfo=UTC), 1_700_000_000_001),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), 1_700_000_000_000),
        (datetime.fromtimestamp(1_700_000_000), 1_700_000_000_000),  # noqa: DTZ006 - the local zone
    ],
)
def test_a_time_is_milliseconds_since_1970(time, time_ms):
    assert asked_ms(time) == time_ms


@pytest.mark.parametrize("time", [-1, 1 << 63, datetime(1969, 1, 1, tzinfo=UTC), datetime.min])  # noqa: DTZ901
def test_a_time_that_nothing_happened_at_is_refused(time):
    with pytest.raises(InvalidArgumentError):
        asked_ms(time)


@pytest.mark.parametrize("time", ["2026-11-25", 1.5, None, date(2026, 11, 25)])
def test_what_is_of_another_type_is_refused(time):
    with pytest.raises(InvalidArgumentError, match=type(time).__name__):
        asked_ms(time)
