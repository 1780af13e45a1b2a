"""Names of the objects of storage checkpoints.

``_system/checkpoints/<container>/<epoch>-<number>.<part>`` and ``....manifest``: container in decimal, epoch
with 20 digits, number with 10, part with 5. So names sort as their checkpoints do. None of them is that of a
chunk.

Source: docs/formats/storage-checkpoint.md.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

CHECKPOINTS_PREFIX: Final = "_system/checkpoints/"
PARTS_MAX: Final = 100_000
EPOCH_STEP: Final = 1 << 24
"""A rebuilt system begins at the next multiple of it: an owner of the former one that is restarted so often
does not reach its container epochs.
"""
_MANIFEST: Final = "manifest"
_NAME: Final = re.compile(
    re.escape(CHECKPOINTS_PREFIX) + r"(0|[1-9]\d{0,8})/(\d{20})-(\d{10})\.(\d{5}|manifest)", re.ASCII
)


class CheckpointId(NamedTuple):
    """Which storage checkpoint of a container; later ones are greater."""

    epoch: int
    """Container epoch."""
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    @property
    def rebuilds(self) -> int:
        """How often, at least, its system was rebuilt before it."""
        return self.epoch // EPOCH_STEP


class CheckpointObject(NamedTuple):
    """The name of an object taken apart; ``part`` is None for the manifest."""

    container: int
    checkpoint: CheckpointId
    part: int | None


def container_prefix(container: int) -> str:
    """Return what the names of all objects of a container's checkpoints begin with."""
    return f"{CHECKPOINTS_PREFIX}{container}/"


def part_name(container: int, checkpoint: CheckpointId, part: int) -> str:
    """Return the name of a part, which is below ``PARTS_MAX``."""
    return f"{_stem(container, checkpoint)}.{part:05d}"


def manifest_name(container: int, checkpoint: CheckpointId) -> str:
    """Return the name of the object that makes a checkpoint whole."""
    return f"{_stem(container, checkpoint)}.{_MANIFEST}"


def parse_object_name(name: str) -> CheckpointObject | None:
    """Take a name apart; None if it is of no storage checkpoint."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    part = None if found[4] == _MANIFEST else int(found[4])
    return CheckpointObject(int(found[1]), CheckpointId(int(found[2]), int(found[3])), part)


def _stem(container: int, checkpoint: CheckpointId) -> str:
    return f"{container_prefix(container)}{checkpoint.epoch:020d}-{checkpoint.number:010d}"
