import asyncio
import inspect
import logging

import pytest

from headrace.errors import ClosedError
from headrace.runtime import supervisor as supervisor_module
from headrace.runtime.supervisor import Supervisor


async def forever():
    await asyncio.Event().wait()


async def fail(error):
    raise error


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_failing_task_is_reported_once_with_name_and_error():
    seen = []
    supervisor = Supervisor("container", lambda name, error: seen.append((name, error)))
    error = ValueError("broken")
    supervisor.spawn("writer", fail(error))
    await settle()
    assert seen == [("writer", error)]
    await supervisor.stop()
    assert seen == [("writer", error)]
    assert supervisor.statistics().failed == 1


async def test_a_failure_without_a_callback_is_logged_with_its_traceback(caplog):
    supervisor = Supervisor("container")
    supervisor.spawn("writer", fail(ValueError("broken")))
    with caplog.at_level(logging.ERROR):
        await settle()
    assert "container/writer failed" in caplog.text
    assert "ValueError: broken" in caplog.text


async def test_one_failure_leaves_the_other_tasks_alone():
    supervisor = Supervisor("container", lambda name, error: None)
    other = supervisor.spawn("other", forever())
    supervisor.spawn("writer", fail(ValueError()))
    await settle()
    assert not other.done()
    await supervisor.stop()
    assert other.cancelled()


async def test_stop_waits_until_every_task_has_cleaned_up():
    cleaned = []

    async def careful():
        try:
            await forever()
        finally:
            await asyncio.sleep(0.001)
            cleaned.append(True)

    supervisor = Supervisor("container")
    for index in range(100):
        supervisor.spawn(str(index), careful())
    await settle()
    await supervisor.stop()
    assert len(cleaned) == 100
    assert supervisor.statistics().running == []


async def test_a_failure_during_stop_is_reported_too():
    async def bad_at_leaving():
        try:
            await forever()
        finally:
            raise OSError("cannot close")

    seen = []
    supervisor = Supervisor("container", lambda name, error: seen.append((name, str(error))))
    supervisor.spawn("log", bad_at_leaving())
    await settle()
    await supervisor.stop()
    assert seen == [("log", "cannot close")]


async def test_stop_is_idempotent_and_may_be_called_by_several_at_once():
    supervisor = Supervisor("container")
    supervisor.spawn("a", forever())
    await asyncio.gather(supervisor.stop(), supervisor.stop())
    await supervisor.stop()
    assert supervisor.statistics().stopped


async def test_a_task_may_stop_its_own_supervisor():
    supervisor = Supervisor("container")
    other = supervisor.spawn("other", forever())
    me = supervisor.spawn("me", supervisor.stop())
    await asyncio.wait([me])
    assert me.exception() is None
    assert other.cancelled()


async def test_nothing_is_started_after_stop_and_the_coroutine_is_closed():
    supervisor = Supervisor("container")
    await supervisor.stop()
    coroutine = forever()
    with pytest.raises(ClosedError):
        supervisor.spawn("late", coroutine)
    assert coroutine.cr_frame is None  # closed: Python would warn otherwise


@pytest.mark.parametrize("stops", [1, 2])
async def test_a_task_that_takes_long_to_end_is_named_and_not_cut_off(monkeypatch, caplog, stops):
    monkeypatch.setattr(supervisor_module, "STOP_WARNING_S", 0.01)
    may_end, closed = asyncio.Event(), []

    async def thorough():
        try:
            await forever()
        finally:
            await may_end.wait()
            closed.append("file")

    supervisor = Supervisor("container")
    supervisor.spawn("mule", thorough())
    await settle()
    with caplog.at_level(logging.WARNING):
        stopping = [asyncio.ensure_future(supervisor.stop()) for _ in range(stops)]
        while caplog.text.count("container/mule") < 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        may_end.set()
        await asyncio.gather(*stopping)
    assert closed == ["file"]


async def test_a_task_spawned_by_a_dying_task_is_refused_and_stop_still_ends():
    supervisor = Supervisor("container", lambda name, error: None)

    async def spawner():
        try:
            await forever()
        finally:
            supervisor.spawn("child", forever())

    supervisor.spawn("parent", spawner())
    await settle()
    await supervisor.stop()
    assert supervisor.statistics().running == []
    assert supervisor.statistics().failed == 1  # the refusal


def test_behind_the_end_of_its_loop_nothing_is_started_and_nothing_left():
    async def make():
        return Supervisor("late")

    async def work():
        raise AssertionError("never")

    supervisor, coroutine = asyncio.run(make()), work()
    with pytest.raises(RuntimeError):
        supervisor.spawn("work", coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
