"""The bookkeeping of blocking work: which call waits for capacity, which is answered, how it ends.

It has no threads. ``BlockingPool`` performs the jobs in threads, the simulator performs them on the loop;
both are this class with another ``_dispatch``, so that simulation exercises the bounds of production.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.errors import ClosedError, MailboxFullError

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class BlockingStatistics:
    """Gauges of now and counts since creation."""

    threads: int
    pending: int
    pending_max: int
    waiting: int
    completed: int
    failed: int


class Job:
    """One call to perform, and the callback for its result."""

    __slots__ = ("args", "done", "fn")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        self.fn = fn
        self.args = args
        self.done = done

    def perform(self) -> tuple[Any, BaseException | None]:
        """Return the result, or None with the error."""
        try:
            return self.fn(*self.args), None
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            return None, error


class BoundedWork(ABC):
    """Accepts jobs within a bound and answers them. Belongs to the loop that first uses it.

    At most ``threads + queue_max`` jobs are waiting, that is, queued, running or finished but not yet
    answered; ``submit`` then raises, ``run`` waits, first come, first served.
    """

    def __init__(self, threads: int, name: str, queue_max: int) -> None:
        assert threads >= 1
        assert queue_max >= 0
        self.name = name
        self._threads_max = threads
        self._pending_max = threads + queue_max
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._completed = 0
        self._failed = 0

    # ---- what a performer adds

    @abstractmethod
    def _dispatch(self, job: Job) -> None:
        """Have ``job`` performed, then ``_deliver`` called on the loop."""

    @abstractmethod
    def _end(self) -> None:
        """End the performers when everything dispatched is done; called once."""

    @abstractmethod
    def _performers(self) -> int:
        """Return how many threads there are now."""

    # ---- calls

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """See ``BlockingWork.run``."""
        while not self._closed and (self._pending >= self._pending_max or self._waiting):
            await self._wait_capacity()
            if self._pending < self._pending_max:
                break
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.cancelled():
                if error is not None:
                    _logger.warning(
                        "%s: work failed after its caller was cancelled", self.name, exc_info=error
                    )
            elif error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):  # a future cannot carry it
                future.set_exception(RuntimeError("blocking work raised StopIteration"))
            else:
                future.set_exception(error)

        self.submit(fn, args, done)
        return await future

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        """See ``BlockingWork.submit``."""
        if self._closed:
            raise ClosedError(f"{self.name} is closed")
        if self._pending >= self._pending_max:
            raise MailboxFullError(f"{self.name}: {self._pending} jobs are waiting")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        assert self._loop is loop  # the counters belong to one loop
        self._pending += 1
        self._dispatch(Job(fn, args, done))

    def close(self) -> None:
        """See ``BlockingWork.close``."""
        if self._closed:
            return
        self._closed = True
        self._end()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)  # ``run`` checks _closed

    def statistics(self) -> BlockingStatistics:
        return BlockingStatistics(
            threads=self._performers(),
            pending=self._pending,
            pending_max=self._pending_max,
            waiting=len(self._waiting),
            completed=self._completed,
            failed=self._failed,
        )

    # ---- answering

    def _deliver(self, job: Job, result: Any, error: BaseException | None) -> None:
        self._pending -= 1
        self._completed += 1
        self._failed += error is not None
        self._wake_waiter()
        job.done(result, error)

    async def _wait_capacity(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._wake_waiter()  # the capacity was for this call: the next one gets it
            elif waiter in self._waiting:  # else a wake-up has already passed over the cancelled future
                self._waiting.remove(waiter)
            raise

    def _wake_waiter(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
