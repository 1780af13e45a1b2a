import asyncio

import pytest

from headrace.controller.engine import WorkflowEngine
from headrace.errors import (
    ClosedError,
    ContainerOfflineError,
    DeadlineExceededError,
    NoSuchStreamError,
    StreamSealedError,
    ThrottledError,
)
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.simulation import simulate


class FakeStream:
    """All an engine asks of a stream: ``row`` counts how much of its work is done."""

    def __init__(self, name="s/t"):
        self.full_name = name
        self.uid = name.encode()
        self.gone = False
        self.row = 0
        self.version = 0
        self.elsewhere = None
        self.reads = []

    async def refresh(self):
        self.reads.append(asyncio.get_running_loop().time())
        if self.elsewhere is not None:
            self.row = self.version = self.elsewhere


class FakeWork:
    """Durable work as a test lays it out: functions from stream to what is to be run, or None."""

    def __init__(self):
        self.first = lambda stream: None
        self.kinds = []

    def started(self, stream):
        return self.first(stream)

    def waiting(self, stream):
        return [kind(stream) for kind in self.kinds]


def until(count, step):
    """Run ``step`` until the row of the stream counts ``count``."""

    def choose(stream):
        async def run():
            await step(stream)
            stream.row += 1

        return run if stream.row < count else None

    return choose


def in_virtual_time(scenario, streams_at_once=100):
    async def main(_):
        engine = WorkflowEngine(SeededEntropy(1), timeout_s=120.0, streams_at_once=streams_at_once)
        engine.work = FakeWork()
        try:
            await scenario(engine, engine.work)
        finally:
            await engine.stop()

    simulate(1, main)


def now():
    return asyncio.get_running_loop().time()


async def a_second(stream):
    await asyncio.sleep(1)


async def forever(stream):
    await asyncio.Event().wait()


def test_work_of_one_stream_runs_one_at_a_time_and_of_two_at_once():
    async def scenario(engine, work):
        running, most = {}, {}

        async def step(stream):
            name = stream.full_name
            running[name] = running.get(name, 0) + 1
            most[name] = max(most.get(name, 0), running[name])
            await asyncio.sleep(1)
            running[name] -= 1

        work.kinds = [until(3, step)]
        start, streams = now(), [FakeStream("s/one"), FakeStream("s/other")]
        for stream in (*streams, *streams):
            engine.wake(stream)
        assert all(engine.is_busy(stream) for stream in streams)
        await asyncio.gather(*(engine.wait(stream, "x", lambda row: row == 3) for stream in streams))
        assert most == {"s/one": 1, "s/other": 1}
        assert now() - start == pytest.approx(3)
        await asyncio.sleep(0.1)
        assert engine.statistics().streams_busy == 0

    in_virtual_time(scenario)


def test_no_more_streams_are_worked_for_at_a_time_than_allowed_and_one_that_fails_is_not_in_the_way():
    async def scenario(engine, work):
        running = most = 0

        async def step(stream):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            if stream.full_name == "s/bad":
                raise ContainerOfflineError("the container moves")

        work.kinds = [until(1, step)]
        streams = [FakeStream(f"s/{number}") for number in range(9)]
        for stream in (FakeStream("s/bad"), *streams):
            engine.wake(stream)
        start = now()
        await asyncio.gather(*(engine.wait(stream, "x", lambda row: row == 1) for stream in streams))
        assert most == 3
        assert now() - start < 6

    in_virtual_time(scenario, streams_at_once=3)


def test_a_call_is_answered_by_the_row_as_soon_as_a_step_ends():
    async def scenario(engine, work):
        stream, start = FakeStream(), now()
        work.kinds = [until(3, a_second)]
        engine.wake(stream)
        await engine.wait(stream, "x", lambda row: row >= 2)
        assert now() - start == pytest.approx(2)

        def refuses(row):
            if row == 3:
                raise StreamSealedError("sealed")
            return False

        with pytest.raises(StreamSealedError):
            await engine.wait(stream, "x", refuses)
        assert now() - start == pytest.approx(3)

    in_virtual_time(scenario)


