"""The cluster of a process that is alone: a coordinator in memory, the placement, and one store that has all.

Containers come to it as they come to any store: by a map, a claim and the gate. Nobody else is there who
could have what it does not serve, and that is all that differs: a first start that fails fails that of the
process; a container that another process has taken over, or that is damaged, is given to nobody any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.placement_service import PlacementService
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import StoreNode
from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import ClosedError, FencedOutError
from headrace.model.endpoint import Endpoint
from headrace.processes.cluster_containers import ClusterGate, GivenContainers
from headrace.processes.taken_over import OnTakenOver
from headrace.runtime.context import Runtime
from headrace.segmentstore.hosting.hosted_container import HostedContainer

_logger = logging.getLogger(__name__)


class OwnCluster(GivenContainers):
    """Made once for a process, started once, closed and stopped once. Used on one event loop.

    ``on_taken_over``: called once other processes have all containers: nothing is left to serve.
    """

    def __init__(
        self, containers: int, runtime: Runtime, on_taken_over: OnTakenOver = lambda _: None
    ) -> None:
        self._lease_gate = _NotedGate(self._settle)
        super().__init__(ClusterGate(self._lease_gate))
        self.coordinator = MemoryCoordinator()
        """What every part of the process agrees through. Its lease ends with the process."""
        self._service = PlacementService(
            self.coordinator, containers, runtime.clock, runtime.entropy, gather_s=0.0
        )
        self.placement = self._service.placement
        self._containers = containers
        self._entropy = runtime.entropy
        self._on_taken_over = on_taken_over
        self._member: StoreMember | None = None
        self._unsettled = set(range(containers))
        self._settled = asyncio.Event()
        """Each container has been served, or has ended for good, or one did not start."""
        self._failure: Exception | None = None
        """Of the first that did not start."""
        self._over: set[int] = set()
        self._taken_over: set[int] = set()
        self._is_closed = False

    async def start(self, here: Endpoint) -> None:
        """Raises what the first container raises that does not start."""
        self.events = self._member = StoreMember(
            self.coordinator, self, StoreNode(here), self._containers, self._lease_gate, self._entropy
        )
        self._member.start()
        self._service.start()
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._is_closed = True

    async def stop(self) -> None:
        if self._member is not None:
            await self._member.stop(0.0)
        await self._service.stop()

    # ---------------------------------------------------------------------------------- as a host

    async def give(self, container_id: int) -> int:
        if container_id not in self._over and not self._is_closed:
            try:
                await self._hosts()[0].give(container_id)
            except Exception as error:  # noqa: BLE001 - the start raises it
                self._failure = self._failure or error
                self._settled.set()
            else:
                return self._running(container_id).state.epoch
        await asyncio.Event().wait()  # until it is taken: nobody else could have it
        raise ClosedError(f"container {container_id} was taken away before it ran")

    async def take(self, container_id: int) -> None:
        if not self._is_closed:
            await super().take(container_id)

    def on_fenced(self, container_id: int, error: FencedOutError) -> None:
        _logger.critical("container %d stays offline: %s", container_id, error)
        self._end(container_id)
        super().on_fenced(container_id, error)
        self._taken_over.add(container_id)
        if len(self._taken_over) == self._containers:
            what = "the only container was" if self._containers == 1 else "all containers were"
            self._on_taken_over(FencedOutError(f"{what} taken over by another owner: {error}"))

    def on_change(self, hosted: HostedContainer) -> None:
        if hosted.stays_offline:
            self._end(hosted.container_id)
        super().on_change(hosted)

    def _end(self, container_id: int) -> None:
        self._over.add(container_id)
        self._settle(container_id)

    def _settle(self, container_id: int) -> None:
        self._unsettled.discard(container_id)
        if not self._unsettled:
            self._settled.set()


class _NotedGate(LeaseGate):
    """Tells which containers are admitted."""

    def __init__(self, on_admitted: Callable[[int], None]) -> None:
        super().__init__()
        self._on_admitted = on_admitted

    def admit(self, container_id: int) -> None:
        super().admit(container_id)
        self._on_admitted(container_id)
