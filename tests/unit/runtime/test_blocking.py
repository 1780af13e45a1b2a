import asyncio
import errno
import logging
import subprocess
import sys
import threading

import pytest

from headrace.errors import ClosedError, MailboxFullError
from headrace.runtime import blocking
from headrace.runtime.blocking import BlockingPool, SystemThreads, start_thread


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def ended(pool):
    pool.close()
    async with asyncio.timeout(120):
        await pool.wait_closed()


async def test_results_and_errors_come_back_to_the_caller():
    pool = SystemThreads().pool(2, "test")
    assert await pool.run(pow, 2, 10) == 1024
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(next, iter(()))
    assert await pool.run(lambda: None) is None
    assert (pool.statistics().completed, pool.statistics().failed) == (4, 2)
    await ended(pool)


async def test_work_runs_outside_the_loop_thread_and_answers_arrive_on_it():
    pool = BlockingPool(1, "disk")
    answers = asyncio.Queue()
    pool.submit(
        threading.current_thread,
        (),
        lambda result, error: answers.put_nowait((result, threading.current_thread())),
    )
    worker, answered_in = await answers.get()
    assert worker.name == "disk-0"
    assert not worker.daemon
    assert answered_in is threading.main_thread()
    await ended(pool)


async def test_one_thread_performs_jobs_in_order():
    pool = BlockingPool(1, "disk")
    done = []
    for number in range(500):
        pool.submit(int, (number,), lambda result, error: done.append(result))
    await pool.run(int)
    assert done == list(range(500))
    await ended(pool)


async def test_never_more_threads_than_allowed_and_none_before_there_is_work():
    pool = BlockingPool(3, "disk", queue_max=100)
    assert pool.statistics().threads == 0
    lock, running, peak = threading.Lock(), [0], [0]

    def work():
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        threading.Event().wait(0.002)
        with lock:
            running[0] -= 1

    await asyncio.gather(*(pool.run(work) for _ in range(50)))
    assert peak[0] == 3
    assert pool.statistics().threads == 3
    await ended(pool)
    assert pool.statistics().threads == 0


async def test_a_full_queue_refuses_submit_and_makes_run_wait_its_turn():
    pool = BlockingPool(1, "disk", queue_max=1)
    gate = threading.Event()
    order = []

    async def job(number):
        await pool.run(order.append, number)

    pool.submit(gate.wait, (), lambda result, error: None)
    pool.submit(order.append, ("second",), lambda result, error: None)
    with pytest.raises(MailboxFullError):
        pool.submit(int, (), lambda result, error: None)
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(job(number))
        await settle()
        assert pool.statistics().waiting == 50
        assert pool.statistics().pending == 2
        gate.set()
    assert order == ["second", *range(50)]
    await ended(pool)


async def test_a_cancelled_waiter_passes_its_turn_on():
    pool = BlockingPool(1, "disk", queue_max=0)
    gate = threading.Event()
    pool.submit(gate.wait, (), lambda result, error: None)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pool.run(int, n)) for n in range(10)]
        await settle()
        for task in tasks[:9]:
            task.cancel()
        gate.set()
        assert await tasks[9] == 9
    await ended(pool)


async def test_queued_work_is_done_though_its_caller_left_and_its_failure_is_logged(caplog):
    pool = BlockingPool(1, "disk")
    gate, performed = threading.Event(), []

    def late():
        performed.append(True)
        raise OSError("disk gone")

    pool.submit(gate.wait, (), lambda result, error: None)
    async with asyncio.TaskGroup() as group:
        caller = group.create_task(pool.run(late))
        await settle()
        caller.cancel()
    gate.set()
    with caplog.at_level(logging.WARNING):
        await ended(pool)
    assert performed == [True]
    assert "disk gone" in caplog.text


async def test_close_performs_what_is_queued_refuses_the_rest_and_ends_every_thread():
    pool = BlockingPool(2, "disk", queue_max=2)
    gate, performed = threading.Event(), []

    async def refused():
        with pytest.raises(ClosedError):
            await pool.run(performed.append, "late")

    for _ in range(2):
        pool.submit(gate.wait, (), lambda result, error: None)
    for number in range(2):
        pool.submit(performed.append, (number,), lambda result, error: None)
    async with asyncio.TaskGroup() as group:
        group.create_task(refused())  # waits for room when close comes
        await settle()
        pool.close()
        pool.close()
        with pytest.raises(ClosedError):
            pool.submit(int, (), lambda result, error: None)
        gate.set()
    await asyncio.gather(pool.wait_closed(), pool.wait_closed())
    assert sorted(performed) == [0, 1]
    assert pool.statistics().pending == 0


async def test_a_pool_that_never_worked_closes_at_once():
    pool = BlockingPool(4, "disk")
    await ended(pool)


def test_queued_work_survives_a_loop_that_was_closed_under_it():
    performed, gate = [], threading.Event()

    async def main():
        pool = BlockingPool(1, "disk")
        pool.submit(gate.wait, (), lambda result, error: None)
        pool.submit(performed.append, (1,), lambda result, error: None)
        pool.close()
        return pool

    pool = asyncio.run(main())
    gate.set()
    for thread in pool._threads:
        thread.join(120)
        assert not thread.is_alive()
    assert performed == [1]


@pytest.mark.slow
def test_a_pool_that_nobody_closed_does_not_hang_the_exit():
    code = """
import asyncio
from headrace.runtime import blocking
from headrace.runtime.blocking import BlockingPool
async def main():
    pool = BlockingPool(2, "forgotten")
    await pool.run(int)
    return pool
pool = asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_started_thread_runs_and_can_be_joined():
    gate = threading.Event()
    thread = start_thread("writer", gate.wait)
    assert thread.is_alive()
    gate.set()
    thread.join(120)
    assert not thread.is_alive()


class ScarceThreads:
    """A system that starts only so many threads."""

    def __init__(self, monkeypatch, count):
        self.left = count
        monkeypatch.setattr(blocking, "start_thread", self.start)

    def start(self, name, target):
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        return start_thread(name, target)


@pytest.mark.parametrize("closing", [False, True])
async def test_work_is_refused_on_the_loop_if_no_thread_can_be_started(monkeypatch, closing):
    ScarceThreads(monkeypatch, 0)
    pool = BlockingPool(2, "disk")
    answers = []
    for _ in range(3):
        pool.submit(pow, (2, 10), lambda result, error: answers.append((result, error.errno)))
    assert answers == []  # never before submit has returned
    if not closing:
        with pytest.raises(OSError, match="can't start new thread"):
            await pool.run(pow, 2, 10)
    await ended(pool)
    assert answers == [(None, errno.EAGAIN)] * 3
    assert (pool.statistics().pending, pool.statistics().threads) == (0, 0)


async def test_a_pool_that_was_refused_threads_works_as_soon_as_there_are_any(monkeypatch):
    system = ScarceThreads(monkeypatch, 0)
    pool = BlockingPool(2, "disk")
    with pytest.raises(OSError, match="can't start new thread"):
        await pool.run(int)
    system.left = 2
    assert await pool.run(pow, 2, 10) == 1024
    await ended(pool)


async def test_one_thread_does_the_work_of_those_that_cannot_be_started(monkeypatch):
    ScarceThreads(monkeypatch, 1)
    pool = BlockingPool(4, "disk")
    assert await asyncio.gather(*(pool.run(pow, number, 2) for number in range(50))) == [
        number * number for number in range(50)
    ]
    assert pool.statistics().threads == 1
    await ended(pool)
