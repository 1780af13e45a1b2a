from __future__ import annotations

import asyncio

import pytest

from headrace.errors import ContainerOfflineError
from headrace.segmentstore.readindex.tail_waiters import TailWaiters


async def test_only_reads_below_the_new_length_are_woken():
    waiters = TailWaiters()
    near, far = waiters.add(5), waiters.add(10)
    waiters.wake_below(10)
    assert near.done()
    assert not far.done()
    assert len(waiters) == 1


async def test_a_woken_waiter_is_forgotten_and_not_woken_again():
    waiters = TailWaiters()
    waiter = waiters.add(0)
    waiters.wake_all()
    waiters.wake_all()
    waiters.fail_all(ContainerOfflineError("late"))
    assert await waiter is None


async def test_cancelled_waiters_do_not_disturb_the_others():
    waiters = TailWaiters()
    gone, here = waiters.add(1), waiters.add(1)
    gone.cancel()
    waiters.wake_below(2)
    assert here.done()
    assert not len(waiters)


async def test_failing_reaches_everybody():
    waiters = TailWaiters()
    futures = [waiters.add(offset) for offset in range(3)]
    waiters.fail_all(ContainerOfflineError("stop"))
    for future in futures:
        with pytest.raises(ContainerOfflineError):
            await future


async def test_ten_thousand_waiters_are_woken_in_one_pass():
    waiters = TailWaiters()
    futures = [waiters.add(offset) for offset in range(10_000)]
    waiters.wake_below(10_000)
    await asyncio.gather(*futures)
    assert not len(waiters)
