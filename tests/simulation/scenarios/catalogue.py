"""Every scenario by name, with what a reduction can leave out of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from headrace.testing.faults.host_faults import HostFault
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import Reduction
from tests.simulation.scenarios import (
    cluster,
    controllers,
    data_plane,
    far_storage,
    ledgers,
    read_index,
    rival_storages,
    storage_writer,
    tables,
)
from tests.simulation.scenarios.container import upheaval
from tests.simulation.scenarios.container_profile import FAULTS
from tests.simulation.scenarios.two_owners import KINDS, rivalry
from tests.simulation.scenarios.writers import storm

_WRITERS: Final = 3


@dataclass(frozen=True, slots=True)
class Scenario:
    """One program and the size of its unreduced runs."""

    run: Callable[[Simulation, Reduction], Coroutine[Any, Any, Any]]
    lives: int
    clients: int
    steps: int
    faults: tuple[str, ...]
    network: NetworkConfig | None = None
    share: float = 1.0
    """Of the seeds asked for, when all scenarios run: less for those that find less in their time, more for
    those that are quick.
    """

    def seeds(self, count: int) -> int:
        """Return how many of ``count`` seeds are its share, at least one."""
        return max(1, round(self.share * count))


async def _container(sim: Simulation, reduction: Reduction) -> Any:
    return await upheaval(sim, reduction)


async def _attributes(sim: Simulation, reduction: Reduction) -> Any:
    return await upheaval(sim, reduction, attributes=True)


async def _chains(sim: Simulation, reduction: Reduction) -> Any:
    return await upheaval(sim, reduction, chains=True)


async def _objects(sim: Simulation, reduction: Reduction) -> Any:
    return await upheaval(sim, reduction, objects=True)


async def _data_plane(sim: Simulation, reduction: Reduction) -> Any:
    return await data_plane.tempest(sim, reduction)


async def _crowds(sim: Simulation, reduction: Reduction) -> Any:
    return await data_plane.tempest(sim, reduction, crowds=True)


async def _writers(sim: Simulation, reduction: Reduction) -> Any:
    kinds = tuple(kind for kind in HostFault if kind.name.lower() not in reduction.without)
    return await storm(
        sim, writers=min(_WRITERS, reduction.clients), appends=min(25, reduction.steps), kinds=kinds
    )


async def _two_owners(sim: Simulation, reduction: Reduction) -> Any:
    kinds = tuple(kind for kind in KINDS if kind.name.lower() not in reduction.without)
    return await rivalry(
        sim, writers=min(_WRITERS, reduction.clients), appends=min(15, reduction.steps), kinds=kinds
    )


def _names(kinds: tuple[HostFault, ...]) -> tuple[str, ...]:
    return tuple(kind.name.lower() for kind in kinds)


_STORAGE_FAULTS: Final = tuple(
    fault.name.lower() for fault in (*storage_writer.FAILURES, *storage_writer.DEATHS)
)
_LOSSY: Final = NetworkConfig(drop_chance=0.002)

SCENARIOS: Final[dict[str, Scenario]] = {
    "attributes": Scenario(_attributes, 5, 4, 32, FAULTS, share=0.5),
    "chains": Scenario(_chains, 5, 4, 32, FAULTS, share=0.5),
    "cluster": Scenario(cluster.moving, cluster.LIVES, cluster.CLIENTS, cluster.STEPS, cluster.FAULTS),
    "container": Scenario(_container, 5, 4, 32, FAULTS),
    "controllers": Scenario(
        controllers.dominion,
        controllers.LIVES,
        controllers.CLIENTS,
        controllers.STEPS,
        controllers.FAULTS,
    ),
    "crowds": Scenario(
        _crowds,
        data_plane.LIVES,
        data_plane.CLIENTS,
        data_plane.STEPS,
        data_plane.FAULTS,
        _LOSSY,
        share=0.5,
    ),
    "data_plane": Scenario(
        _data_plane, data_plane.LIVES, data_plane.CLIENTS, data_plane.STEPS, data_plane.FAULTS, _LOSSY
    ),
    "ledgers": Scenario(ledgers.upheaval, ledgers.OWNERS, 1, ledgers.STEPS, ledgers.FAULTS, share=3.0),
    "objects": Scenario(_objects, 5, 4, 32, (*FAULTS, *far_storage.TROUBLES)),
    "read_index": Scenario(
        read_index.turmoil, 1, read_index.CONTAINERS, read_index.STEPS, read_index.FAULTS, share=2.0
    ),
    "rival_storages": Scenario(
        rival_storages.rivalry, 1, 1, rival_storages.STEPS, rival_storages.FAULTS, share=3.0
    ),
    "storage_writer": Scenario(
        storage_writer.histories, storage_writer.LIVES, 1, storage_writer.STEPS, _STORAGE_FAULTS
    ),
    "tables": Scenario(tables.upheaval, 1, 1, tables.STEPS, tables.FAULTS, share=3.0),
    "two_owners": Scenario(_two_owners, 1, _WRITERS, 15, _names(KINDS), _LOSSY, share=0.2),
    "writers": Scenario(_writers, 1, _WRITERS, 25, _names(tuple(HostFault)), _LOSSY, share=0.4),
}
