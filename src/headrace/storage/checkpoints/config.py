"""Settings of storage checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCheckpointsConfig:
    """When the log of a container is copied beside its chunks."""

    interval_s: float = tunable(
        600.0,
        low=0.0,
        high=86_400.0,
        simulate=(0.2, 2.0),
        help="A copy of each container's log is put beside its chunks so long after the last one, if "
        "anything has changed, for `headrace storage rebuild`; 0 for no copies.",
    )
    chunks: int = internal(1000, simulate=(3, 50))
    """A copy is made earlier after so many new chunks."""

    kept: int = internal(2)
    """Copies that are retained, two at least. What was deleted since the oldest of them takes space until
    then."""

    pause_s: float = internal(10.0, simulate=(0.05,))
    """Least time between two copies, and from a failed attempt to the next."""

    fence_s: float = internal(45.0, simulate=(0.5,))
    """How often an owner looks whether its system was rebuilt from its storage, and ends if it was. Users are
    promised a minute, in which the look itself and the end have to fit."""

    look_s: float = internal(1.0, simulate=(0.05,))
    """How often the counters are compared with these bounds."""

    truncation_wait_s: float = internal(10.0, simulate=(0.2,))
    """How long a copy waits for the log to be truncated, so that it is short."""

    timeout_s: float = internal(120.0, simulate=(5.0,))
    """A call to the store, of up to ``part_bytes``, that takes longer has failed."""

    part_bytes: int = internal(16 * MIB, simulate=(4096,))

    @property
    def enabled(self) -> bool:
        return self.interval_s > 0
