import asyncio
import signal
import threading

import pytest

from headrace.runtime.entropy import SeededEntropy
from headrace.testing import loop as loop_module
from headrace.testing.failures import (
    DeadlockError,
    ForbiddenError,
    LivelockError,
    TimeLimitError,
    UnhandledError,
)
from headrace.testing.loop import SimulatedLoop
from headrace.testing.loop_time import TIME_START_S
from headrace.testing.simulation import simulate


def run(scenario, seed=0, **options):
    async def main(sim):
        return await scenario()

    return simulate(seed, main, **options)


def test_an_hour_of_waiting_costs_no_time_and_timers_fire_in_order():
    async def scenario():
        loop = asyncio.get_running_loop()
        fired = []
        for delay in (30, 10, 20, 10):
            loop.call_later(delay, fired.append, delay)
        await asyncio.sleep(3_000)
        return fired, loop.time()

    result = run(scenario)
    assert result.value == ([10, 10, 20, 30], TIME_START_S + 3_000)
    assert result.virtual_seconds == 3_000


def test_a_timeout_strikes_at_its_virtual_moment():
    async def scenario():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50):
                await asyncio.sleep(51)
        async with asyncio.timeout(50):
            await asyncio.sleep(49)
        return asyncio.get_running_loop().time()

    assert run(scenario).value == TIME_START_S + 99


def test_waiting_for_nothing_is_a_deadlock_that_names_the_task_and_its_place():
    async def stuck_here():
        await asyncio.Event().wait()

    async def scenario():
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck_here(), name="writer")

    with pytest.raises(DeadlockError, match=r"writer waits in .*Event.wait"):
        run(scenario)


def test_a_task_that_spins_is_a_livelock(monkeypatch):
    monkeypatch.setattr(loop_module, "SPINS_MAX", 1_000)

    async def scenario():
        while True:  # noqa: ASYNC110 - it spins, that is the point
            await asyncio.sleep(0)

    with pytest.raises(LivelockError):
        run(scenario)


def test_a_program_that_polls_makes_progress_if_iterations_take_time():
    async def scenario():
        loop, iterations, due = asyncio.get_running_loop(), 0, []
        loop.call_later(1.0, due.append, True)
        while not due:
            iterations += 1
            await asyncio.sleep(0)
        return iterations, loop.time() - TIME_START_S

    loop = SimulatedLoop(SeededEntropy(0), iteration_s=0.001)
    iterations, elapsed_s = loop.run_until_complete(scenario())
    loop.close()
    assert 990 <= iterations <= 1010
    assert 1.0 <= elapsed_s < 1.01


def test_a_program_that_waits_for_what_never_comes_while_others_go_on_is_over_after_so_many_callbacks():
    def tick():
        loop.call_later(0.001, tick)

    async def scenario():
        asyncio.current_task().set_name("the patient one")
        tick()
        await asyncio.Event().wait()

    loop = SimulatedLoop(SeededEntropy(0), callbacks_max=1_000)
    with pytest.raises(TimeLimitError, match=r"(?s)after 1001 callbacks.*the patient one waits in"):
        loop.run_until_complete(scenario())
    loop.close()


def test_a_program_that_takes_too_long_is_stopped():
    async def scenario():
        while True:  # noqa: ASYNC110 - it never ends, that is the point
            await asyncio.sleep(1)

    with pytest.raises(TimeLimitError, match="still running"):
        run(scenario, limit_s=100)


def finishing_order(seed, **options):
    async def scenario():
        order = []

        async def worker(number):
            await asyncio.sleep(1)
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(worker(number))
        return order

    return run(scenario, seed, **options).value


def test_ready_tasks_run_in_an_order_that_the_seed_decides():
    orders = [finishing_order(seed) for seed in range(20)]
    assert orders == [finishing_order(seed) for seed in range(20)]
    assert len({tuple(order) for order in orders}) > 15
    assert finishing_order(3, shuffle=False) == list(range(8))


def test_callbacks_keep_their_order_among_themselves_whatever_the_seed():
    async def scenario():
        loop = asyncio.get_running_loop()
        order = []

        async def noise():
            await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for number in range(50):
                loop.call_soon(order.append, number)
                group.create_task(noise())
        return order

    for seed in range(10):
        assert run(scenario, seed).value == list(range(50))


def test_a_callback_cancelled_in_its_own_turn_does_not_run():
    async def scenario():
        loop = asyncio.get_running_loop()
        ran = []
        timer = loop.call_later(1, ran.append, "timer")
        loop.call_at(timer.when() - 0.5, lambda: None)
        first = loop.call_at(timer.when(), lambda: (late.cancel(), later.cancel()))
        late = loop.call_at(timer.when(), ran.append, "late")
        later = loop.call_later(500, ran.append, "later")
        await asyncio.sleep(1000)
        assert first.when() == timer.when()
        return ran

    assert run(scenario, shuffle=False).value == ["timer"]


