"""Starts the containers of this process, and starts a failed one again: recovery is the only repair.

When a container ends by itself its neighbours never notice. It is opened anew from its log after a pause;
meanwhile its segments answer ContainerOfflineError. The pause is short for one that ran well, and grows while
it does not start or ends soon after: each start reads its log and writes a file. Damaged data is not retried:
a container that met corruption stays offline until a person has looked, because a restart could bury the
evidence. A first start is repeated in the same way on a full disk, and while the cache is full of what others
have not stored yet; any other failure of it ends the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from headrace.segmentstore.container.tenure import describe_failure

_logger = logging.getLogger(__name__)

STARTS_MAX: Final = 4
"""So many containers are started side by side. A start mostly waits for the disk, some thirty writes in turn;
what is read of a log and not stored yet takes memory, which those that run already hand on meanwhile."""

OnFailed = Callable[[SegmentContainer, BaseException], None]
MakeContainer = Callable[[int, OnFailed], SegmentContainer]

_FINAL = (CorruptionError, FencedOutError)
"""Why a container is not started again: that could bury the evidence, or fight the rightful owner."""


@dataclass(slots=True)
class ContainerHealth:
    """State of one container as a person wants to see it."""

    container_id: int
    online: bool
    restarts: int
    last_failure: str
    waits_for_space: bool
    """Its log found the disk full and tries again; appends wait meanwhile, and so does a start."""


class ContainerRegistry:
    """All containers of one process.

    ``restart_delay_s``: pause before a restart of a container that ran for ``restart_delay_max_s`` or longer;
    it doubles, up to the latter, with each start that fails or does not last so long.
    ``stop_patience_s``: how long a stop waits for one more container to end; None: for ever.
    """

    def __init__(
        self,
        container_count: int,
        make_container: MakeContainer,
        *,
        restart_delay_s: float = 0.2,
        restart_delay_max_s: float = 30.0,
        stop_patience_s: float | None = None,
    ) -> None:
        self.container_count = container_count
        self._make = make_container
        self._delay_s = restart_delay_s
        self._delay_max_s = restart_delay_max_s
        self._patience_s = stop_patience_s
        self._running: dict[int, SegmentContainer] = {}
        self._starting: dict[SegmentContainer, BaseException | None] = {}
        """Containers on their way, with what has ended them already, if anything has."""
        self._ending: dict[SegmentContainer, asyncio.Task[None]] = {}
        """Containers that stop: each once and to its end, whoever stops waiting for it."""
        self._given_up: set[SegmentContainer] = set()
        """Those of them that a failed start has waited for in vain: a stop behind it does not do so again."""
        self._pauses = dict.fromkeys(range(container_count), restart_delay_s)
        """The next pause before a restart, of each."""
        self._online_since = dict.fromkeys(range(container_count), 0.0)
        self._restarts = dict.fromkeys(range(container_count), 0)
        self._failures = dict.fromkeys(range(container_count), "")
        self._supervisor = Supervisor("containers")
        self._stopping = False
        self.hangs = False
        """After a stop: a container has not ended. Its log, and a thread that writes to it, are in use."""

    async def start(self) -> None:
        """Start every container, a few side by side, however long it takes until there is space for its log,
        and room in the cache for what the log holds and storage does not.

        Any other failure stops those started and is raised.
        """
        waiting = iter(range(self.container_count))
        starts = Supervisor(
            "starts of containers", lambda _name, _error: None
        )  # whatever it is, it is raised
        try:
            workers = [
                starts.spawn(f"{number}", self._start_each(waiting))
                for number in range(min(STARTS_MAX, self.container_count))
            ]
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in workers:
                if worker.done():
                    worker.result()
        except BaseException:
            self._stopping = True  # what a start fails of may cover that it was cancelled, which happens once
            try:
                await starts.stop()
            finally:
                await self._stop_others()
            raise

    async def _stop_others(self) -> None:
        """Stop those that run behind a failed start. What that meets must not cover why the start failed."""
        try:
            await self.stop()
        except Exception:
            _logger.exception("containers did not end in order after a failed start")
        self._given_up.update(self._ending)

    async def _start_each(self, waiting: Iterator[int]) -> None:
        for container_id in waiting:
            await self._start_patiently(container_id)

    async def _start_patiently(self, container_id: int) -> None:
        delay_s = self._delay_s
        while True:
            try:
                await self._start_one(container_id, patient=False)
            except StorageFullError as error:
                self._note_failed_start(container_id, error)
                if any(found.container_id == container_id for found in self._ending):
                    raise  # a disk that does not even let go of its log
                self._check_not_stopping()  # before a pause that the cancellation would no longer end
            else:
                return
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, self._delay_max_s)
            self._restarts[container_id] += 1

    def _note_failed_start(self, container_id: int, error: BaseException) -> None:
        self._failures[container_id] = describe_failure(error)
        _logger.error("container %d did not start: %s", container_id, describe_failure(error))

    async def _start_one(self, container_id: int, *, patient: bool) -> None:
        """Start one container. ``patient``: if that fails, do not return before all of it has ended."""
        self._check_not_stopping()
        container = self._make(container_id, self._on_failed)
        self._starting[container] = None
        try:
            await container.start()
            if (early := self._starting[container]) is not None:
                raise early
            self._check_not_stopping()
        except Exception as error:
            early = self._starting[container]
            failure = describe_failure(error if early is None else early)
            await self._wait_ended(container, self._begin_end(container), failure, patient=patient)
            cause = _find_cause(early, error, self._starting[container])
            if cause is not error:
                raise cause from error
            raise
        except BaseException:  # it is given up, by somebody whose patience has an end
            failure = "its start was abandoned"
            await self._wait_ended(container, self._begin_end(container), failure, patient=False)
            raise
        finally:
            del self._starting[container]
        self._running[container_id] = container
        self._online_since[container_id] = asyncio.get_running_loop().time()

    def _check_not_stopping(self) -> None:
        if self._stopping:
            raise ClosedError("the containers are being stopped; none is started any more")

    def _begin_end(self, container: SegmentContainer) -> asyncio.Task[None]:
        """Stop a container, unless that is under way."""
        ending = self._ending.get(container)
        if ending is None:
            ending = self._ending[container] = asyncio.ensure_future(container.stop())
            ending.add_done_callback(lambda _: self._on_ended(container))
        return ending

    def _on_ended(self, container: SegmentContainer) -> None:
        del self._ending[container]
        self._given_up.discard(container)

    async def _wait_ended(
        self, container: SegmentContainer, ending: asyncio.Task[None], failure: str, *, patient: bool
    ) -> None:
        """Wait for the stop of one that ends for ``failure``. What the stop meets says less than that.

        Who is not ``patient`` waits no longer than a stop does; who is tells that it waits.
        """
        await asyncio.wait([ending], timeout=self._patience_s)
        if not ending.done():
            container_id = container.container_id
            _logger.error("container %d does not end (%s): its log is stalled", container_id, failure)
            self._failures[container_id] = f"{failure}; its log is stalled"
            if patient:
                self._failures[container_id] += ", the next start waits for it"
                await asyncio.wait([ending])
                self._failures[container_id] = failure
            else:
                self._given_up.add(container)
        if ending.done() and not ending.cancelled() and (error := ending.exception()) is not None:
            _logger.error("container %d did not end in order", container.container_id, exc_info=error)

    def _on_failed(self, container: SegmentContainer, error: BaseException) -> None:
        container_id = container.container_id
        if container in self._starting:
            self._starting[container] = error  # whoever starts it is told, and tries again or does not
            return
        if self._stopping and self._running.get(container_id) is container:
            self._failures[container_id] = describe_failure(error)
            return  # it is still to be ended, with all others
        if self._running.get(container_id) is container:
            del self._running[container_id]
            if asyncio.get_running_loop().time() - self._online_since[container_id] >= self._delay_max_s:
                self._pauses[container_id] = self._delay_s  # it ran well
        self._failures[container_id] = describe_failure(error)
        if self._stopping:
            return
        _logger.error("container %d ended: %s", container_id, describe_failure(error))
        ending = self._begin_end(container)  # not in the task: a stop may cancel it before its first step
        self._supervisor.spawn(f"restart container {container_id}", self._restart(container, ending, error))

    async def _restart(
        self, failed: SegmentContainer, ending: asyncio.Task[None], error: BaseException
    ) -> None:
        container_id = failed.container_id
        await self._wait_ended(failed, ending, describe_failure(error), patient=True)
        is_final, failure = isinstance(error, _FINAL), describe_failure(error)
        # It may never start again: what has ended must not stay in memory for that, and an error has the
        # stack that it came through.
        del failed, ending, error
        while not is_final:
            pause_s = self._pauses[container_id]
            self._pauses[container_id] = min(pause_s * 2, self._delay_max_s)
            await asyncio.sleep(pause_s)
            self._restarts[container_id] += 1
            try:
                await self._start_one(container_id, patient=True)
            except Exception as again:  # noqa: BLE001 - whatever it was, it is reported and retried
                is_final, failure = isinstance(again, _FINAL), describe_failure(again)
                self._note_failed_start(container_id, again)
                if self._stopping:  # its failure may have covered that this was cancelled, which happens once
                    return
            else:
                _logger.info("container %d runs again", container_id)
                return
        _logger.critical("container %d stays offline: %s", container_id, failure)

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
        live = {found.container_id: found for found in (*self._starting, *self._running.values())}
        return [
            ContainerHealth(
                container_id,
                container_id in self._running,
                self._restarts[container_id],
                self._failures[container_id],
                container_id in live and live[container_id].waits_for_space,
            )
            for container_id in range(self.container_count)
        ]

    async def stop(self) -> None:
        """Stop every container orderly. Idempotent; whoever asks too waits until all are stopped.

        One whose disk does not answer goes on ending by itself: ``hangs`` says so.

        Raises:
            Exception: what the first that could not was stopped by; all others are stopped.
        """
        self._stopping = True
        await self._supervisor.stop()
        endings = [self._begin_end(container) for container in self._running.values()]
        self._running.clear()
        self.hangs = not await self._wait_all_ended()
        for ending in endings:
            if ending.done():
                ending.result()

    async def _wait_all_ended(self) -> bool:
        """Wait for those that stop; False if one more has not ended in time."""
        while self._ending:
            in_vain = self._ending.keys() <= self._given_up
            ended, left = await asyncio.wait(
                list(self._ending.values()),
                timeout=0 if in_vain else self._patience_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not ended:
                names = ", ".join(
                    str(found.container_id) for found, task in self._ending.items() if task in left
                )
                _logger.error("the log of container %s is stalled: it is abandoned as it is", names)
                return False
        return True


def _find_cause(early: BaseException | None, error: Exception, late: BaseException | None) -> BaseException:
    """Return why a start failed that raised ``error``.

    ``early`` is what had ended the container by then: the error follows from it. ``late`` is known once it
    has stopped. What the stop met follows from the error, but is believed if it forbids to start again.
    """
    if early is not None:
        return early
    return late if isinstance(late, _FINAL) and not isinstance(error, _FINAL) else error
