"""Which storage checkpoints of a container are retained, decided from a listing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.storage.checkpoints.object_names import (
    CheckpointId,
    manifest_name,
    parse_object_name,
    part_name,
)

UNFINISHED_KEPT: Final = 3
"""A manifest whose creation has an unknown outcome may appear later: its parts stay for so many numbers."""


@dataclass(slots=True)
class ListedCheckpoint:
    """What the store has of one checkpoint: lengths in bytes."""

    parts: dict[int, int] = field(default_factory=dict)
    manifest_bytes: int | None = None
    """None without a manifest: the checkpoint is unfinished."""


Listed = dict[CheckpointId, ListedCheckpoint]


def sort_objects(objects: Iterable[tuple[str, int]]) -> dict[int, Listed]:
    """Return the checkpoints among named objects with their lengths, by container, the oldest first."""
    found: dict[int, Listed] = {}
    for name, length in objects:
        parsed = parse_object_name(name)
        if parsed is None:
            continue
        listed = found.setdefault(parsed.container, {}).setdefault(parsed.checkpoint, ListedCheckpoint())
        if parsed.part is None:
            listed.manifest_bytes = length
        else:
            listed.parts[parsed.part] = length
    return {container: dict(sorted(found[container].items())) for container in sorted(found)}


def finished(listed: Mapping[CheckpointId, ListedCheckpoint]) -> list[CheckpointId]:
    """Return the checkpoints with a manifest, in order."""
    return [found for found in listed if listed[found].manifest_bytes is not None]


def next_checkpoint(
    listed: Mapping[CheckpointId, ListedCheckpoint], container_epoch: int, last_number: int = -1
) -> CheckpointId:
    """Return the next checkpoint of an owner of ``container_epoch``; it has used ``last_number``."""
    return CheckpointId(container_epoch, max([last_number, *(found.number for found in listed)]) + 1)


def plan_removal(listed: Mapping[CheckpointId, ListedCheckpoint], kept: int) -> list[CheckpointId]:
    """Return the checkpoints to remove, in order, so that the newest ``kept`` finished ones stay.

    Unfinished ones go when they are older than all of these, or than the last few numbers.
    """
    whole = finished(listed)
    oldest = whole[-kept] if len(whole) >= kept else None
    recent = set(list(listed)[-UNFINISHED_KEPT:])
    return [
        found
        for found, facts in listed.items()
        if (oldest is not None and found < oldest) or (facts.manifest_bytes is None and found not in recent)
    ]


def object_names(container: int, checkpoint: CheckpointId, listed: ListedCheckpoint) -> list[str]:
    """Return all names of a checkpoint; the manifest first: without it the others mean nothing."""
    names = [] if listed.manifest_bytes is None else [manifest_name(container, checkpoint)]
    return names + [part_name(container, checkpoint, part) for part in sorted(listed.parts)]
