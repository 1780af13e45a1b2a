"""Calls of a controller that wait: when it is asked whether it is there, and when it is left."""

import asyncio

from headrace.client.control.call_watch import SLOW_S, CallWatch
from headrace.testing.simulation import simulate


def watched(scenario, *, is_there=True):
    """Return at which virtual seconds the controller was asked and left."""
    asked, left = [], []

    async def run(_):
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def answer():
            asked.append(loop.time() - began)
            return is_there

        watch = CallWatch(answer, lambda: left.append(loop.time() - began))
        await scenario(watch)
        watch.close()
        await asyncio.sleep(100)

    simulate(0, run)
    return asked, left


async def waits(watch, seconds, *, answered=True):
    watch.begin()
    await asyncio.sleep(seconds)
    watch.end(answered=answered)


def test_calls_that_are_answered_soon_ask_nothing():
    async def scenario(watch):
        for _ in range(50):
            await waits(watch, 0.9 * SLOW_S)

    assert watched(scenario, is_there=False) == ([], [])


def test_a_call_that_waits_while_others_are_answered_asks_nothing():
    async def scenario(watch):
        long = asyncio.ensure_future(waits(watch, 60))
        for _ in range(50):
            await waits(watch, 1.0)
        await waits(watch, 1.0)
        long.cancel()

    assert watched(scenario, is_there=False) == ([], [])


def test_a_controller_that_answers_the_short_question_is_waited_for():
    async def scenario(watch):
        await waits(watch, 60)

    asked, left = watched(scenario)
    assert len(asked) == 20
    assert left == []


def test_a_controller_that_does_not_is_left_once():
    async def scenario(watch):
        await asyncio.gather(*(waits(watch, 60, answered=False) for _ in range(5)))

    asked, left = watched(scenario, is_there=False)
    assert asked == left
    assert len(left) == 1
    assert abs(left[0] - SLOW_S) < 0.01


def test_a_deadline_is_no_sign_of_life():
    async def scenario(watch):
        long = asyncio.ensure_future(waits(watch, 60))
        for _ in range(10):
            await waits(watch, 1.0, answered=False)
        long.cancel()

    _, left = watched(scenario, is_there=False)
    assert abs(left[0] - SLOW_S) < 0.01
