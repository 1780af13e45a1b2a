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
    usable = [
        manifests[found]
        for found in order
        if (at_ms is None or manifests[found].time_ms <= at_ms)
        and not is_outdated(found, listed, manifests, kept)
    ]
    return [manifest for manifest in usable if not _is_unused(manifest, usable, manifests)]


def _is_unused(
    manifest: Manifest, usable: Sequence[Manifest], manifests: Mapping[CheckpointId, Manifest]
) -> bool:
    """Whether a rebuild has left this one, no server of the rebuilt system has made a checkpoint since, and
    the one it is a copy of is there: the rebuild may have been of an earlier time, or have been killed.
    """
    if not manifest.rebuilt:
        return False
    rebuilds = manifest.checkpoint.rebuilds
    if any(not each.rebuilt and each.checkpoint.rebuilds == rebuilds for each in manifests.values()):
        return False
    content = (manifest.time_ms, manifest.sequence)
    return any(not each.rebuilt and (each.time_ms, each.sequence) == content for each in usable)


def is_outdated(
    chosen: CheckpointId, listed: Listed, manifests: Mapping[CheckpointId, Manifest], kept: int
) -> bool:
    """Whether owners may have deleted what a checkpoint names, because they have written newer ones.

    Those that rebuilds have left do not count: nothing was deleted for them.
    """
    newer = [found for found in finished(listed) if chosen < found]
    return sum(not _is_left(found, manifests) for found in newer) >= kept


def _is_left(found: CheckpointId, manifests: Mapping[CheckpointId, Manifest]) -> bool:
    """Whether a rebuild has left a checkpoint. One that was killed may have left half a manifest; no owner
    has its container epoch, since the first one of a rebuilt system opens the log under the next.
    """
    return manifests[found].rebuilt if found in manifests else found.epoch % EPOCH_STEP == 0


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
