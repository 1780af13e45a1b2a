"""Starts the containers of this process, and starts a failed one again: recovery is the only repair.

A container that fails does not affect the others. It is recovered from its log after a back-off; meanwhile
requests for its segments fail with ContainerOfflineError. The back-off is short after a long ownership term,
and grows while the container does not start or fails soon after: each start reads its log and writes a file.
Damaged data is not retried: a container that met corruption stays offline until an operator acts, because a
restart could destroy evidence. So does one that another process has taken over; if all were, the process has
nothing left to do, and is notified. A first start is retried in the same way on a full disk, and while the
cache is full of unstored bytes; any other failure of it ends the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import (
    ClosedError,
    ContainerOfflineError,
    CorruptionError,
    FencedOutError,
    StorageFullError,
)
from headrace.model.hashing import container_of
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.container.ownership_term import describe_failure

_logger = logging.getLogger(__name__)

STARTS_MAX: Final = 4
"""Containers that start at the same time. A start mostly waits for the disk, for some thirty writes; unstored
bytes of its log take memory, which containers that run free by storing meanwhile."""

_SPACE: Final = "space on the disk of the log"
_SLOT: Final = "other containers, which start first"

OnFailed = Callable[[SegmentContainer, BaseException], None]
MakeContainer = Callable[[int, OnFailed], SegmentContainer]

_FINAL = (CorruptionError, FencedOutError)
"""Errors after which a container is not started again: evidence could be lost, or the owner disturbed."""


@dataclass(slots=True)
class ContainerHealth:
    """State of one container, for operators."""

    container_id: int
    online: bool
    restarts: int
    last_failure: str
    waits_for: str
    """What its appends, or its start, wait for now; empty if for nothing."""


@dataclass(slots=True, eq=False)
class _Hosted:
    """One container from its creation to its end, and why it failed."""

    container: SegmentContainer
    failures: list[BaseException] = field(default_factory=list)
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it fails."""
    ending: asyncio.Task[None] | None = None
    """Its stop, which is begun once."""

    @property
    def cause(self) -> BaseException:
        """The first failure, which causes the others; or one that forbids another start."""
        return next((error for error in self.failures if isinstance(error, _FINAL)), self.failures[0])


