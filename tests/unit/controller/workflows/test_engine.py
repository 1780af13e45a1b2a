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
    """All an engine asks of a stream."""

    def __init__(self, name="s/t"):
        self.full_name = name
        self.uid = name.encode()
        self.gone = False
        self.refreshed = 0

    async def refresh(self):
        self.refreshed += 1


class FakeWork:
    """Durable work as a test lays it out."""

    def __init__(self):
        self.first = None
        self.kinds = []

    def started(self, stream):
        return self.first

    def waiting(self, stream):
        return self.kinds


def in_virtual_time(scenario):
    async def main(_):
        engine = WorkflowEngine(SeededEntropy(1), timeout_s=120.0)
        engine.work = FakeWork()
        try:
            await scenario(engine, engine.work)
        finally:
            await engine.stop()

    simulate(1, main)


def test_requests_of_one_stream_run_one_at_a_time_and_of_two_at_once():
    async def scenario(engine, work):
        running, most = {}, {}

        async def run(name):
            running[name] = running.get(name, 0) + 1
            most[name] = max(most.get(name, 0), running[name])
            await asyncio.sleep(1)
            running[name] -= 1
            return name

        start = asyncio.get_running_loop().time()
        one, other = FakeStream("s/one"), FakeStream("s/other")
        results = await asyncio.gather(
            *(
                engine.request(stream, "x", lambda stream=stream: run(stream.full_name))
                for stream in (one, other, one, other, one)
            )
        )
        assert results == ["s/one", "s/other", "s/one", "s/other", "s/one"]
        assert most == {"s/one": 1, "s/other": 1}
        assert asyncio.get_running_loop().time() - start == pytest.approx(3)
        assert engine.statistics().streams_busy == 0

    in_virtual_time(scenario)


def test_transient_failures_are_tried_again_and_refusals_are_not():
    async def scenario(engine, work):
        stream = FakeStream()
        attempts = []

        async def fails_twice():
            attempts.append(1)
            if len(attempts) < 3:
                raise ContainerOfflineError("moving")
            return "done"

        async def refuses():
            raise StreamSealedError("sealed")

        assert await engine.request(stream, "x", fails_twice) == "done"
        assert stream.refreshed >= 2
        with pytest.raises(StreamSealedError):
            await engine.request(stream, "x", refuses)

    in_virtual_time(scenario)


def test_a_call_gives_up_after_its_time_and_the_workflow_goes_on():
    async def scenario(engine, work):
        stream = FakeStream()
        done = []

        async def slow():
            await asyncio.sleep(200)
            done.append(1)

        with pytest.raises(DeadlineExceededError):
            await engine.request(stream, "x", slow)
        await asyncio.sleep(100)
        assert done == [1]

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

            return lambda: run if left[0] > 0 else None

        started, commits = step("started", 1), step("commit", 3)
        work.started = lambda stream: started()
        work.waiting = lambda stream: [commits()]
        stream = FakeStream()

        async def request(name):
            order.append(name)
            await asyncio.sleep(0.001)

        engine.wake(stream)
        await asyncio.gather(
            *(engine.request(stream, f"r{n}", lambda n=n: request(f"r{n}")) for n in range(3))
        )
        await asyncio.sleep(1)
        assert engine.statistics().streams_busy == 0
        assert order[0] == "started"
        assert sorted(order[1:]) == ["commit"] * 3 + ["r0", "r1", "r2"]
        kinds = [each[0] for each in order[1:]]
        assert kinds == ["r", "c"] * 3

    in_virtual_time(scenario)


def test_a_stream_that_is_gone_answers_those_who_wait_for_it():
    async def scenario(engine, work):
        stream = FakeStream()

        async def delete():
            await asyncio.sleep(1)
            stream.gone = True

        async def never():
            raise AssertionError("the stream is gone")

        outcomes = await asyncio.gather(
            engine.request(stream, "delete", delete),
            engine.request(stream, "x", never),
            return_exceptions=True,
        )
        assert outcomes[0] is None
        assert isinstance(outcomes[1], NoSuchStreamError)

    in_virtual_time(scenario)


def test_requests_are_bounded_and_stopping_answers_them():
    async def scenario(engine, work):
        stream = FakeStream()

        async def forever():
            await asyncio.Event().wait()

        waiting = [asyncio.ensure_future(engine.request(stream, "x", forever)) for _ in range(1001)]
        await asyncio.sleep(1)
        await engine.stop()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(outcome, ThrottledError) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, ClosedError) for outcome in outcomes) == 1000
        with pytest.raises(ClosedError):
            await engine.request(FakeStream("s/other"), "x", forever)

    in_virtual_time(scenario)


def test_a_bug_in_one_stream_does_not_end_the_work_of_others():
    async def scenario(engine, work):
        async def bug():
            raise KeyError("oops")

        async def fine():
            return 1

        with pytest.raises(KeyError):
            await engine.request(FakeStream("s/one"), "x", bug)
        assert await engine.request(FakeStream("s/other"), "x", fine) == 1
        assert engine.statistics().failures == 1

    in_virtual_time(scenario)
