"""What a load has come to: rates, and quantiles of times. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.errors import InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX
from headrace.model.policies import SEGMENTS_MAX

LOADS = ("write", "read", "latency")
EVENTS_MAX = 1_000_000_000
WRITERS_MAX = 1000
RATE_MAX = 100_000
SAMPLES_MAX = 1_000_000
"""Times of a load that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done. Sizes in bytes."""

    loads: tuple[str, ...] = LOADS
    events: int = 100_000
    """Written, and read back."""
    size: int = 1000
    """Of each event."""
    writers: int = 1
    segments: int = 4
    keys: int = 100
    rate: int = 1000
    """Events per second of the load *latency*."""
    seconds: float = 5.0
    """How long that takes."""

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("events", self.events, 1, EVENTS_MAX),
            ("size", self.size, 1, EVENT_BYTES_MAX),
            ("writers", self.writers, 1, WRITERS_MAX),
            ("segments", self.segments, 1, SEGMENTS_MAX),
            ("keys", self.keys, 1, 1_000_000),
            ("rate", self.rate, 1, RATE_MAX),
            ("seconds", self.seconds, 0.1, SAMPLES_MAX / max(1, self.rate)),
        ):
            if not low <= value <= high:
                raise InvalidArgumentError(f"--{name} {value} is outside {low} to {high:.12g}")


@dataclass(slots=True)
class Result:
    """One load, or one view of it."""

    name: str
    events: int
    size_bytes: int
    seconds: float
    times_ms: Sequence[float] = field(default_factory=list, repr=False)

    def document(self) -> dict[str, object]:
        """Return rates and quantiles, for programs and for a table."""
        seconds = max(self.seconds, 1e-9)
        return {
            "load": self.name,
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "mb_per_s": round(self.size_bytes / seconds / 1e6, 2),
            "events_per_s": round(self.events / seconds),
            **{f"p{share}_ms": self._quantile(share / 100) for share in (50, 95, 99)},
        }

    def _quantile(self, share: float) -> float | None:
        if not self.times_ms:
            return None
        ordered = sorted(self.times_ms)
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)