class ContainerRegistry:
    """All containers of one process.

    ``restart_delay_s``: back-off before a restart of a container that ran for ``restart_delay_max_s`` or
    longer; it doubles, up to the latter, with each start that fails or does not last so long.
    ``stop_timeout_s``: how long a stop waits for one more container to end; None: for ever.
    ``on_taken_over``: called once every container that has run was taken over by another process.
    """

    def __init__(
        self,
        container_count: int,
        make_container: MakeContainer,
        *,
        restart_delay_s: float = 0.2,
        restart_delay_max_s: float = 30.0,
        stop_timeout_s: float | None = None,
        on_taken_over: Callable[[FencedOutError], None] = lambda _: None,
    ) -> None:
        self.container_count = container_count
        self._make = make_container
        self._delay_s = restart_delay_s
        self._delay_max_s = restart_delay_max_s
        self._stop_timeout_s = stop_timeout_s
        self._running: dict[int, SegmentContainer] = {}
        self._live: dict[SegmentContainer, _Hosted] = {}
        """Containers that start, run, or fail."""
        self._ending: dict[SegmentContainer, asyncio.Task[None]] = {}
        """Containers that stop, until they have ended, also after callers have stopped waiting."""
        self._stalled: set[asyncio.Task[None]] = set()
        """Those of them that did not end within the timeout: it is not granted again."""
        self._restarts = dict.fromkeys(range(container_count), 0)
        self._failures = dict.fromkeys(range(container_count), "")
        self._waits: dict[int, str] = {}
        """What the next start of a container waits for, if that is known."""
        self._supervisor = Supervisor("containers")
        self._on_taken_over = on_taken_over
        self._taken_over: set[int] = set()
        self._stopping = False
        self.is_stalled = False
        """After a stop: a container has not ended. Its log, and a thread that writes to it, are in use."""

    async def start(self) -> None:
        """Start every container, a few at the same time. Waits without a bound for space for the logs, and
        for free bytes of the cache for what they replay.

        Any other failure stops those started and is raised.
        """
        slots = asyncio.Semaphore(STARTS_MAX)
        loop = asyncio.get_running_loop()
        online: list[asyncio.Future[None]] = [loop.create_future() for _ in range(self.container_count)]
        try:
            for container_id, first in enumerate(online):
                first.add_done_callback(lambda done: done.exception())  # only one of them is raised
                self._supervisor.spawn(f"container {container_id}", self._host(container_id, first, slots))
            await asyncio.wait(online, return_when=asyncio.FIRST_EXCEPTION)
            for first in online:
                if first.done():
                    first.result()
        except BaseException:
            try:
                await self.stop()
            except Exception:  # the error of the start is raised
                _logger.exception("containers did not end in order after a failed start")
            raise

    async def _host(self, container_id: int, online: asyncio.Future[None], slots: asyncio.Semaphore) -> None:
        """Start a container, again after each failure.

        ``online`` is done when it runs for the first time, or fails as a first start that is not repeated
        does; one of ``slots`` is held until then.
        """
        pause_s = self._delay_s
        try:
            self._waits[container_id] = _SLOT
            await slots.acquire()
            del self._waits[container_id]
            online.add_done_callback(lambda _: slots.release())
            while (ran_s := await self._run_once(container_id, online)) is not None:
                if self._stopping:  # its failure may have hidden the cancellation, which comes once
                    return
                if ran_s >= self._delay_max_s:
                    pause_s = self._delay_s
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, self._delay_max_s)
                self._restarts[container_id] += 1
        except Exception as error:
            if online.done():
                raise
            online.set_exception(error)
        finally:
            if not online.done():
                online.set_exception(
                    ClosedError("the containers are being stopped; none is started any more")
                )

    async def _run_once(self, container_id: int, online: asyncio.Future[None]) -> float | None:
        """Start a container, wait until it fails and has ended.

        Returns:
            How many seconds it ran; None if it is not to be started again. Not the error: its traceback would
            retain the former container in memory until the next one runs.
        """
        loop = asyncio.get_running_loop()
        container = self._make(container_id, self._on_failed)
        hosted = self._live[container] = _Hosted(container)
        try:
            try:
                await container.start()
            except Exception as error:  # noqa: BLE001 - every error is reported, and raised or retried
                hosted.failures.append(error)
            since = loop.time()
            if self._stopping:
                hosted.failures.append(ClosedError("the containers are being stopped"))
            if hosted.failures:
                self._report_unstarted(container_id, hosted.cause)
            else:
                self._running[container_id] = container
                if self._waits.pop(container_id, None) == _SPACE:
                    _logger.warning("container %d has started: there is space again", container_id)
                if online.done():
                    _logger.info("container %d runs again", container_id)
                else:
                    online.set_result(None)
                await hosted.failed.wait()
            ran_s = loop.time() - since
            has_ended = await self._wait_ended(hosted, without_timeout=online.done())
        finally:
            self._begin_end(hosted)
            self._running.pop(container_id, None)
            del self._live[container]
        cause = hosted.cause
        if isinstance(cause, StorageFullError):
            self._waits[container_id] = _SPACE
        else:
            self._waits.pop(container_id, None)
        if not online.done():
            if has_ended and isinstance(cause, StorageFullError):
                return ran_s
            online.set_exception(cause)
            return None
        if isinstance(cause, _FINAL):
            _logger.critical("container %d stays offline: %s", container_id, describe_failure(cause))
            if isinstance(cause, FencedOutError):
                self._note_taken_over(container_id, cause)
            return None
        return ran_s

    def _note_taken_over(self, container_id: int, cause: FencedOutError) -> None:
        self._taken_over.add(container_id)
        if len(self._taken_over) == self.container_count:
            what = "the only container was" if self.container_count == 1 else "all containers were"
            self._on_taken_over(FencedOutError(f"{what} taken over by another owner: {cause}"))

    def _report_unstarted(self, container_id: int, cause: BaseException) -> None:
        """Log why a container did not start; that it waits for space only once, however often it tries."""
        if not isinstance(cause, StorageFullError):
            _logger.error("container %d did not start: %s", container_id, describe_failure(cause))
        elif self._waits.get(container_id) != _SPACE:
            _logger.error(
                "container %d did not start: %s; it will when there is", container_id, describe_failure(cause)
            )

    def _begin_end(self, hosted: _Hosted) -> asyncio.Task[None]:
        """Stop a container, unless that was begun before."""
        if hosted.ending is None:
            container = hosted.container
            hosted.ending = self._ending[container] = asyncio.ensure_future(container.stop())
            hosted.ending.add_done_callback(lambda _: self._ending.pop(container))
        return hosted.ending

    async def _wait_ended(self, hosted: _Hosted, *, without_timeout: bool) -> bool:
        """Wait for the stop of a failed container; return whether it has ended. Logs its errors.

        Waits for ``stop_timeout_s``; then, if ``without_timeout``, logs that and waits on.
        """
        ending, container = self._begin_end(hosted), hosted.container
        container_id = container.container_id
        await asyncio.wait([ending], timeout=self._stop_timeout_s)
        failure = describe_failure(hosted.cause)
        if not ending.done():
            _logger.error("container %d does not end (%s): its log is stalled", container_id, failure)
            self._failures[container_id] = f"{failure}; its log is stalled"
            if not without_timeout:
                self._stalled.add(ending)
                return False
            self._failures[container_id] += ", the next start waits for it"
            await asyncio.wait([ending])
        self._failures[container_id] = describe_failure(hosted.cause)
        if not ending.cancelled() and (error := ending.exception()) is not None:
            _logger.error("container %d did not end in order", container_id, exc_info=error)
        return True

    def _on_failed(self, container: SegmentContainer, error: BaseException) -> None:
        hosted = self._live.get(container)
        if hosted is None:
            return  # it is being stopped
        hosted.failures.append(error)
        hosted.failed.set()
        container_id = container.container_id
        self._failures[container_id] = describe_failure(error)
        if self._running.get(container_id) is container:
            del self._running[container_id]
            _logger.error("container %d ended: %s", container_id, describe_failure(error))

    def get(self, segment: str) -> SegmentContainer:
        """Return the running container that owns ``segment``.

        Raises:
            ContainerOfflineError: it is starting, stopped or failed.
        """
        container_id = container_of(segment, self.container_count)
        container = self._running.get(container_id)
        if container is None:
            raise ContainerOfflineError(f"container {container_id} is not running here now")
        return container

    def running(self) -> list[SegmentContainer]:
        return list(self._running.values())

    def health(self) -> list[ContainerHealth]:
        live = {found.container_id: found for found in self._live}
        return [
            ContainerHealth(
                container_id,
                container_id in self._running,
                self._restarts[container_id],
                self._failures[container_id],
                _SPACE
                if container_id in live and live[container_id].waits_for_space
                else self._waits.get(container_id, ""),
            )
            for container_id in range(self.container_count)
        ]

    async def stop(self) -> None:
        """Stop every container in order. Idempotent; every caller waits until all are stopped.

        A container whose log is stalled goes on ending by itself: then ``is_stalled`` is True.

        Raises:
            Exception: of the first container that did not stop in order; all others are stopped.
        """
        self._stopping = True
        endings = [self._begin_end(self._live[container]) for container in self._running.values()]
        self._running.clear()
        await self._supervisor.stop()
        self.is_stalled = not await self._wait_all_ended()
        for ending in endings:
            if ending.done():
                ending.result()

    async def _wait_all_ended(self) -> bool:
        """Wait for containers that stop; return False if none ended within the timeout."""
        while self._ending:
            endings = list(self._ending.values())
            ended, left = await asyncio.wait(
                endings,
                timeout=0 if self._stalled.issuperset(endings) else self._stop_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not ended:
                names = ", ".join(
                    str(found.container_id) for found, task in self._ending.items() if task in left
                )
                _logger.error("the log of container %s is stalled: it is abandoned as it is", names)
                return False
        return True
