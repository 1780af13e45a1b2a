"""How often a log in a bucket writes, and how much it has in flight."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLogConfig:
    """How often a log in a bucket writes; without effect on one in files."""

    linger_s: float = tunable(
        0.0,
        low=0.0,
        high=5.0,
        simulate=(0.0, 0.05),
        help="Least time from one object of a container's log to the next, while less than a full one waits: "
        "events may be acknowledged so much later, and fewer requests are paid for. 0: as soon as possible.",
    )

    window: int = internal(8, simulate=(1, 2, 4))
    """Records that are created at the same time."""

    record_bytes_max: int = internal(8 * MIB, simulate=(1024,))
    """Content of one record, if it has more than one frame."""

    full_pause_s: float = internal(1.0)
    """After so long a record that found no space is created again."""
