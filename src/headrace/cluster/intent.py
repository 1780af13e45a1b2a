"""What a store is to serve, as the leader wants it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.cluster.map_node import ContainerMap


@dataclass(frozen=True, slots=True)
class Intent:
    """The containers of one store, by one map."""

    generation: int
    containers: frozenset[int]

    @classmethod
    def of(cls, store: str, container_map: ContainerMap) -> Intent:
        return cls(
            container_map.generation,
            frozenset(number for number, each in enumerate(container_map.placements) if each.store == store),
        )

    def wants(self, container_id: int) -> bool:
        return container_id in self.containers
