"""The directory of this process: which container runs here for a segment, and how each of them is."""

from __future__ import annotations

from headrace.errors import ContainerOfflineError, WrongHostError
from headrace.model.hashing import container_of
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.hosting.gate import OPEN, Gate
from headrace.segmentstore.hosting.hosted_container import ContainerHealth, HostedContainer


class ContainerRegistry:
    """All containers of the system, of which some run here."""

    def __init__(self, container_count: int, gate: Gate = OPEN) -> None:
        self.container_count = container_count
        self._gate = gate
        self._hosted: dict[int, HostedContainer] = {}
        """The newest life here of each, also one that has ended: it says why."""

    def enter(self, hosted: HostedContainer) -> None:
        self._hosted[hosted.container_id] = hosted

    def get(self, segment: str) -> SegmentContainer:
        """Return the running container that owns ``segment``.

        Raises:
            WrongHostError: this process may not answer for it now.
            ContainerOfflineError: it is starting, stopped or failed, or not hosted here.
        """
        container_id = container_of(segment, self.container_count)
        hosted = self._hosted.get(container_id)
        running = None if hosted is None else hosted.running
        if running is not None and self._gate.serves(container_id):
            return running
        owner = self._gate.owner_of(container_id)
        if running is None and not owner:
            raise ContainerOfflineError(f"container {container_id} is not running here now")
        raise WrongHostError(segment, owner)

    def running(self) -> list[SegmentContainer]:
        """Return what runs here, and may answer."""
        found = [hosted.running for hosted in self._hosted.values() if hosted.running is not None]
        return [container for container in found if self._gate.serves(container.container_id)]

    def running_one(self, container_id: int) -> SegmentContainer | None:
        """Return a container that runs here, whether it may answer or not."""
        hosted = self._hosted.get(container_id)
        return None if hosted is None else hosted.running

    def health(self) -> list[ContainerHealth]:
        """State of every container, hosted here or not."""
        hosted = (self._hosted.get(container_id) for container_id in range(self.container_count))
        return [ContainerHealth(n) if found is None else found.health() for n, found in enumerate(hosted)]
