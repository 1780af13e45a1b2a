"""Locks by name: in order of arrival, together without deadlock, and never lost to a cancelled waiter."""

import asyncio

from headrace.storage.chunks.segment_locks import SegmentLocks


async def take_turns(locks, log, number, *names):
    async with locks.hold(*names):
        log.append(number)
        await asyncio.sleep(0)
        log.append(number)


async def test_holders_of_one_name_follow_each_other_in_order_of_arrival():
    locks, log = SegmentLocks(), []
    await asyncio.gather(*(take_turns(locks, log, number, "s") for number in range(50)))
    assert log == [number for number in range(50) for _ in range(2)]
    assert len(locks) == 0


async def test_holders_of_several_names_do_not_wait_for_each_other_for_ever():
    locks, log = SegmentLocks(), []
    names = [("a", "b"), ("b", "a"), ("a",), ("b", "c"), ("c", "a"), ("a", "a")] * 20
    async with asyncio.timeout(60):
        await asyncio.gather(*(take_turns(locks, log, n, *pair) for n, pair in enumerate(names)))
    assert len(log) == 2 * len(names)
    assert len(locks) == 0


async def test_a_waiter_that_gives_up_at_any_moment_does_not_keep_the_lock():
    for turns in range(6):
        locks, log = SegmentLocks(), []
        waiting = [asyncio.ensure_future(take_turns(locks, log, number, "a", "b")) for number in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert log.count(2) == 2
        assert len(locks) == 0
