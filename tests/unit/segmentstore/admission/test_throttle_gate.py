"""The gate on virtual time: what it lets in, when it opens, what it says about itself."""

import asyncio
from functools import wraps

import pytest

from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.admission.throttle.gate import ThrottleGate
from headrace.testing.loop import SimulatedLoop


def on_virtual_time(test):
    @wraps(test)
    def run():
        loop = SimulatedLoop(SeededEntropy(1))
        asyncio.set_event_loop(None)
        try:
            loop.run_until_complete(test())
        finally:
            loop.close()

    return run


class Bench:
    def __init__(self, burst_bytes=100, delay_max_s=25.0):
        self.loop = asyncio.get_running_loop()
        self.delay_s = 0.0
        self.opened_at = []
        self.gate = ThrottleGate(
            self.loop,
            burst_bytes=burst_bytes,
            delay_max_s=delay_max_s,
            measure=lambda: (self.delay_s, "test" if self.delay_s else ""),
            on_open=lambda: self.opened_at.append(self.now),
        )
        self.start = self.loop.time()

    @property
    def now(self):
        return round(self.loop.time() - self.start, 6)

    def set(self, delay_s):
        self.delay_s = delay_s
        self.gate.update()
        self.gate.check()


@on_virtual_time
async def test_an_unloaded_gate_is_inactive_and_sets_no_timer():
    bench = Bench()
    bench.set(0.0)
    assert not bench.gate.active
    assert bench.gate.statistics().delays == 0


@on_virtual_time
async def test_load_closes_the_gate_for_the_delay_and_a_burst_closes_it_again():
    bench = Bench()
    bench.set(2.0)
    assert not bench.gate.enter(1)
    await asyncio.sleep(2.1)
    assert bench.opened_at == [2.0]
    assert bench.gate.enter(99)
    assert bench.gate.enter(1)
    assert not bench.gate.enter(1)
    await asyncio.sleep(2.1)
    assert bench.opened_at == [2.0, 4.1]
    statistics = bench.gate.statistics()
    assert (statistics.source, statistics.delay_s, statistics.delays) == ("test", 2.0, 2)
    assert statistics.delayed_total_s == pytest.approx(4.0)


@on_virtual_time
async def test_who_takes_many_bursts_at_once_pays_for_all_of_them():
    bench = Bench()
    bench.set(1.0)
    await asyncio.sleep(1.1)
    assert bench.gate.enter(500)
    await asyncio.sleep(10)
    assert bench.opened_at == [1.0, 6.1]


@on_virtual_time
async def test_a_shorter_delay_replaces_the_rest_and_a_longer_one_does_not():
    bench = Bench()
    bench.set(10.0)
    await asyncio.sleep(1)
    bench.set(20.0)
    await asyncio.sleep(1)
    bench.set(3.0)
    await asyncio.sleep(10)
    assert bench.opened_at == [5.0]


@on_virtual_time
async def test_a_source_that_relaxes_opens_the_gate_at_once():
    bench = Bench()
    bench.set(10.0)
    bench.set(0.0)
    assert bench.opened_at == [0.0]
    assert not bench.gate.active


@on_virtual_time
async def test_at_the_maximum_nothing_enters_until_the_load_falls():
    bench = Bench()
    bench.set(25.0)
    await asyncio.sleep(1000)
    assert bench.opened_at == []
    assert not bench.gate.enter(1)
    bench.set(1.0)
    await asyncio.sleep(2)
    assert bench.opened_at == [1001.0]
    assert bench.gate.statistics().delayed_total_s == pytest.approx(1001.0)


@on_virtual_time
async def test_an_ended_gate_is_open_for_ever_and_leaves_no_timer():
    bench = Bench()
    bench.set(25.0)
    bench.gate.end()
    bench.gate.check()
    assert not bench.gate.closed
    bench.set(25.0)
    assert not bench.gate.active
    await asyncio.sleep(100)
    assert bench.opened_at == [], "whoever ends it wakes who waits"


@on_virtual_time
async def test_a_maximum_of_zero_never_delays():
    bench = Bench(delay_max_s=0.0)
    bench.set(0.0)
    assert not bench.gate.active


@on_virtual_time
async def test_a_closed_gate_sees_by_itself_that_the_load_fell():
    bench = Bench()
    bench.set(25.0)
    await asyncio.sleep(1.0)
    assert bench.gate.closed
    bench.delay_s = 0.004  # another container has freed what all share: nobody tells
    await asyncio.sleep(0.2)
    assert not bench.gate.closed
    assert bench.gate.enter(100_000)
    bench.delay_s = 0.0
    await asyncio.sleep(0.2)
    assert not bench.gate.closed
    assert not bench.gate.active
