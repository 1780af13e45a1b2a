"""What those who watch a controller see of its cluster: how many containers are served, and who leads."""

from __future__ import annotations

from typing import Final

from headrace.cluster.placement_service import PlacementService
from headrace.web.metrics.metric import Metric, gauges
from headrace.web.process_parts import UP, Contributor

_SHOWN_MAX: Final = 20

CLUSTER_METRICS: Final[tuple[Metric, ...]] = (
    *gauges(
        "cluster",
        "headrace_cluster",
        ("leads", "leads", "Whether this controller gives containers to stores: 1 or 0."),
        ("stores", "stores", "Live segment stores, as this controller knows them."),
        ("containers", "containers", "Containers of the cluster."),
        ("served", "containers_served", "Containers that a live store serves."),
    ),
)
"""What a controller of a cluster adds."""


class ClusterPart:
    """A part of the process that has no work of its own to fail at.

    The controller stays ready while some containers have no store: it answers for all others, and a proxy
    that looks at readiness would else take away every controller at once.
    """

    metrics = CLUSTER_METRICS

    def __init__(self, service: PlacementService, containers: int) -> None:
        self._service = service
        self._containers = containers
        self.waits_for = ""
        """What keeps the controller from its start; empty once it runs."""

    def status(self) -> str:
        return UP

    def statistics(self) -> dict[str, object]:
        return {
            "cluster": {
                "leads": self._service.is_leader,
                "stores": len(self._service.placement.stores),
                "containers": self._containers,
                "served": self._containers - len(self.unserved()),
            }
        }

    def contributors(self) -> list[Contributor]:
        unserved = self.unserved()
        details = {
            "leads": "yes" if self._service.is_leader else "no",
            "stores": str(len(self._service.placement.stores)),
            "served": f"{self._containers - len(unserved)} of {self._containers}",
        }
        if unserved:
            more = " and more" if len(unserved) > _SHOWN_MAX else ""
            details["unserved"] = ", ".join(map(str, unserved[:_SHOWN_MAX])) + more
        if self.waits_for:
            details["waitsFor"] = self.waits_for
        return [Contributor("cluster", UP, details, hindered=self.waits_for)]

    def unserved(self) -> list[int]:
        """Return the containers that no live store says it serves, as far as is known."""
        placement = self._service.placement
        live = {number for number, claim in placement.claims.items() if claim.store in placement.stores}
        return [number for number in range(self._containers) if number not in live]
