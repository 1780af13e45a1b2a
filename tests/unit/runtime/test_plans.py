import asyncio

import pytest

from headrace.runtime.plans import run_plan, run_plan_inline


def doubling(events):
    first = yield "a"
    try:
        second = yield "b"
    except KeyError:
        events.append("failed")
        second = yield "fallback"
    return first + second


async def test_a_plan_is_sent_each_reply_and_its_result_is_returned():
    async def perform(request):
        return request * 2

    assert await run_plan(doubling([]), perform) == "aabb"
    assert run_plan_inline(doubling([]), lambda request: request * 2) == "aabb"


async def test_a_failure_is_thrown_into_the_plan_which_may_take_another_path():
    def perform_now(request):
        if request == "b":
            raise KeyError
        return request

    async def perform(request):
        return perform_now(request)

    events = []
    assert await run_plan(doubling(events), perform) == "afallback"
    assert run_plan_inline(doubling(events), perform_now) == "afallback"
    assert events == ["failed", "failed"]


async def test_a_failure_the_plan_does_not_handle_reaches_the_caller():
    async def perform(request):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await run_plan(doubling([]), perform)


async def test_a_cancelled_plan_is_closed_so_that_its_finally_blocks_run():
    closed = []

    def plan():
        try:
            yield "wait"
        finally:
            closed.append(True)

    async def perform(request):
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_plan(plan(), perform))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert closed == [True]


def test_a_plan_that_needs_nothing_returns_at_once():
    def plan():
        return 7
        yield

    assert run_plan_inline(plan(), lambda request: None) == 7
