import pytest

from headrace.cli.bench.results import Plan, Result
from headrace.errors import InvalidArgumentError


def test_rates_and_quantiles_are_those_of_the_load():
    found = Result("write", 1000, 2_000_000, 0.5, [float(number) for number in range(100, 0, -1)]).document()
    assert found["mb_per_s"] == 4.0
    assert found["events_per_s"] == 2000
    assert (found["p50_ms"], found["p95_ms"], found["p99_ms"]) == (51.0, 96.0, 100.0)


def test_a_load_without_times_or_seconds_has_no_quantiles_and_no_division_by_zero():
    found = Result("read", 0, 0, 0.0).document()
    assert found["p50_ms"] is None
    assert found["events_per_s"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"events": 0},
        {"size": 9 << 20},
        {"writers": 0},
        {"segments": 0},
        {"keys": 0},
        {"seconds": float("nan")},
        {"rate": 0},
        {"rate": 100_000, "seconds": 3600},
    ],
)
def test_a_plan_is_bounded(wrong):
    with pytest.raises(InvalidArgumentError, match="is outside"):
        Plan(**wrong)
    with pytest.raises(InvalidArgumentError, match=r"to 8388608$"):
        Plan(size=9 << 20)
