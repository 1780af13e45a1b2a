import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.quantities import parse_bytes, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("4096", 4096), ("64 KiB", 65536), ("1.5GiB", 1610612736), ("10 MB", 10_000_000),
     ("8k", 8192), ("9007199254740993", 9007199254740993), ("1.5 TiB", 1649267441664), ("1 byte", 1),
     ("2TB", 2 * 10**12)],
)  # fmt: skip
def test_sizes_are_read_exactly(text, value):
    assert parse_bytes(text, unit_default=1) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("250", 250),
        ("250ms", 250),
        ("30 s", 30_000),
        ("1.5s", 1500),
        ("5min", 300_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("2h30m", 9_000_000),
        ("1 day 12 hours", 129_600_000),
        ("1min30.5s", 90_500),
    ],
)
def test_durations_are_read_in_milliseconds(text, value):
    assert parse_duration_ms(text, unit_default_ms=1) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1 PiB", "1.5 b", "1e3", "1 2", "٣", "nan", "1.", ".5", "1_000", "4096", "1GiB 5MiB"],
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_bytes(text)


@pytest.mark.parametrize(
    "text", ["", "1 y", "0.5ms", "s", "-3s", "30", "2h30", "5m", "30min 2h", "1h 1h", "2 2h", "h" * 2000]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_duration_ms(text)
