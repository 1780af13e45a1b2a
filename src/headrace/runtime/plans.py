"""Drives plans: algorithms written as generators that yield what they need and are sent what they asked for.

A plan holds no I/O, so the same function runs under asyncio (``run_plan``), in a unit test and in an offline
checker (``run_plan_inline``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Result = TypeVar("Result")


async def run_plan(
    plan: Generator[Request, Reply, Result], perform: Callable[[Request], Awaitable[Reply]]
) -> Result:
    """Perform every request of ``plan`` in order and return what the plan returns.

    A failure of ``perform`` is thrown into the plan at the point which asked, so that the plan can choose
    another path or give up. Cancellation is not a failure: it closes the plan and propagates.
    """
    try:
        request = next(plan)
        while True:
            try:
                reply = await perform(request)
            except Exception as error:  # noqa: BLE001 - the plan decides
                request = plan.throw(error)
            else:
                request = plan.send(reply)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        plan.close()


def run_plan_inline(plan: Generator[Request, Reply, Result], perform: Callable[[Request], Reply]) -> Result:
    """Do as ``run_plan`` does with a ``perform`` that answers at once. For tests, checkers and tools."""
    try:
        request = next(plan)
        while True:
            try:
                reply = perform(request)
            except Exception as error:  # noqa: BLE001 - the plan decides
                request = plan.throw(error)
            else:
                request = plan.send(reply)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        plan.close()
