from __future__ import annotations

import asyncio
import random

import pytest

from headrace.errors import ContainerOfflineError
from headrace.segmentstore.readindex.tail_waiters import WOKEN_AT_ONCE, TailWaiters
from tests.effort import seeds


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


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["bytes", "change", "end"])
async def test_ten_thousand_waiters_are_woken_in_portions(reason):
    """Each is a read that looks again and answers: together they would hold up the loop for 80 ms."""
    waiters = TailWaiters()
    futures = [waiters.add(offset) for offset in range(10_000)]
    far = waiters.add(1_000_000)
    match reason:
        case "bytes":
            waiters.wake_below(10_000)
        case "change":
            waiters.wake_all()
        case "end":
            waiters.fail_all(ContainerOfflineError("stop"))
    done, turns = 0, 0
    while done < len(futures):
        before, done = done, sum(future.done() for future in futures)
        assert 0 < done - before <= WOKEN_AT_ONCE
        waiters.check()
        turns += 1
        await asyncio.sleep(0)
    assert turns == 20
    assert far.done() == (reason != "bytes")
    assert all(isinstance(each.exception(), ContainerOfflineError) == (reason == "end") for each in futures)
    assert len(waiters) == (reason == "bytes")


async def test_appends_while_readers_are_woken_wake_no_more_of_them_at_once():
    waiters = TailWaiters()
    futures = [waiters.add(offset) for offset in range(5 * WOKEN_AT_ONCE)]
    for length in range(WOKEN_AT_ONCE + 1, 5 * WOKEN_AT_ONCE + 1):
        waiters.wake_below(length)
    assert sum(future.done() for future in futures) == WOKEN_AT_ONCE
    futures[-1].cancel()
    waiters.discard(futures[-1])
    await asyncio.wait(futures)
    waiters.check()
    assert not len(waiters)


async def test_who_waits_again_while_readers_are_woken_waits_for_something_new():
    """A read of bytes that are neither here nor in storage waits below the length: no loop without end."""
    waiters = TailWaiters()
    looks = 0

    async def look():
        nonlocal looks
        while True:
            await waiters.add(1)
            looks += 1

    readers = [asyncio.ensure_future(look()) for _ in range(3 * WOKEN_AT_ONCE)]
    await asyncio.sleep(0)
    waiters.wake_below(2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert looks == len(readers) == len(waiters)
    for reader in readers:
        reader.cancel()


async def test_who_is_yet_to_be_woken_when_the_segment_goes_is_told_so():
    waiters = TailWaiters()
    futures = [waiters.add(0) for _ in range(2 * WOKEN_AT_ONCE)]
    waiters.wake_below(1)
    waiters.fail_all(ContainerOfflineError("stop"))
    await asyncio.wait(futures)
    assert sum(future.exception() is None for future in futures) == WOKEN_AT_ONCE
    assert not len(waiters)


class CountedOffset(int):
    looks = 0

    def __lt__(self, other):
        CountedOffset.looks += 1
        return int(self) < int(other)


@pytest.mark.slow
async def test_an_append_does_not_look_at_those_who_wait_far_away():
    waiters = TailWaiters()
    far = [waiters.add(CountedOffset(1_000_000 + number)) for number in range(10_000)]
    CountedOffset.looks = 0
    for length in range(1000):
        near = waiters.add(CountedOffset(length))
        waiters.wake_below(length + 1)
        assert near.done()
    assert CountedOffset.looks < 1000 * 40
    assert not any(waiter.done() for waiter in far)
    waiters.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40))
async def test_everybody_below_the_length_is_woken_whoever_came_and_went(seed):
    draw = random.Random(seed)
    waiters = TailWaiters()
    here: dict[asyncio.Future[None], int] = {}
    for _ in range(600):
        match draw.randrange(8):
            case 0 | 1 | 2 | 3:
                offset = draw.randrange(1000)
                here[waiters.add(offset)] = offset
            case 4 | 5 if here:
                waiter = draw.choice(list(here))
                del here[waiter]
                waiter.cancel()
                waiters.discard(waiter)
            case 6:
                length = draw.randrange(300)
                waiters.wake_below(length)
                for waiter in [waiter for waiter, offset in here.items() if offset < length]:
                    assert waiter.done()
                    del here[waiter]
            case 7 if draw.random() < 0.05:
                waiters.wake_all()
                assert all(waiter.done() for waiter in here)
                here.clear()
        assert not any(waiter.done() for waiter in here)
        assert len(waiters) == len(here)
        waiters.check()
