"""What loops tell about time, and when their timers strike."""

import asyncio
from itertools import pairwise

import pytest

from headrace.testing.loop_time import TIME_START_S, ExactTime, MillisecondTime
from headrace.testing.simulation import simulate

HOURS = 20 * 3_600_000


def run(scenario, loop_time):
    async def main(sim):
        return await scenario(sim.loop)

    return simulate(1, main, loop_time=loop_time).value


def strike(delays):
    """Return a scenario that answers, for each delay, when its timer strikes and when that was asked for."""

    async def scenario(loop):
        found = []
        for delay in delays:
            due = loop.time() + delay
            struck = loop.create_future()
            loop.call_at(due, struck.set_result, None)
            await struck
            found.append((loop.time(), due))
        return found

    return scenario


def test_exact_timers_strike_at_their_deadline():
    assert all(struck == due for struck, due in run(strike([0.1, 0.0003, 7e-9, 50.0]), ExactTime()))


@pytest.mark.parametrize("start_ms", [0, 999, HOURS, HOURS + 17, 1 << 34])
def test_a_program_is_told_whole_milliseconds_and_they_never_go_back(start_ms):
    async def scenario(loop):
        told, truth = [loop.time()], [loop.machine_time()]
        for _ in range(300):
            await asyncio.sleep(0.0001)
            told.append(loop.time())
            truth.append(loop.machine_time())
        return told, truth

    told, truth = run(scenario, MillisecondTime(start_ms))
    assert told[0] == start_ms / 1000
    assert all(each == round(each * 1000) / 1000 for each in told)
    assert all(before <= after for before, after in pairwise(told))
    assert all(before < after for before, after in pairwise(truth))
    assert told[-1] - told[0] == pytest.approx(truth[-1] - TIME_START_S, abs=0.0011)


def test_hours_after_the_start_a_timer_strikes_before_what_it_was_set_for():
    """The sum is rounded to a float; the milliseconds are all there, and ``time()`` is below the deadline."""
    found = run(strike([0.1] * 100), MillisecondTime(HOURS))
    early = [due - struck for struck, due in found if struck < due]
    assert 10 < len(early) < 90
    assert max(early) < 1e-9


def test_a_timer_strikes_half_a_millisecond_early_or_late_and_not_more():
    found = run(strike([0.0104, 0.0106, 0.0101, 0.0001, 0.0]), MillisecondTime(HOURS))
    assert [round((struck - due) * 1e4) for struck, due in found] == [-4, 4, -1, -1, 0]


def test_waiting_for_less_than_the_loop_can_tell_ends():
    async def scenario(loop):
        due, turns = loop.time() + 0.0004, 0
        while loop.time() < due:
            await asyncio.sleep(due - loop.time())
            turns += 1
        return turns

    assert 1 < run(scenario, MillisecondTime(HOURS)) < 50


def test_what_the_world_does_happens_at_its_exact_time():
    async def scenario(loop):
        done = loop.create_future()
        at = loop.machine_time() + 0.000_123
        loop.call_at_machine_time(at, done.set_result, None)
        await done
        return loop.machine_time() - at, loop.elapsed_s()

    left, elapsed = run(scenario, MillisecondTime(HOURS))
    assert left == 0
    assert elapsed == pytest.approx(0.000_123)
