"""Which storage checkpoint a container is rebuilt from, and under which container epoch it goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.storage.checkpoints.listed import Listed, finished
from headrace.storage.checkpoints.manifest import Manifest
from headrace.storage.checkpoints.object_names import EPOCH_STEP, CheckpointId
from headrace.storage.chunks.chunk_names import parse_chunk_name


def next_epoch(names: Iterable[str], checkpoints: Iterable[CheckpointId]) -> int:
    """Return the container epoch that a rebuilt system begins with, far above all that were ever seen.

    ``names`` are those of all objects of the store.
    """
    highest = max((checkpoint.epoch for checkpoint in checkpoints), default=0)
    for name in names:
        parsed = parse_chunk_name(name)
        if parsed is not None and parsed.epoch > highest:
            highest = parsed.epoch
    return (highest // EPOCH_STEP + 1) * EPOCH_STEP


def candidates(
    listed: Listed, manifests: Mapping[CheckpointId, Manifest], at_ms: int | None, kept: int
) -> list[Manifest]:
    """Return the checkpoints that a container may be rebuilt from, the best first.

    ``manifests`` are the whole ones of those ``listed``; ``at_ms`` excludes later ones. Of the others owners
    retain what the newest ``kept`` name.
    """
    order = [found for found in reversed(finished(listed)) if found in manifests]
    return [
        manifests[found]
        for found in order
        if (at_ms is None or manifests[found].time_ms <= at_ms)
        and not is_outdated(found, listed, manifests, kept)
    ]


def is_outdated(
    chosen: CheckpointId, listed: Listed, manifests: Mapping[CheckpointId, Manifest], kept: int
) -> bool:
    """Whether owners may have deleted what a checkpoint names, because they have written newer ones.

    Those that rebuilds have left do not count: nothing was deleted for them.
    """
    newer = [found for found in finished(listed) if chosen < found]
    return sum(found not in manifests or not manifests[found].rebuilt for found in newer) >= kept


def agree(newest: Sequence[Manifest]) -> tuple[int, str]:
    """Return the number of containers, and the id of the system, that the manifests of all containers name.

    Raises:
        InvalidArgumentError: there are none.
        DataCorruptionError: they are of different systems, or those of a container are missing.
    """
    if not newest:
        raise InvalidArgumentError(
            "there is no storage checkpoint in this store: nothing can be rebuilt from it; a server writes "
            "the first ones a second after its start"
        )
    counts = {manifest.containers for manifest in newest}
    systems = {manifest.system for manifest in newest if manifest.system}
    if len(counts) > 1 or len(systems) > 1:
        raise DataCorruptionError(
            f"the storage checkpoints are of different systems: of {_words(counts)} containers, "
            f"ids {_words(systems)}"
        )
    count = counts.pop()
    missing = sorted(set(range(count)) - {manifest.container for manifest in newest})
    if missing:
        raise DataCorruptionError(
            f"of {count} containers these have no whole storage checkpoint that is old enough: "
            f"{_words(missing)}"
        )
    return count, systems.pop() if systems else ""


def _words(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str))) or "none"
