import asyncio
import time

import pytest

from headrace.runtime import loops
from headrace.runtime.clock import SystemClock, stopwatch
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.loop import SimulatedLoop


def test_the_system_clock_counts_milliseconds_since_the_epoch():
    before = time.time()
    now = SystemClock().now_ms()
    assert before * 1000 - 1 <= now <= time.time() * 1000


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_stopwatch_sees_what_happens_within_a_turn_of_any_loop(kind):
    if kind == "uvloop":
        pytest.importorskip("uvloop")

    async def watch():
        now = stopwatch(asyncio.get_running_loop())
        began = now()
        until = time.perf_counter() + 0.0003
        while time.perf_counter() < until:
            pass
        return now() - began

    assert 0.0003 <= loops.run(watch(), kind=kind) < 10


def test_a_stopwatch_shows_simulated_time_in_a_simulation():
    loop = SimulatedLoop(SeededEntropy(1))
    now = stopwatch(loop)
    began = now()
    loop.run_until_complete(asyncio.sleep(1000))
    assert now() - began == 1000
