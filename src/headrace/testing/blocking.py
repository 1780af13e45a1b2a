"""Blocking work without threads: performed on the loop, at a later virtual time, with the bounds of the
real pool.

Fault model: a job takes effect some time after it was asked for, and is answered some time after that; the
process may die before, between and behind. Jobs of one thread are performed in order; jobs of several
threads overlap and may be performed and answered in any order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from headrace.runtime.blocking import QUEUE_MAX_DEFAULT, BlockingWork
from headrace.runtime.bounded_work import BoundedWork, Job
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.loop import SimulatedLoop

#: Longest virtual time until a free thread takes a job, or until its answer reaches the loop.
HAND_OVER_S: Final = 100e-6


class SimulatedThreads:
    """A source of pools whose threads are virtual."""

    def __init__(self, entropy: SeededEntropy, take_cost_s: Callable[[], float] | None = None) -> None:
        """Make a source.

        Args:
            entropy: when things happen.
            take_cost_s: returns the virtual seconds that the calls since it was last asked took; usually of
            a disk.
        """
        self._entropy = entropy
        self._take_cost_s = take_cost_s

    def pool(self, threads: int, name: str, *, queue_max: int = QUEUE_MAX_DEFAULT) -> BlockingWork:
        return SimulatedPool(threads, name, queue_max, self._entropy, self._take_cost_s)


class SimulatedPool(BoundedWork):
    """The twin of ``BlockingPool``."""

    def __init__(
        self,
        threads: int,
        name: str,
        queue_max: int,
        entropy: SeededEntropy,
        take_cost_s: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(threads, name, queue_max)
        self._entropy = entropy
        self._take_cost_s = take_cost_s
        self._jobs: deque[Job] = deque()
        self._busy = 0
        self._ended: list[asyncio.Future[None]] = []

    async def wait_closed(self) -> None:
        """See ``BlockingWork.wait_closed``."""
        assert self._closed
        if self._pending:
            ended = asyncio.get_running_loop().create_future()
            self._ended.append(ended)
            await ended

    def _dispatch(self, job: Job) -> None:
        self._jobs.append(job)
        self._start_next()

    def _end(self) -> None:
        """The jobs that are left are performed; then nothing is."""

    def _performers(self) -> int:
        return self._busy

    def _start_next(self) -> None:
        if self._jobs and self._busy < self._threads_max:
            self._busy += 1
            self._later(self._hand_over_s(), self._perform, self._jobs.popleft())

    def _perform(self, job: Job) -> None:
        self._spent_s()  # what else the loop did in the meantime is not this job's cost
        result, error = job.perform()
        self._later(self._spent_s(), self._finish, job, result, error)

    def _finish(self, job: Job, result: Any, error: BaseException | None) -> None:
        """The thread is free again; the answer is in flight."""
        self._busy -= 1
        self._start_next()
        self._later(self._hand_over_s(), self._answer, job, result, error)

    def _answer(self, job: Job, result: Any, error: BaseException | None) -> None:
        try:
            self._deliver(job, result, error)
        finally:
            if self._closed and not self._pending:
                for ended in self._ended:
                    if not ended.done():
                        ended.set_result(None)

    def _hand_over_s(self) -> float:
        return self._entropy.random() * HAND_OVER_S

    def _spent_s(self) -> float:
        return 0.0 if self._take_cost_s is None else self._take_cost_s()

    def _later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> None:
        loop = self._loop
        assert isinstance(loop, SimulatedLoop)
        loop.call_at_machine_time(loop.machine_time() + delay_s, callback, *args)
