"""Blocking work beside the event loop: few threads, a bounded queue, answers on the loop. Simulation has no
threads.

Components are handed ``Threads`` and ask it for what they need; the simulator hands them a twin that
performs the work on the loop itself, at a later virtual time. Work touches no state: it is given buffers
and descriptors and returns values.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from headrace.errors import ClosedError, MailboxFullError

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]

_logger = logging.getLogger(__name__)

QUEUE_MAX_DEFAULT: Final = 1024

#: An idle worker looks this often whether the program is ending, so that a pool nobody closed cannot hang
#: the exit.
_IDLE_CHECK_S: Final = 2.0


@dataclass(slots=True)
class BlockingStatistics:
    """Gauges of now and counts since creation."""

    threads: int
    pending: int
    pending_max: int
    waiting: int
    completed: int
    failed: int


class ThreadHandle(Protocol):
    """A running thread."""

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


class BlockingWork(Protocol):
    """Performs functions that block, away from the caller. Used on one event loop."""

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Perform ``fn(*args)`` and return its result, waiting for room in the queue if need be.

        Cancelling the caller does not stop work that has been queued; its result is dropped.

        Raises:
            ClosedError: the work was not queued because ``close`` was called.
            Exception: whatever ``fn`` raises.
        """

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        """Perform ``fn(*args)``, then call ``done(result, error)`` on the loop; exactly one of them is None.

        (A function that returns None gives ``done(None, None)``.) One thread performs jobs in order.

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
    """The source of threads, handed to components."""

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


class _Job:
    __slots__ = ("args", "done", "fn")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        self.fn = fn
        self.args = args
        self.done = done


class BlockingPool:
    """A bounded pool of threads with a bounded queue. Belongs to the loop that first uses it.

    Threads start when there is work for them. All bookkeeping happens on the loop; threads only take jobs
    and post answers, so there are no locks. At most ``threads + queue_max`` jobs are pending, that is,
    queued, running or finished but not yet answered; ``submit`` then raises, ``run`` waits its turn.
    """

    def __init__(self, threads: int, name: str, *, queue_max: int = QUEUE_MAX_DEFAULT) -> None:
        assert threads >= 1
        assert queue_max >= 0
        self.name = name
        self._threads_max = threads
        self._pending_max = threads + queue_max
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[ThreadHandle] = []
        self._threads_ended = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ended: list[asyncio.Future[None]] = []
        self._closed = False
        self._completed = 0
        self._failed = 0

    # ---- asking

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        while not self._closed and (self._pending >= self._pending_max or self._waiting):
            await self._wait_for_room()
            if self._pending < self._pending_max:
                break
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.cancelled():
                if error is not None:
                    _logger.warning("%s: work failed after its caller had left", self.name, exc_info=error)
            elif error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):  # a future cannot carry it
                future.set_exception(RuntimeError("blocking work raised StopIteration"))
            else:
                future.set_exception(error)

        self.submit(fn, args, done)
        return await future

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        if self._closed:
            raise ClosedError(f"{self.name} is closed")
        if self._pending >= self._pending_max:
            raise MailboxFullError(f"{self.name}: {self._pending} jobs are pending")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        assert self._loop is loop  # the counters belong to one loop
        self._pending += 1
        self._queue.put(_Job(fn, args, done))
        if len(self._threads) < min(self._threads_max, self._pending):
            self._threads.append(start_thread(f"{self.name}-{len(self._threads)}", self._work))

    # ---- ending

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        while self._waiting:
            room = self._waiting.popleft()
            if not room.done():
                room.set_result(None)  # they look at _closed

    async def wait_closed(self) -> None:
        assert self._closed
        if self._threads_ended < len(self._threads):
            ended = asyncio.get_running_loop().create_future()
            self._ended.append(ended)
            await ended
        for thread in self._threads:
            thread.join()  # at once: each has announced its end

    def statistics(self) -> BlockingStatistics:
        return BlockingStatistics(
            threads=len(self._threads) - self._threads_ended,
            pending=self._pending,
            pending_max=self._pending_max,
            waiting=len(self._waiting),
            completed=self._completed,
            failed=self._failed,
        )

    # ---- on the loop

    async def _wait_for_room(self) -> None:
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(room)
        try:
            await room
        except BaseException:
            if room.done() and not room.cancelled():
                self._wake_waiter()  # the room was for us, but we leave: pass it on
            elif room in self._waiting:  # else a wake-up has already passed over the cancelled future
                self._waiting.remove(room)
            raise

    def _wake_waiter(self) -> None:
        while self._waiting:
            room = self._waiting.popleft()
            if not room.done():
                room.set_result(None)
                return

    def _deliver(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._pending -= 1
        self._completed += 1
        self._failed += error is not None
        self._wake_waiter()
        job.done(result, error)

    def _on_thread_ended(self) -> None:
        self._threads_ended += 1
        if self._threads_ended == len(self._threads):
            for ended in self._ended:
                if not ended.done():
                    ended.set_result(None)

    # ---- in a thread

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            result, error = None, None
            try:
                result = job.fn(*job.args)
            except BaseException as raised:  # noqa: BLE001 - it belongs to the caller
                error = raised
            self._post(self._deliver, job, result, error)
            del job, result, error  # an idle thread keeps nothing alive
        self._post(self._on_thread_ended)

    def _post(self, callback: Callable[..., None], *args: Any) -> None:
        loop = self._loop
        assert loop is not None
        try:
            loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            if not loop.is_closed():  # a closed loop has nobody who waits for an answer
                raise

    def _next_job(self) -> _Job | None:
        main = threading.main_thread()
        while True:
            try:
                return self._queue.get(timeout=_IDLE_CHECK_S)
            except queue.Empty:
                if not main.is_alive():
                    return None
