import asyncio
import gc
import os
import subprocess
import sys
import weakref
from contextvars import ContextVar
from pathlib import Path

import pytest

from headrace.runtime.collector import tune_collector
from headrace.testing.failures import DeadlockError
from headrace.testing.host import HostDownError
from headrace.testing.process import current_host
from headrace.testing.simulation import simulate
from tests.effort import sampled

STORM = Path(__file__).with_name("storm.py")


def storm_lines(seed, hash_seed):
    """Run the storm in a process of its own and return its trace."""
    done = subprocess.run(
        [sys.executable, str(STORM), str(seed)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.cluster
@pytest.mark.parametrize("seed", sampled([1, 2]))
def test_one_seed_gives_one_trace_in_processes_with_different_hash_seeds(seed):
    first, second = storm_lines(seed, 1), storm_lines(seed, 4242)
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        assert one == other, f"line {number} differs"
    assert len(first) == len(second)
    assert len(first) > 3_000
    kinds = {line.split()[2] for line in first[:-1]}
    assert {"run", "connect", "kill", "boot", "cut", "block", "fsync"} <= kinds


def test_objects_that_a_process_has_frozen_stay_so_and_a_run_adds_few():
    async def scenario(_):
        """The least there is."""

    tune_collector()  # as the run of the tests has done long ago
    before = gc.get_freeze_count()
    simulate(1, scenario)
    assert before <= gc.get_freeze_count() < before + 10_000


@pytest.mark.slow
def test_different_seeds_give_different_traces():
    from tests.unit.testing.storm import storm

    digests = {simulate(seed, storm).trace.digest for seed in range(5)}
    assert len(digests) == 5


@pytest.mark.slow
def test_a_run_repeats_within_one_process_too():
    from tests.unit.testing.storm import storm

    first, second = (simulate(9, storm, trace_callbacks=True).trace for _ in range(2))
    assert first.lines == second.lines
    assert first.digest == second.digest


def test_a_failure_carries_seed_and_trace():
    async def scenario(sim):
        sim.host("mill")
        raise KeyError("broken")

    with pytest.raises(KeyError) as raised:
        simulate(4711, scenario)
    note = raised.value.__notes__[0]
    assert "seed 4711" in note
    assert "mill boot process=mill.1" in note


def test_a_killed_process_runs_no_finally_block_and_says_nothing():
    ran = []

    async def work():
        try:
            await asyncio.sleep(10)
            ran.append("went on")
        finally:
            ran.append("cleaned up")

    async def scenario(sim):
        host = sim.host("a")
        host.spawn("work", work())
        await asyncio.sleep(1)
        host.kill()
        await asyncio.sleep(100)
        assert ran == []
        assert not host.is_up

    simulate(0, scenario)


def test_what_a_dead_process_had_planned_never_happens():
    async def scenario(sim):
        host = sim.host("a")
        happened = []

        async def plan():
            loop = asyncio.get_running_loop()
            loop.call_later(5, happened.append, "timer")
            pool = host.runtime.threads.pool(1, "disk")
            pool.submit(happened.append, ("job",), lambda result, error: happened.append("answer"))
            loop.call_soon(happened.append, "soon")
            host.kill()

        with pytest.raises(HostDownError):
            await host.run(plan())
        await asyncio.sleep(100)
        return happened

    assert simulate(0, scenario).value == []


def test_a_process_that_loses_power_in_a_write_is_dead_before_anyone_can_answer():
    async def scenario(sim):
        from headrace.testing.disk import Moment

        host = sim.host("a")
        host.disk.plan_power_loss(1, Moment.AFTER)
        acknowledged = []

        async def write():
            files = host.runtime.filesystem
            pool = host.runtime.threads.pool(1, "disk")
            fd = await pool.run(files.open, "/log", os.O_RDWR | os.O_CREAT)
            await pool.run(files.fsync, fd)
            acknowledged.append(True)

        with pytest.raises(HostDownError):
            await host.run(write())
        assert not acknowledged
        assert not host.disk.powered
        host.boot()
        assert host.disk.powered
        return host.process.incarnation

    assert simulate(0, scenario).value == 2


def test_two_processes_share_one_disk_and_its_locks():
    async def scenario(sim):
        one = sim.host("one")
        other = sim.host("other", disk=one.disk)
        fds = [h.runtime.filesystem.open("/LOCK", os.O_RDWR | os.O_CREAT) for h in (one, other)]
        assert one.runtime.filesystem.lock(fds[0])
        assert not other.runtime.filesystem.lock(fds[1])
        one.kill()
        assert other.runtime.filesystem.lock(fds[1])

    simulate(0, scenario)


def test_each_life_of_a_host_draws_other_numbers_and_each_run_the_same():
    async def scenario(sim):
        host = sim.host("a")
        first = host.runtime.entropy.uuid4_bytes()
        host.kill()
        host.boot()
        return first, host.runtime.entropy.uuid4_bytes(), sim.host("b").runtime.entropy.uuid4_bytes()

    ids = simulate(3, scenario).value
    assert len(set(ids)) == 3
    assert simulate(3, scenario).value == ids


def test_wall_clocks_follow_virtual_time_with_their_own_skew():
    async def scenario(sim):
        host = sim.host("a")
        host.clock.skew_ms = 250
        before = host.runtime.clock.now_ms(), sim.clock.now_ms()
        await asyncio.sleep(60)
        return before[0] - before[1], host.runtime.clock.now_ms() - before[0]

    assert simulate(0, scenario).value == (250, 60_000)


def test_a_deadlock_does_not_count_the_dead():
    async def scenario(sim):
        host = sim.host("a")
        host.spawn("ghost", asyncio.Event().wait())
        await asyncio.sleep(1)
        host.kill()
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError) as raised:
        simulate(0, scenario)
    assert "ghost" not in str(raised.value)


def test_a_failure_inside_a_host_reaches_the_scenario_that_asked():
    async def broken():
        await asyncio.sleep(1)
        raise ValueError("inside")

    async def scenario(sim):
        with pytest.raises(ValueError, match="inside"):
            await sim.host("a").run(broken())

    simulate(0, scenario)


def test_cancelling_the_question_cancels_the_work():
    cancelled = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def scenario(sim):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await sim.host("a").run(work())
        await asyncio.sleep(1)

    simulate(0, scenario)
    assert cancelled == [True]


@pytest.mark.slow
def test_nothing_of_a_run_stays_behind_when_the_dead_begin_tasks_as_they_are_buried():
    begun = []

    async def stop():
        await asyncio.Event().wait()

    async def serve(sim):
        try:
            await asyncio.Event().wait()
        finally:
            begun.append(asyncio.ensure_future(stop()).get_loop() is sim.loop)
            await asyncio.gather(stop(), stop())

    async def scenario(sim):
        worlds.append(weakref.ref(sim.loop))
        host = sim.host("a")
        host.spawn("serve", serve(sim))
        await asyncio.sleep(1)
        host.kill()

    worlds = []
    simulate(0, scenario)
    gc.collect()
    assert begun == [True]
    assert worlds[0]() is None


@pytest.mark.slow
def test_nothing_of_a_run_stays_behind_when_the_collector_ends_what_begins_tasks():
    begun = []

    async def stop():
        await asyncio.Event().wait()

    async def wait(sim):
        try:
            await asyncio.Event().wait()
        finally:
            begun.append(asyncio.ensure_future(stop()).get_loop() is sim.loop)

    async def scenario(sim):
        worlds.append(weakref.ref(sim.loop))
        circle = [wait(sim)]
        circle.append(circle)
        circle[0].send(None)

    worlds = []
    simulate(0, scenario)
    gc.collect()
    assert begun == [True]
    assert worlds[0]() is None


def test_the_dead_are_buried_with_the_context_that_they_lived_in():
    place = ContextVar("place", default="outside")
    found = []

    async def work():
        token = place.set("inside")
        try:
            await asyncio.Event().wait()
        finally:
            found.append((current_host(), place.get()))
            place.reset(token)
            found.append(place.get())

    async def scenario(sim):
        host = sim.host("a")
        host.spawn("work", work())
        await asyncio.sleep(1)
        host.kill()

    simulate(0, scenario)
    assert found == [("a", "inside"), "outside"]


def test_a_paused_process_runs_nothing_and_finds_that_time_has_passed():
    async def scenario(sim):
        host, beats = sim.host("a"), []

        async def beat():
            while True:
                beats.append(sim.loop.elapsed_s())
                await asyncio.sleep(1)

        host.spawn("beat", beat())
        await asyncio.sleep(2.5)
        host.pause()
        await asyncio.sleep(10)
        assert beats == [0, 1, 2]
        host.resume()
        await asyncio.sleep(1.2)
        assert beats == [0, 1, 2, 12.5, 13.5]
        host.pause()
        host.kill()
        await asyncio.sleep(5)
        host.resume()
        await asyncio.sleep(5)
        assert len(beats) == 5

    simulate(1, scenario)
