"""The map: which store is to serve each container, as the leader wants it.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

MAP: Final = "containers"
"""The path of the node."""

NOBODY: Final = ""
"""In place of the id of a store."""

_KIND: Final = b"m"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of one container, and the map with which it got there."""

    store: str = NOBODY
    generation: int = 0
    changed_ms: int = 0
    """By the clock of the leader that wrote that map."""


@dataclass(frozen=True, slots=True)
class ContainerMap:
    """All containers, in order. Each map has the next generation; 0 is the one before the first."""

    generation: int
    placements: tuple[Placement, ...]

    @classmethod
    def empty(cls, containers: int) -> ContainerMap:
        return cls(0, (Placement(),) * containers)


def encode_map(container_map: ContainerMap) -> bytes:
    stores = sorted({each.store for each in container_map.placements} - {NOBODY})
    numbers = {store: number for number, store in enumerate(stores, 1)} | {NOBODY: 0}
    writer = FieldWriter(_KIND, _VERSION)
    writer.uint(container_map.generation)
    writer.uint(len(stores))
    for store in stores:
        writer.text(store)
    writer.uint(len(container_map.placements))
    for each in container_map.placements:
        writer.uint(numbers[each.store])
        writer.uint(each.generation)
        writer.uint(each.changed_ms)
    return writer.to_bytes()


def decode_map(data: bytes) -> ContainerMap:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    generation = reader.uint()
    stores = [NOBODY, *(reader.text() for _ in range(reader.count()))]
    placements = []
    for _ in range(reader.count(3)):
        number = reader.uint()
        if number >= len(stores):
            raise DataCorruptionError(f"the map names store {number} of {len(stores) - 1}")
        placements.append(Placement(stores[number], reader.uint(), reader.uint()))
    reader.end()
    return ContainerMap(generation, tuple(placements))
