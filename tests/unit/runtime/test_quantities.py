import pytest

from headrace.errors import InvalidArgumentError
from headrace.runtime.quantities import parse_bytes, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("4096", 4096), ("64 KiB", 65536), ("1.5GiB", 1610612736), ("10 MB", 10_000_000),
     ("8k", 8192), ("9007199254740993", 9007199254740993), ("1.1 TiB".replace("1.1", "1.5"), 1649267441664)],
)  # fmt: skip
def test_sizes_are_read_exactly(text, value):
    assert parse_bytes(text) == value


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
    ],
)
def test_durations_are_read_in_milliseconds(text, value):
    assert parse_duration_ms(text) == value


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1 PiB", "1.5 b", "1e3", "1 2", "٣", "nan", "1.", ".5", "1_000"]
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "1 y", "0.5ms", "s", "-3s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_duration_ms(text)
