"""A stream that is not acknowledged for long is named once, and again when it goes on; on virtual time."""

import asyncio
from dataclasses import dataclass

import pytest

from headrace.client.ack_watch import AckWatch
from headrace.testing.simulation import simulate

KEPT = "events are kept and sent again"


@dataclass(eq=False)
class Output:
    stream_name: str = "demo/t"
    has_work: bool = True
    is_ended: bool = False
    acknowledged_number: int = 0
    peer: str = "host:12345"
    trouble: str = ""

    async def be_acknowledged_every(self, pause_s, times):
        for _ in range(times):
            await asyncio.sleep(pause_s)
            self.acknowledged_number += 1


@pytest.fixture
def said(caplog):
    """Runs a scenario and returns the lines that were logged."""

    def run(scenario):
        simulate(0, lambda _: scenario())
        assert {line.levelname for line in caplog.records} <= {"WARNING"}
        return [line.getMessage() for line in caplog.records]

    return run


def test_what_is_acknowledged_now_and_then_is_no_matter(said):
    async def scenario():
        watch, output = AckWatch(), Output()
        watch.watch(output)
        await output.be_acknowledged_every(9.0, 20)
        output.has_work = False
        await asyncio.sleep(100)

    assert said(scenario) == []


def test_silence_is_named_once_and_its_end_too(said):
    async def scenario():
        watch, outputs = AckWatch(), [Output() for _ in range(3)]
        for output in outputs:
            watch.watch(output)
        await asyncio.sleep(100.5)
        for output in outputs:
            output.acknowledged_number += 1
        await asyncio.sleep(1)

    assert said(scenario) == [
        f"no acknowledgement from host:12345 for 10 s for 3 segments of stream demo/t; {KEPT}",
        "acknowledgements from host:12345 for stream demo/t go on after 101 s",
    ]


def test_without_a_connection_it_says_why_there_is_none(said):
    async def scenario():
        watch, output = AckWatch(), Output(peer="", trouble="host:9090 cannot be reached: refused")
        watch.watch(output)
        await asyncio.sleep(49.5)
        output.peer, output.has_work = "other:12345", False
        await asyncio.sleep(5)

    first, second = said(scenario)
    assert first.startswith("no acknowledgement for 10 s for 1 segment of stream demo/t: ")
    assert first.endswith(f": host:9090 cannot be reached: refused; {KEPT}")
    assert second == "acknowledgements from other:12345 for stream demo/t go on after 50 s"


def test_what_was_given_up_does_not_go_on_and_the_next_silence_is_named_again(said):
    async def scenario():
        watch, output = AckWatch(), Output()
        watch.watch(output)
        await asyncio.sleep(20)
        output.is_ended = True
        await asyncio.sleep(20)
        watch.watch(Output())
        await asyncio.sleep(20)

    lines = said(scenario)
    assert [line.split(" for ")[0] for line in lines] == ["no acknowledgement from host:12345"] * 2


def test_streams_are_named_apart(said):
    async def scenario():
        watch, slow = AckWatch(), Output("demo/slow")
        watch.watch(slow)
        watch.watch(Output("demo/silent"))
        await slow.be_acknowledged_every(2.0, 30)
        slow.has_work = False
        await asyncio.sleep(1)

    assert said(scenario) == [
        f"no acknowledgement from host:12345 for 10 s for 1 segment of stream demo/silent; {KEPT}"
    ]


def test_who_asks_is_told_at_once_that_it_goes_on(said):
    async def scenario():
        watch, output = AckWatch(), Output()
        watch.watch(output)
        assert not watch.is_silent
        await asyncio.sleep(30.5)
        assert watch.is_silent
        output.has_work = False
        watch.look()
        assert not watch.is_silent

    assert len(said(scenario)) == 2
