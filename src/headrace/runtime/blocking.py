"""Blocking work beside the event loop: few threads, a bounded queue, answers on the loop. Simulation has no
threads.

Components receive ``Threads`` and create pools from it; in simulation they receive an implementation that
performs the work on the loop itself, at a later virtual time. Work touches no state: it receives buffers and
descriptors and returns values.
"""

from __future__ import annotations

import asyncio
import errno
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from headrace.runtime.bounded_work import BlockingStatistics, BoundedWork, Done, Job

T = TypeVar("T")

QUEUE_MAX_DEFAULT: Final = 1024

#: An idle worker checks this often whether the program is ending, so that a pool that was not closed cannot
#: block the exit.
_IDLE_CHECK_S: Final = 2.0


class ThreadHandle(Protocol):
    """A running thread."""

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


class BlockingWork(Protocol):
    """Performs functions that block, away from the caller. Used on one event loop."""

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Perform ``fn(*args)`` and return its result, waiting for capacity in the queue if need be.

        Cancelling the caller does not stop work that has been queued; its result is dropped.

        Raises:
            ClosedError: the work was not queued because ``close`` was called.
            Exception: whatever ``fn`` raises.
        """

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        """Perform ``fn(*args)``, then call ``done(result, error)`` on the loop; exactly one of them is None.

        (A function that returns None gives ``done(None, None)``.) One thread performs jobs in order. If the
        system gives no thread at all, the error is ``OSError`` with ``EAGAIN``, and nothing was performed.

        Raises:
            MailboxFullError: the queue is full; nothing was queued.
            ClosedError: ``close`` was called; nothing was queued.
        """

    def close(self) -> None:
        """Accept no more work; what is queued is still performed and answered, then the threads end.
        Idempotent.
        """

    async def wait_closed(self) -> None:
        """Wait until every thread has ended after ``close`` and every answer was delivered."""

    def statistics(self) -> BlockingStatistics: ...


class Threads(Protocol):
    """The source of threads that components receive."""

    def pool(self, threads: int, name: str, *, queue_max: int = QUEUE_MAX_DEFAULT) -> BlockingWork:
        """Return a new pool of at most ``threads`` threads; its creator closes it."""


def start_thread(name: str, target: Callable[[], None]) -> ThreadHandle:
    """Start a thread that its owner ends and joins; the process waits for it at exit."""
    thread = threading.Thread(target=target, name=name, daemon=False)
    thread.start()
    return thread


class SystemThreads:
    """Real threads."""

    __slots__ = ()

    def pool(self, threads: int, name: str, *, queue_max: int = QUEUE_MAX_DEFAULT) -> BlockingWork:
        return BlockingPool(threads, name, queue_max=queue_max)


class BlockingPool(BoundedWork):
    """A bounded pool of threads with a bounded queue. Belongs to the loop that first uses it.

    Threads start when there is work for them. All bookkeeping happens on the loop; threads only take jobs and
    post answers, so there are no locks.
    """

    def __init__(self, threads: int, name: str, *, queue_max: int = QUEUE_MAX_DEFAULT) -> None:
        super().__init__(threads, name, queue_max)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[ThreadHandle] = []
        self._threads_ended = 0
        self._refused = 0
        """Jobs that are about to fail, since no thread could be started."""
        self._ended: list[asyncio.Future[None]] = []

    async def wait_closed(self) -> None:
        """See ``BlockingWork.wait_closed``."""
        assert self._closed
        if self._threads_ended < len(self._threads) or self._refused:
            ended = asyncio.get_running_loop().create_future()
            self._ended.append(ended)
            await ended
        for thread in self._threads:
            thread.join()  # returns at once: each has notified its end

    # ---- on the loop

    def _dispatch(self, job: Job) -> None:
        if len(self._threads) < min(self._threads_max, self._pending):
            try:
                self._threads.append(start_thread(f"{self.name}-{len(self._threads)}", self._work))
            except RuntimeError as error:  # the system has no more; the started ones perform it
                if not self._threads:
                    self._refuse(job, error)
                    return
        self._queue.put(job)

    def _refuse(self, job: Job, reason: RuntimeError) -> None:
        """Fail a job that no thread can perform, with the error of an exhausted resource."""
        error = OSError(errno.EAGAIN, f"{self.name}: {reason}")
        self._refused += 1
        asyncio.get_running_loop().call_soon(self._answer_refused, job, error)

    def _answer_refused(self, job: Job, error: OSError) -> None:
        self._refused -= 1
        try:
            self._deliver(job, None, error)
        finally:
            self._check_ended()

    def _end(self) -> None:
        for _ in self._threads:
            self._queue.put(None)

    def _performers(self) -> int:
        return len(self._threads) - self._threads_ended

    def _on_thread_ended(self) -> None:
        self._threads_ended += 1
        self._check_ended()

    def _check_ended(self) -> None:
        if self._closed and self._threads_ended == len(self._threads) and not self._refused:
            for ended in self._ended:
                if not ended.done():
                    ended.set_result(None)

    # ---- in a thread

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            self._post(self._deliver, job, *job.perform())
            del job  # an idle thread retains nothing
        self._post(self._on_thread_ended)

    def _post(self, callback: Callable[..., None], *args: Any) -> None:
        loop = self._loop
        assert loop is not None
        try:
            loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            if not loop.is_closed():  # on a closed loop nothing waits for an answer
                raise

    def _next_job(self) -> Job | None:
        main = threading.main_thread()
        while True:
            try:
                return self._queue.get(timeout=_IDLE_CHECK_S)
            except queue.Empty:
                if not main.is_alive():
                    return None
