"""The containers of a segment store as its cluster gives and takes them, and the gate in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.cluster.container_host import ContainerEvents
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import mark_opened, read_facts
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.coordination.contract import Coordinator, Session
from headrace.errors import ContainerOfflineError, DataCorruptionError, FencedOutError
from headrace.model.endpoint import Endpoint
from headrace.runtime.blocking import Threads
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.hosting.assignment import ContainerAssignment
from headrace.segmentstore.hosting.gate import Gate
from headrace.segmentstore.hosting.hosted_container import HostedContainer
from headrace.segmentstore.hosting.registry import ContainerRegistry
from headrace.wal.logs import FoundLog, FoundLogs

T = TypeVar("T")


async def in_session(coordinator: Coordinator, ask: Callable[[Session], Awaitable[T]]) -> T:
    """Return what ``ask`` does, in a session for that alone."""
    session = await coordinator.open()
    try:
        return await ask(session)
    finally:
        await session.close()


class OpenedLogs:
    """Which logs were ever opened, as the facts of the cluster say: one that is missing was lost.

    ``session``: returns the session of the store. ``threads``: look at logs, lest a disk stalls the loop.
    """

    def __init__(
        self, session: Callable[[], Session], facts: Facts, logs: FoundLogs, threads: Threads
    ) -> None:
        self._session = session
        self._opened = facts.opened
        self._logs = logs
        self._threads = threads
        self._marking = asyncio.Lock()

    async def check(self, container_id: int) -> None:
        """Refuse to make a log in place of one that was lost.

        Raises:
            DataCorruptionError: it was opened once.
        """
        log = self._logs.log(container_id)
        if await self._is_begun(log):
            return
        if container_id not in self._opened:
            self._opened = (await read_facts(self._session())).opened
        if container_id in self._opened and not await self._is_begun(log):
            raise DataCorruptionError(
                "the log of this container is missing, and the cluster has opened it before: put it back, or "
                "mount its file system",
                path=log.place,
            )

    async def mark(self, container_id: int) -> None:
        """Remember that a log was opened. Nothing in it is acknowledged before."""
        async with self._marking:  # else they would conflict with each other
            if container_id not in self._opened:
                self._opened = (await mark_opened(self._session(), container_id)).opened

    async def _is_begun(self, log: FoundLog) -> bool:
        work = self._threads.pool(1, "log-look")
        try:
            return await work.run(log.is_begun)
        finally:
            work.close()


class GivenContainers:
    """A ``ContainerHost`` but for what gives; it tells the member of the store what happens to containers.

    ``gate`` stands in front of all that they answer. ``hosts`` and ``events`` are set before the first one is
    given.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.hosts: tuple[ContainerAssignment, ContainerRegistry] | None = None
        self.events: ContainerEvents | None = None

    async def start(self, here: Endpoint) -> None:
        """Return once containers were given that belong to the start; clients find this store ``here``.

        Raises what the first of them raises that does not start.
        """

    def close(self) -> None:
        """Containers may be ended by whoever runs them: none of those is given or taken any more."""

    async def stop(self) -> None:
        """End what :meth:`start` began, after :meth:`close` and the end of all containers. Idempotent."""

    async def take(self, container_id: int) -> None:
        await self._hosts()[0].take(container_id)

    async def confirm(self, container_id: int) -> None:
        await self._running(container_id).check_owner()

    def on_fenced(self, container_id: int, _: FencedOutError) -> None:
        """One that has run was taken over, and has ended."""
        if self.events is not None:
            self.events.on_fenced(container_id)

    def on_change(self, hosted: HostedContainer) -> None:
        """One that has run has failed, runs again, or never will.

        The last is told like a fencing: it has ended here, and its claim is of no use to anybody.
        """
        if self.events is None:
            return
        if hosted.stays_offline:
            self.events.on_fenced(hosted.container_id)
        elif hosted.running is None:
            self.events.on_failed(hosted.container_id)
        else:
            self.events.on_online(hosted.container_id, hosted.running.state.epoch)

    def _running(self, container_id: int) -> SegmentContainer:
        container = self._hosts()[1].running_one(container_id)
        if container is None:
            raise ContainerOfflineError(f"container {container_id} is not running here now")
        return container

    def _hosts(self) -> tuple[ContainerAssignment, ContainerRegistry]:
        assert self.hosts is not None
        return self.hosts


class ClusterContainers(GivenContainers):
    """Those of a store among others."""

    def __init__(self, opened: OpenedLogs, gate: Gate) -> None:
        super().__init__(gate)
        self._opened = opened
        self._stay_offline: set[int] = set()

    async def give(self, container_id: int) -> int:
        if container_id in self._stay_offline:  # it is given again, so it starts again: its log may be mended
            await self._hosts()[0].take(container_id)
            self._stay_offline.discard(container_id)
        await self._opened.check(container_id)
        await self._hosts()[0].give(container_id)
        await self._opened.mark(container_id)
        return self._running(container_id).state.epoch

    def on_change(self, hosted: HostedContainer) -> None:
        if hosted.stays_offline:
            self._stay_offline.add(hosted.container_id)
        super().on_change(hosted)


class ClusterGate:
    """The gate of a store in a cluster: what it has claimed, while its lease is valid."""

    def __init__(self, lease_gate: LeaseGate) -> None:
        self.serves = lease_gate.serves
        self.placement: WatchedPlacement | None = None
        """Set once there is a member."""
        self.here: Endpoint | None = None

    def owner_of(self, container_id: int) -> str:
        owner = None if self.placement is None else self.placement.locate(container_id)
        return "" if owner is None or owner == self.here else str(owner)
