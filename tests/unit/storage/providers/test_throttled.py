"""Work that is not urgent asks no more of a store per second than it was given."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.throttled import ThrottledChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget, TokenBucket
from headrace.testing.simulation import simulate
from tests.unit.storage.chunks_at_hand import ChunksAtHand

AMOUNTS = st.floats(0.01, 100)


@given(
    rate=AMOUNTS,
    capacity=AMOUNTS,
    requests=st.lists(st.tuples(st.floats(0, 5), AMOUNTS), min_size=1, max_size=30),
)
def test_no_interval_has_more_than_capacity_rate_and_one_request(rate, capacity, requests):
    bucket, now, begun = TokenBucket(rate, capacity), 100.0, []
    for pause_s, amount in requests:
        now += pause_s
        begun.append((now + bucket.consume(amount, now), amount))
    assert begun == sorted(begun, key=lambda each: each[0])
    largest = max(amount for _, amount in begun)
    for first in range(len(begun)):
        for last in range(first, len(begun)):
            total = sum(amount for _, amount in begun[first : last + 1])
            passed_s = begun[last][0] - begun[first][0]
            assert total <= capacity + rate * passed_s + largest + 1e-6


@given(rate=AMOUNTS, capacity=AMOUNTS, requests=st.lists(AMOUNTS, min_size=1, max_size=30))
def test_no_request_waits_longer_than_what_came_before_takes(rate, capacity, requests):
    bucket, total = TokenBucket(rate, capacity), 0.0
    for amount in requests:
        total += amount
        assert bucket.consume(amount, 0.0) == pytest.approx(max(0.0, (total - capacity) / rate))


def test_a_clock_that_goes_back_adds_nothing():
    bucket = TokenBucket(1.0, 1.0)
    assert bucket.consume(1, 10.0) == 0
    assert bucket.consume(1, 5.0) == 1
    assert bucket.consume(1, 10.0) == 2
    assert bucket.consume(1, 12.0) == 1


@pytest.mark.parametrize("rates", [(0, None), (None, 0), (-1, None), (float("nan"), None)])
def test_a_rate_is_above_zero(rates):
    with pytest.raises(InvalidArgumentError):
        RequestBudget(*rates)


def elapsed(scenario, budget):
    """Return the virtual seconds that ``scenario`` takes with a throttled provider."""
    taken = []

    async def measure():
        provider = ThrottledChunkProvider(ChunksAtHand(MemoryChunkProvider()), budget)
        assert provider.local is None
        begin = asyncio.get_running_loop().time()
        await scenario(provider)
        taken.append(asyncio.get_running_loop().time() - begin)

    simulate(0, lambda _: measure())
    return taken[0]


def test_every_kind_of_call_and_every_page_is_a_request():
    async def scenario(provider):
        await provider.create("c")
        await provider.append("c", 0, [b"abc"])
        await provider.read("c", 0, 3)
        await provider.info("c")
        assert [len(page) async for page in provider.list()] == [1]  # and a look for the next page
        await provider.delete("c")

    assert elapsed(scenario, RequestBudget(requests_per_s=1)) == pytest.approx(6, abs=0.1)
    assert elapsed(scenario, RequestBudget(requests_per_s=0.5)) == pytest.approx(12, abs=0.1)
    assert elapsed(scenario, RequestBudget()) == pytest.approx(0, abs=0.1)


def test_bytes_are_counted_in_both_directions():
    async def scenario(provider):
        await provider.create("c", [bytes(500), bytes(500)])
        await provider.append("c", 1000, [bytes(1000)])
        await provider.read("c", 0, 2000)

    assert elapsed(scenario, RequestBudget(bytes_per_s=1000)) == pytest.approx(3, abs=0.1)


def test_those_who_share_a_budget_have_it_together():
    async def scenario(provider):
        other = ThrottledChunkProvider(provider.provider, budget)
        await provider.create("c")
        await asyncio.gather(*(each.info("c") for each in (provider, other) for _ in range(10)))

    budget = RequestBudget(requests_per_s=1)
    assert elapsed(scenario, budget) == pytest.approx(20, abs=0.1)
