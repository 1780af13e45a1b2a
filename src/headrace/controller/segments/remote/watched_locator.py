"""Where segments are in a cluster: what the watched copy of claims and map says of their containers."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.segment_address import SegmentAddress
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.errors import ContainerOfflineError
from headrace.model.endpoint import Endpoint
from headrace.model.hashing import container_of


class WatchedLocator:
    """Where ``containers`` containers are. Used on one event loop."""

    def __init__(self, placement: WatchedPlacement, containers: int) -> None:
        self._placement = placement
        self._containers = containers

    def locate(self, segment: str) -> Endpoint:
        """Return where clients find the container of ``segment``, whether or not the segment exists.

        Raises:
            ContainerOfflineError: nowhere, as far as is known.
        """
        container_id = container_of(segment, self._containers)
        found = self._placement.locate(container_id)
        if found is None:
            raise ContainerOfflineError(f"container {container_id} has no segment store now: try again")
        return found

    def moved(self, segment: str, owner: Endpoint | None) -> None:
        """The copy is as new as the coordinator's watches make it; a store knows no more than that."""

    async def is_gone(self, endpoint: Endpoint, addresses: Sequence[SegmentAddress]) -> bool:  # noqa: ARG002
        """Say whether no store of the cluster is there any more, whatever was asked of it."""
        return endpoint not in self.stores()

    def stores(self) -> Sequence[Endpoint]:
        """Return all stores that are there: together they have every container that is served."""
        return sorted({node.endpoint for node in self._placement.stores.values()})
