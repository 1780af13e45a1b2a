"""One container in this process: its slot, start, term, failure, back-off, next start and end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import FencedOutError, StorageFullError
from headrace.runtime.uninterrupted import uninterrupted
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.container.ownership_term import describe_failure
from headrace.segmentstore.hosting.next_step import History, NextStep, Outcome, cause_of, outcome_of

_logger = logging.getLogger(__name__)

_SPACE: Final = "space on the disk of the log"
_SLOT: Final = "other containers, which start first"
_LOG: Final = "the end of its last term here, which uses its log"

OnFailed = Callable[[SegmentContainer, BaseException], None]
OnChange = Callable[["HostedContainer"], None]
MakeContainer = Callable[[int, OnFailed], SegmentContainer]


@dataclass(slots=True)
class ContainerHealth:
    """State of one container, for operators."""

    container_id: int
    online: bool = False
    restarts: int = 0
    last_failure: str = ""
    waits_for: str = ""
    """What its appends, or its start, wait for now; empty if for nothing."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a container here. Not its error: the traceback would retain the container in memory."""

    outcome: Outcome
    step: NextStep
    why: str = ""


@dataclass(slots=True, eq=False)
class _Term:
    """One start and what follows from it, to its end."""

    container: SegmentContainer
    failures: list[BaseException] = field(default_factory=list)
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    ending: asyncio.Task[None] | None = None

    def begin_end(self) -> asyncio.Task[None]:
        """Stop the container, unless that was begun before."""
        if self.ending is None:
            self.ending = asyncio.ensure_future(self.container.stop())
        return self.ending


