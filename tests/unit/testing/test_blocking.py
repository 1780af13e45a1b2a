import asyncio

import pytest

from headrace.errors import ClosedError, MailboxFullError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.blocking import SimulatedThreads
from headrace.testing.simulation import simulate


def run(scenario, seed=0):
    async def main(sim):
        return await scenario(SimulatedThreads(SeededEntropy(seed)))

    return simulate(seed, main).value


def test_results_and_errors_come_back_and_time_passes():
    async def scenario(threads):
        pool = threads.pool(2, "disk")
        started = asyncio.get_running_loop().time()
        assert await pool.run(pow, 2, 10) == 1024
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 / 0)
        assert asyncio.get_running_loop().time() > started
        pool.close()
        await pool.wait_closed()
        return pool.statistics().completed

    assert run(scenario) == 2


def performed(threads_count, seed):
    async def scenario(threads):
        pool = threads.pool(threads_count, "disk")
        effects, answers = [], []

        def work(number):
            effects.append(number)
            return number

        for number in range(20):
            pool.submit(work, (number,), lambda result, error: answers.append(result))
        pool.close()
        await pool.wait_closed()
        return effects, answers

    return run(scenario, seed)


def test_one_thread_performs_in_order_and_several_in_any():
    for seed in range(5):
        effects, answers = performed(1, seed)
        assert effects == list(range(20))
        assert sorted(answers) == list(range(20))
    assert any(performed(2, seed)[0] != list(range(20)) for seed in range(5))
    assert any(performed(2, seed)[1] != performed(2, seed)[0] for seed in range(5))
    assert performed(2, 3) == performed(2, 3)


def test_the_bounds_of_the_real_pool_hold_here_too():
    async def scenario(threads):
        pool = threads.pool(1, "disk", queue_max=1)
        pool.submit(int, (), lambda result, error: None)
        pool.submit(int, (), lambda result, error: None)
        with pytest.raises(MailboxFullError):
            pool.submit(int, (), lambda result, error: None)
        results = await asyncio.gather(*(pool.run(int, n) for n in range(30)))
        pool.close()
        with pytest.raises(ClosedError):
            await pool.run(int)
        await pool.wait_closed()
        return results

    assert run(scenario) == list(range(30))


def test_the_answer_comes_after_the_cost_of_the_work():
    async def scenario(sim):
        host = sim.host("a")
        host.disk.slowness = 1000
        pool = host.runtime.threads.pool(1, "disk")
        loop = asyncio.get_running_loop()
        before = loop.time()
        await pool.run(host.runtime.filesystem.exists, "/")
        return loop.time() - before

    assert simulate(0, scenario).value >= 0.02
