import pytest

from headrace.errors import InvalidArgumentError, ThrottledError
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.retry import RetryPolicy, retry

NOW = RetryPolicy(initial_s=0, multiplier=2, delay_max_s=0, attempts=3)


class Failing:
    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_overload_is_retried_until_it_ends():
    fn = Failing(ThrottledError(), ThrottledError())
    assert await retry(NOW, fn, entropy=SeededEntropy(0)) == "done"
    assert fn.calls == 3


async def test_the_last_error_is_raised_when_the_attempts_are_used_up():
    last = ThrottledError("third")
    fn = Failing(ThrottledError("first"), ThrottledError("second"), last)
    with pytest.raises(ThrottledError) as raised:
        await retry(NOW, fn, entropy=SeededEntropy(0))
    assert raised.value is last
    assert fn.calls == 3


async def test_what_is_not_retryable_is_raised_at_once():
    fn = Failing(InvalidArgumentError("no"))
    with pytest.raises(InvalidArgumentError):
        await retry(NOW, fn, entropy=SeededEntropy(0))
    assert fn.calls == 1


@pytest.mark.parametrize("retryable", [KeyError, (ValueError, KeyError), lambda e: e.args == ("x",)])
async def test_classes_tuples_and_predicates_say_what_is_retryable(retryable):
    fn = Failing(KeyError("x"))
    assert await retry(NOW, fn, entropy=SeededEntropy(0), retryable=retryable) == "done"


async def test_each_wait_is_announced_with_count_error_and_delay():
    said = []
    policy = RetryPolicy(initial_s=0.0001, multiplier=2, delay_max_s=0.001, attempts=5)
    fn = Failing(ThrottledError("a"), ThrottledError("b"))
    await retry(policy, fn, entropy=SeededEntropy(0), on_retry=lambda *told: said.append(told))
    assert [(n, str(e)) for n, e, _ in said] == [(1, "a"), (2, "b")]
    assert 0.00005 <= said[0][2] <= 0.0001
    assert 0.0001 <= said[1][2] <= 0.0002


def test_delays_grow_to_their_maximum_and_jitter_keeps_half():
    policy = RetryPolicy(initial_s=1, multiplier=3, delay_max_s=10, attempts=100)
    assert [policy.delay_s(n, 0.999999) for n in (1, 2, 3, 4)] == pytest.approx([1, 3, 9, 10], rel=1e-5)
    assert [policy.delay_s(n, 0.0) for n in (1, 2, 3, 4)] == [0.5, 1.5, 4.5, 5]


def test_ten_thousand_failures_do_not_overflow_the_delay():
    assert RetryPolicy(delay_max_s=7).delay_s(10_000, 0.0) == 3.5
