"""How much a log in a bucket has in flight, and how often it writes."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB
from headrace.runtime.settings import internal


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLogConfig:
    """Of one log; its frames have a ``WalConfig``."""

    window: int = internal(8, simulate=(1, 2, 4))
    """Records that are created at the same time."""

    record_bytes_max: int = internal(8 * MIB, simulate=(1024,))
    """Content of one record, if it has more than one frame."""

    linger_s: float = internal(0.0, simulate=(0.0, 0.05))
    """Least time from one record to the next: bounds how many requests are paid for."""

    full_pause_s: float = internal(1.0)
    """After so long a record that found no space is created again."""
