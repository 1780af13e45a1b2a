from datetime import UTC, datetime

import pytest

from headrace.errors import InvalidArgumentError
from headrace.runtime.times import parse_time_ms

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2026-11-25T10:00Z", int(datetime(2026, 11, 25, 10, tzinfo=UTC).timestamp()) * 1000),
        (
            "2026-11-25T12:00:00.250+02:00",
            int(datetime(2026, 11, 25, 10, tzinfo=UTC).timestamp()) * 1000 + 250,
        ),
        ("2026-11-25 10:00", int(datetime(2026, 11, 25, 10).timestamp()) * 1000),  # noqa: DTZ001
        (" 2026-11-25 ", int(datetime(2026, 11, 25).timestamp()) * 1000),  # noqa: DTZ001
        ("1h", NOW_MS - 3_600_000),
        ("1.5 min", NOW_MS - 90_000),
        ("100000d", 0),
    ],
)
def test_a_time_is_a_date_a_number_or_how_long_ago(text, time_ms):
    assert parse_time_ms(text, NOW_MS) == time_ms


@pytest.mark.parametrize(
    "text", ["", "noon", "2026-13-01", "10:00", "1901-01-01", "1 fortnight", "-5", "17", "9" * 5000 + "h"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_time_ms(text, NOW_MS)


def test_how_long_ago_needs_a_now():
    with pytest.raises(InvalidArgumentError, match="'1h' is no time"):
        parse_time_ms("1h")