class HostedContainer:
    """One container, from when it is given to this process until it is released or taken.

    ``stop_timeout_s``: how long a failed container may take to end before its log counts as stalled.
    ``on_change``: called when it has failed after it ran, when it runs again, and when it never will.
    """

    def __init__(
        self,
        container_id: int,
        make: MakeContainer,
        history: History,
        stop_timeout_s: float | None,
        on_change: OnChange = lambda _: None,
    ) -> None:
        self.container_id = container_id
        self.running: SegmentContainer | None = None
        self.is_stalled = False
        """Whether its first start failed, and did not end within the timeout: that is not granted again."""
        self.taken = False
        self.stays_offline = False
        """Whether it has run, and is not started again: an operator acts."""
        self._ran_when_taken = False
        self._make = make
        self._history = history
        self._stop_timeout_s = stop_timeout_s
        self._on_change = on_change
        self._term: _Term | None = None
        self._health = ContainerHealth(container_id)

    def health(self) -> ContainerHealth:
        term, found = self._term, self._health
        waits_for = _SPACE if term is not None and term.container.waits_for_space else found.waits_for
        online = self.running is not None
        return ContainerHealth(self.container_id, online, found.restarts, found.last_failure, waits_for)

    def take(self) -> None:
        """Let it serve no more, and start no more. Its :meth:`run` is to be cancelled, once."""
        self.taken = True
        self._ran_when_taken = self.running is not None
        self.running = None
        self._health.waits_for = ""

    async def run(self, online: asyncio.Future[None], slots: asyncio.Semaphore, log: asyncio.Lock) -> Ended:
        """Start it, again after each failure, and answer how that ended; ``log`` is locked until it has.

        ``online`` is done when it runs for the first time, or fails as a first start that is not repeated
        does; one of ``slots`` is held until then.

        Raises:
            Exception: it ran when it was taken, and did not stop in order.
        """
        self._health.waits_for = _LOG
        async with log:
            self._health.waits_for = _SLOT
            await slots.acquire()
            self._health.waits_for = ""
            online.add_done_callback(lambda _: slots.release())
            while (ended := await self._run_once(online)).step is NextStep.START_AGAIN:
                await asyncio.sleep(self._history.pause_s)
                self._health.restarts += 1
            return ended

    async def _run_once(self, online: asyncio.Future[None]) -> Ended:
        """Start it, wait until it fails and has ended, and decide what follows."""
        loop = asyncio.get_running_loop()
        term = self._term = _Term(self._make(self.container_id, self._on_failed))
        try:
            try:
                await term.container.start()
            except Exception as error:  # noqa: BLE001 - every error is reported, and raised or retried
                term.failures.append(error)
            since = loop.time()
            if term.failures:
                self._report_unstarted(cause_of(term.failures))
            elif not self.taken:
                self._on_running(term.container, online)
                await term.failed.wait()
            if self.taken:  # the start has hidden the cancellation, which comes once
                return Ended(Outcome.TAKEN, NextStep.RELEASE)
            ran_s = loop.time() - since
            return self._decide(term, online, await self._wait_ended(term), ran_s)
        finally:
            self.running = None
            await self._end(term)
            self._term = None

    def _report_unstarted(self, cause: BaseException) -> None:
        """Log why it did not start; that it waits for space only once, however often it tries."""
        is_full = isinstance(cause, StorageFullError)
        if not is_full or self._health.waits_for != _SPACE:
            what = f"{describe_failure(cause)}{'; it will when there is' if is_full else ''}"
            _logger.error("container %d did not start: %s", self.container_id, what)

    def _on_running(self, container: SegmentContainer, online: asyncio.Future[None]) -> None:
        self.running = container
        self._history.has_run = True
        if self._health.waits_for == _SPACE:
            _logger.warning("container %d has started: there is space again", self.container_id)
        self._health.waits_for = ""
        if online.done():
            _logger.info("container %d runs again", self.container_id)
            self._on_change(self)
        else:
            online.set_result(None)

    def _on_failed(self, container: SegmentContainer, error: BaseException) -> None:
        term = self._term
        if term is None or term.container is not container:
            return
        term.failures.append(error)
        term.failed.set()
        self._health.last_failure = describe_failure(error)
        if self.running is container:
            self.running = None
            _logger.error("container %d ended: %s", self.container_id, describe_failure(error))
            if not isinstance(error, FencedOutError):  # that is told once it has ended
                self._on_change(self)

    def _decide(self, term: _Term, online: asyncio.Future[None], outcome: Outcome, ran_s: float) -> Ended:
        cause = cause_of(term.failures)
        self._health.waits_for = _SPACE if outcome is Outcome.FULL else ""
        step = self._history.on_ended(outcome, ran_s)
        if step is not NextStep.START_AGAIN:
            if online.done():
                what = describe_failure(cause)
                if step is NextStep.STAY_OFFLINE:
                    _logger.critical("container %d stays offline: %s", self.container_id, what)
                    self.stays_offline = True
                    self._on_change(self)
                else:  # whoever has given it knows what a new owner means
                    _logger.warning("container %d has another owner: %s", self.container_id, what)
            else:
                online.set_exception(cause)
        return Ended(outcome, step, str(cause))

    async def _wait_ended(self, term: _Term) -> Outcome:
        """Wait for the stop of a failed container; return how it ended.

        After the timeout that is logged; the next start waits on, but a first start fails.
        """
        ending = term.begin_end()
        await asyncio.wait([ending], timeout=self._stop_timeout_s)
        if not ending.done():
            failure = describe_failure(cause_of(term.failures))
            _logger.error("container %d does not end (%s): its log is stalled", self.container_id, failure)
            self._health.last_failure = f"{failure}; its log is stalled"
            if not self._history.has_run:
                self.is_stalled = True
                return Outcome.STALLED
            self._health.last_failure += ", the next start waits for it"
            await asyncio.wait([ending])
        cause = cause_of(term.failures)  # its stop may have met what forbids another start
        self._health.last_failure = describe_failure(cause)
        return outcome_of(cause)

    async def _end(self, term: _Term) -> None:
        """Stop a container to its end, cancelled or not: its log, tasks and threads are in use before."""
        ending = term.begin_end()
        await uninterrupted(asyncio.wait([ending]))
        if ending.cancelled() or (error := ending.exception()) is None:
            return
        if self._ran_when_taken:
            raise error
        _logger.error("container %d did not end in order", self.container_id, exc_info=error)
