"""Runs workflows: one at a time per stream, each until it is done, whatever happens in between.

Work comes in two kinds. *Durable* work is written in a row: a workflow that was started, a scale or a
transaction that waits. It survives the process; at its start a controller looks for it. *Requests* are calls
that wait in a queue here; if the process dies before they are served, the caller retries.

A stream with work has one task. It first finishes what was started; then it alternates between requests, a
waiting scale and committed transactions, so that none of them starves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

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

R = TypeVar("R")
Run = Callable[[], Awaitable[Any]]

_log = logger(__name__)

REQUESTS_PER_STREAM_MAX: Final = 1000
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


class _Request(Generic[R]):
    __slots__ = ("done", "name", "run")

    def __init__(self, name: str, run: Callable[[], Awaitable[R]], done: asyncio.Future[R]) -> None:
        self.name = name
        self.run = run
        self.done = done


class _Worker:
    """What one stream has to do."""

    __slots__ = ("next_kind", "requests", "stream", "woken")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.requests: deque[_Request[Any]] = deque()
        self.next_kind = 0
        self.woken = asyncio.Event()


class DurableWork(Protocol):
    """What rows say is to be done. The engine asks; ``workflows.catalogue`` knows."""

    def started(self, stream: Stream) -> Run | None:
        """Return how to finish the workflow that holds the stream."""

    def waiting(self, stream: Stream) -> list[Run | None]:
        """Return how to do each kind of work that waits for the stream to be free; None: there is none."""


class WorkflowEngine:
    """Owns the tasks of all streams with work. Used on the controller's loop."""

    def __init__(self, entropy: Entropy, *, timeout_s: float) -> None:
        self.work: DurableWork | None = None
        """Set once, before the first call: workflows need the engine and the engine the workflows."""
        self._entropy = entropy
        self._timeout_s = timeout_s
        self._supervisor = Supervisor("workflows")
        self._workers: dict[tuple[str, bytes], _Worker] = {}
        self._stopped = False
        self._runs = 0
        self._retries = 0
        self._failures = 0

    async def stop(self) -> None:
        """Stop wherever the workflows are. The next start finishes them."""
        self._stopped = True
        await self._supervisor.stop()
        for worker in self._workers.values():
            for request in worker.requests:
                _fail(request, ClosedError("the controller is stopping"))
        self._workers.clear()

    async def request(self, stream: Stream, name: str, run: Callable[[], Awaitable[R]]) -> R:
        """Queue ``run``, which has the stream for itself when it is called, and wait until it is done.

        Transient failures are retried; ``run`` must bear being called again.

        Raises:
            DeadlineExceededError: it takes too long; it goes on.
            ThrottledError: too many requests wait for this stream.
            RequestError: what ``run`` refuses.
        """
        worker = self._worker(stream)
        if len(worker.requests) >= REQUESTS_PER_STREAM_MAX:
            raise ThrottledError(f"{len(worker.requests)} requests wait for stream {stream.full_name}")
        request: _Request[R] = _Request(name, run, asyncio.get_running_loop().create_future())
        worker.requests.append(request)
        worker.woken.set()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(request.done)
        except TimeoutError:
            raise DeadlineExceededError(f"{name} of stream {stream.full_name} is still in progress") from None

    def wake(self, stream: Stream) -> None:
        """There may be durable work for the stream."""
        if not self._stopped:
            self._worker(stream).woken.set()

    def statistics(self) -> EngineStatistics:
        waiting = sum(len(worker.requests) for worker in self._workers.values())
        return EngineStatistics(len(self._workers), waiting, self._runs, self._retries, self._failures)

    # ---------------------------------------------------------------------------------- one stream

    def _worker(self, stream: Stream) -> _Worker:
        key = (stream.full_name, stream.uid)
        worker = self._workers.get(key)
        if worker is None:
            if self._stopped:
                raise ClosedError("the controller is stopping")
            worker = self._workers[key] = _Worker(stream)
            self._supervisor.spawn(stream.full_name, self._run_worker(key, worker))
        return worker

    async def _run_worker(self, key: tuple[str, bytes], worker: _Worker) -> None:
        failures = 0
        try:
            while True:
                worker.woken.clear()
                await self._refresh(worker.stream)
                run = self._choose(worker)
                if run is None:
                    return  # nothing is awaited from here on: what comes later starts a new task
                failures = 0 if await self._attempt(worker, run) else failures + 1
                if failures:
                    self._retries += 1
                    delay_s = _RETRY.delay_s(failures, self._entropy.random())
                    await _wait(worker.woken, delay_s)
        finally:
            del self._workers[key]
            for request in worker.requests:
                _fail(request, ClosedError("the controller is stopping"))

    async def _refresh(self, stream: Stream) -> None:
        """Another controller may have been at work; and what is known of the stream may be why it failed."""
        try:
            await stream.refresh()
        except HeadraceError as error:
            _log.warning("stream could not be read again", stream=stream.full_name, error=str(error))

    def _choose(self, worker: _Worker) -> Run | None:
        """Return the next thing to do; requests that fail for good are answered on the way."""
        stream, work = worker.stream, self.work
        assert work is not None
        if stream.gone:
            while worker.requests:
                _fail(
                    worker.requests.popleft(), NoSuchStreamError(f"stream {stream.full_name} does not exist")
                )
            return None
        started = work.started(stream)
        if started is not None:
            return started
        kinds: list[Run | None] = [self._next_request(worker), *work.waiting(stream)]
        for offset in range(len(kinds)):
            kind = (worker.next_kind + offset) % len(kinds)
            run = kinds[kind]
            if run is not None:
                worker.next_kind = kind + 1
                return run
        return None

    def _next_request(self, worker: _Worker) -> Run | None:
        if not worker.requests:
            return None

        async def run_first() -> None:
            request = worker.requests[0]
            try:
                result = await request.run()
            except _TRANSIENT:
                raise
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                worker.requests.popleft()
                if not isinstance(error, HeadraceError):
                    self._failures += 1
                    _log.error("workflow failed", stream=worker.stream.full_name, exc_info=error)
                _fail(request, error)
                return
            worker.requests.popleft()
            if not request.done.done():
                request.done.set_result(result)

        return run_first

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
    """Wait for the delay; a new request may end it early, but not at once."""
    await asyncio.sleep(min(timeout_s, 0.05))
    try:
        async with asyncio.timeout(max(0.0, timeout_s - 0.05)):
            await event.wait()
    except TimeoutError:
        return


def _fail(request: _Request[Any], error: Exception) -> None:
    if not request.done.done():
        request.done.set_exception(error)
        request.done.exception()  # the caller may have stopped waiting
