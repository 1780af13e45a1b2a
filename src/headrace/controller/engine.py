"""Runs workflows: one at a time per stream, each until it is done, whatever happens in between.

All work is written in rows: a workflow that was started; requests, a scale and transactions that wait. It
survives the process. A call that waits for its request watches the row.

A stream with work has one task. It first finishes what was started; then it alternates between requests, a
waiting scale and committed transactions, so that none of them starves. So many streams at a time are worked
for; the others wait, each with a task that does nothing yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.controller.store.rows.stream_row import StreamRow
from headrace.controller.streams.stream import Stream
from headrace.errors import (
    ClosedError,
    DeadlineExceededError,
    HeadraceError,
    NoSuchStreamError,
    OverloadError,
    OwnershipError,
    RequestError,
    ThrottledError,
    UnknownOutcomeError,
)
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy
from headrace.runtime.supervisor import Supervisor

Run = Callable[[], Awaitable[Any]]

_log = logger(__name__)

WAITING_PER_STREAM_MAX: Final = 1000
_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0
_RETRY: Final = RetryPolicy(initial_s=0.05, multiplier=2.0, delay_max_s=10.0, attempts=1)
_TRANSIENT: Final = (OwnershipError, OverloadError, UnknownOutcomeError)


@dataclass(slots=True)
class EngineStatistics:
    """Gauges of now and counts since creation."""

    streams_busy: int
    requests_waiting: int
    runs: int
    retries: int
    failures: int


class _Worker:
    """What one stream has to do."""

    __slots__ = ("next_kind", "stepped", "stream", "woken")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.next_kind = 0
        self.woken = asyncio.Event()
        self.stepped = asyncio.Event()
        """Set, and replaced, after each attempt."""

    def notify_step(self) -> None:
        stepped, self.stepped = self.stepped, asyncio.Event()
        stepped.set()


class DurableWork(Protocol):
    """What rows say is to be done. The engine asks; ``workflows.catalogue`` knows."""

    def started(self, stream: Stream) -> Run | None:
        """Return how to finish the workflow that holds the stream."""

    def waiting(self, stream: Stream) -> list[Run | None]:
        """Return how to do each kind of work that waits for the stream to be free; None: there is none."""


async def nobody_tells(stream: Stream) -> bool:  # noqa: ARG001
    """Tell nothing of other controllers' work: their rows are looked at after pauses."""
    return False