def test_ten_thousand_cancelled_timers_are_swept_out():
    async def scenario():
        loop = asyncio.get_running_loop()
        for _ in range(10_000):
            loop.call_later(500, lambda: None).cancel()
        return len(loop._timers)

    assert run(scenario).value < 1_000


def test_a_task_group_cancels_in_the_same_order_in_every_run_of_a_seed():
    def cancelled(seed):
        async def scenario():
            order = []

            async def worker(number):
                try:
                    await asyncio.sleep(100)
                finally:
                    order.append(number)

            async def failing():
                await asyncio.sleep(1)
                raise ValueError

            try:
                async with asyncio.TaskGroup() as group:
                    for number in range(20):
                        group.create_task(worker(number))
                    group.create_task(failing())
            except ExceptionGroup:
                return order

        return run(scenario, seed).value

    assert cancelled(1) == cancelled(1)
    assert cancelled(1) != cancelled(2)


def test_tasks_and_futures_hash_by_their_number():
    async def scenario():
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(100)]
        assert list(set(futures)) == sorted(futures, key=hash)
        return hash(asyncio.current_task()), hash(futures[0])

    assert run(scenario).value == run(scenario).value


@pytest.mark.parametrize(
    "reach",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: asyncio.to_thread(print),
        lambda loop: loop.getaddrinfo("example.org", 80),
        lambda loop: asyncio.open_connection("host", 1, ssl=True),
    ],
)
def test_the_real_world_is_refused(reach):
    async def scenario():
        with pytest.raises(ForbiddenError):
            await reach(asyncio.get_running_loop())

    run(scenario)


@pytest.mark.parametrize(
    "reach",
    [
        lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0)),
        lambda loop: asyncio.create_subprocess_exec("true"),
        lambda loop: loop.sock_recv(None, 1),
    ],
)
def test_what_is_not_simulated_does_not_exist(reach):
    async def scenario():
        with pytest.raises(NotImplementedError):
            await reach(asyncio.get_running_loop())

    run(scenario)


def test_signals_do_not_exist_either():
    async def scenario():
        with pytest.raises(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)

    run(scenario)


def test_a_thread_that_calls_into_the_loop_is_refused_and_the_loop_itself_is_not():
    async def scenario():
        loop = asyncio.get_running_loop()
        caught, called = [], []

        def outside():
            try:
                loop.call_soon_threadsafe(print)
            except ForbiddenError as error:
                caught.append(error)

        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
        loop.call_soon_threadsafe(called.append, 1)
        await asyncio.sleep(0.1)
        return len(caught), called

    assert run(scenario).value == (1, [1])


def test_a_callback_that_raises_fails_the_run():
    async def scenario():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(UnhandledError, match="ZeroDivisionError"):
        run(scenario)


def test_a_failed_task_that_nobody_awaits_fails_the_run():
    async def fail():
        raise KeyError("lost")

    async def scenario():
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(1)
        del task

    with pytest.raises(UnhandledError, match=r"never retrieved.*KeyError"):
        run(scenario)


def test_tasks_left_behind_are_cancelled_and_their_failures_seen():
    cleaned = []

    async def bad_at_leaving():
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)
            raise OSError("cannot close")

    async def scenario():
        asyncio.get_running_loop().create_task(bad_at_leaving())
        await asyncio.sleep(1)

    with pytest.raises(UnhandledError, match="cannot close"):
        run(scenario)
    assert cleaned == [True]


def test_asynchronous_generators_are_closed_at_the_end():
    closed = []

    async def numbers():
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    async def scenario():
        scenario.generator = numbers()
        return await anext(scenario.generator)

    assert run(scenario).value == 1
    assert closed == [True]


def test_a_generator_of_a_killed_process_is_left_alone():
    closed = []

    async def numbers():
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def use():
        async for _ in numbers():
            await asyncio.sleep(1)

    async def scenario(sim):
        host = sim.host("a")
        host.spawn("use", use())
        await asyncio.sleep(2)
        host.kill()
        await asyncio.sleep(1)
        await asyncio.get_running_loop().shutdown_asyncgens()
        return list(closed)

    assert simulate(0, scenario).value == []


def test_the_trace_of_callbacks_names_tasks_by_their_number():
    async def scenario():
        await asyncio.sleep(1)

    lines = run(scenario, trace_callbacks=True).trace.lines
    assert any("loop run what=task-1" in line for line in lines)
