"""One call about many segments: in order, bounded, nothing after a failure."""

import asyncio

import pytest

from headrace.errors import InvalidArgumentError, NoSuchSegmentError
from headrace.limits import BULK_NAMES_MAX
from headrace.runtime.bulk import AT_ONCE, each_of


async def test_answers_are_in_order_and_calls_bounded():
    active, most = set(), 0

    async def call(name):
        nonlocal most
        active.add(name)
        most = max(most, len(active))
        await asyncio.sleep(0)
        active.discard(name)
        return name.upper()

    names = [f"a{number}" for number in range(3 * AT_ONCE + 5)]
    assert await each_of(names, call) == [name.upper() for name in names]
    assert most == AT_ONCE
    assert await each_of([], call) == []


async def test_after_a_failure_the_rest_is_not_called():
    called = []

    async def call(name):
        called.append(name)
        if name == "3":
            raise NoSuchSegmentError(name)

    with pytest.raises(NoSuchSegmentError):
        await each_of([str(number) for number in range(3 * AT_ONCE)], call)
    assert len(called) == AT_ONCE


async def test_too_many_segments_are_refused_before_any_call():
    async def call(name):
        raise AssertionError(name)

    with pytest.raises(InvalidArgumentError):
        await each_of(["a"] * (BULK_NAMES_MAX + 1), call)