class WorkflowEngine:
    """Owns the tasks of all streams with work. Used on the controller's loop."""

    def __init__(
        self,
        entropy: Entropy,
        *,
        timeout_s: float,
        streams_at_once: int,
        wait_told: Callable[[Stream], Awaitable[bool]] = nobody_tells,
    ) -> None:
        """``wait_told``: waits until another controller says that it has changed the row of a stream, and
        returns False if that is not said.
        """
        self.work: DurableWork | None = None
        """Set once, before the first call: workflows need the engine and the engine the workflows."""
        self._entropy = entropy
        self._timeout_s = timeout_s
        self._wait_told = wait_told
        self._supervisor = Supervisor("workflows")
        self._workers: dict[tuple[str, bytes], _Worker] = {}
        self._stopped = asyncio.Event()
        self._slots = asyncio.Semaphore(streams_at_once)
        """Of streams that are worked for; the others wait in the order in which they asked. No workflow waits
        for that of another stream, so slots come free again.
        """
        self._waiting: Counter[tuple[str, bytes]] = Counter()
        """Calls by stream."""
        self._runs = 0
        self._retries = 0
        self._failures = 0

    async def stop(self) -> None:
        """Stop wherever the workflows are. The next start finishes them."""
        self._stopped.set()
        await self._supervisor.stop()
        for worker in self._workers.values():
            worker.notify_step()  # its task may have ended before it began
        self._workers.clear()

    async def wait(self, stream: Stream, what: str, is_over: Callable[[StreamRow], bool]) -> None:
        """Wait until the stream's row fulfils ``is_over``.

        While this engine works for the stream, the row is looked at after each step; otherwise it is read
        when the controller that is at work says so, or with growing pauses.

        Raises:
            DeadlineExceededError: it takes too long; it goes on.
            NoSuchStreamError: the stream is gone.
            ThrottledError: too many calls wait for this stream.
            RequestError: what ``is_over`` raises.
        """
        key = (stream.full_name, stream.uid)
        if self._waiting[key] >= WAITING_PER_STREAM_MAX:
            raise ThrottledError(f"{self._waiting[key]} calls wait for stream {stream.full_name}")
        self._waiting[key] += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._watch(stream, is_over)
        except TimeoutError:
            raise DeadlineExceededError(f"{what} of stream {stream.full_name} is still in progress") from None
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    async def wait_changed(self, stream: Stream, version: int) -> None:
        """Wait until the row of the stream is known to be newer than ``version``, or there is no work here
        that could change it.
        """
        while not stream.gone and stream.version <= version:
            worker = self._workers.get((stream.full_name, stream.uid))
            if worker is None:
                return
            await worker.stepped.wait()

    def has_work(self, stream: Stream) -> bool:
        """Whether the rows that are known of the stream say that there is work."""
        assert self.work is not None
        return self.work.started(stream) is not None or any(self.work.waiting(stream))

    def is_busy(self, stream: Stream) -> bool:
        """Whether there is work for the stream here, running or waiting."""
        return (stream.full_name, stream.uid) in self._workers

    def wake(self, stream: Stream) -> None:
        """There may be durable work for the stream."""
        if not self._stopped.is_set():
            self._worker(stream).woken.set()

    def statistics(self) -> EngineStatistics:
        waiting = self._waiting.total()
        return EngineStatistics(len(self._workers), waiting, self._runs, self._retries, self._failures)

    # ---------------------------------------------------------------------------------- one stream

    def _worker(self, stream: Stream) -> _Worker:
        key = (stream.full_name, stream.uid)
        worker = self._workers.get(key)
        if worker is None:
            if self._stopped.is_set():
                raise ClosedError("the controller is stopping")
            worker = self._workers[key] = _Worker(stream)
            self._supervisor.spawn(stream.full_name, self._run_worker(key, worker))
        return worker

    async def _watch(self, stream: Stream, is_over: Callable[[StreamRow], bool]) -> None:
        pause_s, in_vain = _PAUSE_MIN_S, False
        while True:
            if stream.gone:
                raise NoSuchStreamError(f"stream {stream.full_name} does not exist")
            if is_over(stream.row):
                return
            worker = self._workers.get((stream.full_name, stream.uid))
            version, stepped, told = stream.version, False, False
            if worker is not None:
                stepped = await _happens(worker.stepped, _PAUSE_MAX_S)
            elif in_vain or not (told := await self._wait_told(stream)):
                await _happens(self._stopped, pause_s)
                pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            if self._stopped.is_set():
                raise ClosedError("the controller is stopping")
            if not stepped:
                with contextlib.suppress(*_TRANSIENT):
                    await stream.refresh()
            in_vain = told and stream.version == version

    async def _run_worker(self, key: tuple[str, bytes], worker: _Worker) -> None:
        failures = 0
        try:
            while True:
                await self._slots.acquire()
                try:
                    worker.woken.clear()
                    await self._refresh(worker.stream)
                    run = self._choose(worker)
                    if run is None:
                        return  # nothing is awaited from here on: what comes later starts a new task
                    failures = 0 if await self._attempt(worker, run) else failures + 1
                finally:
                    self._slots.release()
                worker.notify_step()
                if failures:
                    self._retries += 1
                    delay_s = _RETRY.delay_s(failures, self._entropy.random())
                    await _wait(worker.woken, delay_s)
        finally:
            self._workers.pop(key, None)
            worker.notify_step()

    async def _refresh(self, stream: Stream) -> None:
        """Another controller may have been at work; and what is known of the stream may be why it failed."""
        try:
            await stream.refresh()
        except NoSuchStreamError:
            stream.gone = True  # deleted, here or by another controller
        except HeadraceError as error:
            _log.warning("stream could not be read again", stream=stream.full_name, error=str(error))

    def _choose(self, worker: _Worker) -> Run | None:
        """Return the next thing to do."""
        stream, work = worker.stream, self.work
        assert work is not None
        if stream.gone:
            return None
        started = work.started(stream)
        if started is not None:
            return started
        kinds = work.waiting(stream)
        for offset in range(len(kinds)):
            kind = (worker.next_kind + offset) % len(kinds)
            run = kinds[kind]
            if run is not None:
                worker.next_kind = kind + 1
                return run
        return None

    async def _attempt(self, worker: _Worker, run: Run) -> bool:
        """Run once; return False if it has to be tried again later."""
        self._runs += 1
        try:
            await run()
        except NoSuchStreamError:
            worker.stream.gone = True
            return True
        except (*_TRANSIENT, RequestError) as error:
            _log.warning("workflow is retried", stream=worker.stream.full_name, error=str(error))
            return False
        except Exception as error:  # noqa: BLE001 - one stream must not end the work of another
            self._failures += 1
            _log.error("workflow failed", stream=worker.stream.full_name, exc_info=error)
            return False
        return True


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for the delay; new work may end it early, but not at once."""
    await asyncio.sleep(min(timeout_s, 0.05))
    await _happens(event, max(0.0, timeout_s - 0.05))


async def _happens(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for ``event``; return whether it came in time."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