def test_work_of_another_controller_is_awaited_with_growing_pauses():
    async def scenario(engine, work):
        stream, start = FakeStream(), now()

        async def elsewhere():
            await asyncio.sleep(60)
            stream.elsewhere = 1

        done = asyncio.ensure_future(elsewhere())
        await engine.wait(stream, "x", lambda row: row == 1)
        await done
        assert 60 <= now() - start <= 65
        assert stream.reads[0] - start == pytest.approx(0.1)
        assert len(stream.reads) < 25

    in_virtual_time(scenario)


def test_transient_failures_are_tried_again():
    async def scenario(engine, work):
        stream, attempts = FakeStream(), []

        async def fails_twice(stream):
            attempts.append(1)
            if len(attempts) < 3:
                raise ContainerOfflineError("moving")

        work.kinds = [until(1, fails_twice)]
        engine.wake(stream)
        await engine.wait(stream, "x", lambda row: row == 1)
        assert len(attempts) == 3
        assert engine.statistics().retries == 2

    in_virtual_time(scenario)


def test_a_call_gives_up_after_its_time_and_the_workflow_goes_on():
    async def scenario(engine, work):
        stream = FakeStream()

        async def slow(stream):
            await asyncio.sleep(200)

        work.kinds = [until(1, slow)]
        engine.wake(stream)
        with pytest.raises(DeadlineExceededError):
            await engine.wait(stream, "x", lambda row: row == 1)
        await asyncio.sleep(100)
        assert stream.row == 1

    in_virtual_time(scenario)


def test_what_was_started_goes_first_and_then_kinds_take_turns():
    async def scenario(engine, work):
        order = []

        def step(name, times):
            left = [times]

            async def run():
                order.append(name)
                left[0] -= 1
                await asyncio.sleep(0.001)

            return lambda stream: run if left[0] > 0 else None

        work.first = step("started", 1)
        work.kinds = [step("request", 3), step("scale", 1), step("commit", 3)]
        engine.wake(FakeStream())
        await asyncio.sleep(1)
        assert engine.statistics().streams_busy == 0
        assert order == ["started", "request", "scale", "commit", "request", "commit", "request", "commit"]

    in_virtual_time(scenario)


def test_a_stream_that_is_gone_answers_those_who_wait_for_it():
    async def scenario(engine, work):
        stream = FakeStream()

        async def delete(stream):
            await asyncio.sleep(1)
            stream.gone = True

        work.first = until(10, delete)
        engine.wake(stream)
        with pytest.raises(NoSuchStreamError):
            await engine.wait(stream, "deletion", lambda row: False)
        assert stream.row == 1

    in_virtual_time(scenario)


def test_calls_that_wait_are_bounded_and_stopping_answers_them():
    async def scenario(engine, work):
        stream = FakeStream()
        work.kinds = [until(1, forever)]
        engine.wake(stream)
        never = lambda row: False  # noqa: E731
        waiting = [asyncio.ensure_future(engine.wait(stream, "x", never)) for _ in range(1001)]
        waiting.append(asyncio.ensure_future(engine.wait(FakeStream("s/elsewhere"), "x", never)))
        await asyncio.sleep(1)
        assert engine.statistics().requests_waiting == 1001
        await engine.stop()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(outcome, ThrottledError) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, ClosedError) for outcome in outcomes) == 1001
        assert engine.statistics().requests_waiting == 0
        engine.wake(FakeStream("s/other"))
        assert engine.statistics().streams_busy == 0

    in_virtual_time(scenario)


def test_a_bug_in_one_stream_does_not_end_the_work_of_others():
    async def scenario(engine, work):
        async def bug(stream):
            if stream.full_name == "s/one":
                raise KeyError("oops")

        work.kinds = [until(1, bug)]
        one, other = FakeStream("s/one"), FakeStream("s/other")
        engine.wake(one)
        engine.wake(other)
        await engine.wait(other, "x", lambda row: row == 1)
        assert engine.statistics().failures == 1
        assert one.row == 0

    in_virtual_time(scenario)
