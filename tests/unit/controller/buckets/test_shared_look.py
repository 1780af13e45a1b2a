import asyncio

import pytest

from headrace.controller.buckets.shared_look import SharedLook


async def test_buckets_that_are_claimed_together_share_a_look():
    looks, begun, may_end = [], asyncio.Event(), asyncio.Event()

    async def look(buckets):
        looks.append(buckets)
        begun.set()
        await may_end.wait()

    shared = SharedLook(look)
    first = [asyncio.ensure_future(shared.run(bucket)) for bucket in range(5)]
    await begun.wait()
    late = [asyncio.ensure_future(shared.run(bucket)) for bucket in (5, 1)]
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(*first, *late)
    assert looks == [frozenset(range(5)), frozenset({1, 5})]


async def test_another_one_looks_when_the_one_that_looks_is_cancelled_or_fails():
    looks, leaders, begun, may_end = [], [], asyncio.Event(), asyncio.Event()

    async def look(buckets):
        looks.append(buckets)
        begun.set()
        leaders.append(asyncio.current_task())
        await may_end.wait()
        if len(looks) == 2:
            raise ValueError("once")

    shared = SharedLook(look)
    tasks = [asyncio.ensure_future(shared.run(bucket)) for bucket in range(3)]
    await begun.wait()
    leaders[0].cancel()
    may_end.set()
    await asyncio.wait(tasks)
    assert [len(buckets) for buckets in looks] == [3, 2, 1]
    assert {*leaders} == {*tasks}
    assert leaders[0].cancelled()
    with pytest.raises(ValueError, match="once"):
        leaders[1].result()
    assert leaders[2].result() is None
