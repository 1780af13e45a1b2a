"""How fast the load of segments is judged."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import InvalidArgumentError
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingConfig:
    """Windows over which rates are averaged, and how long a segment must be cold to be merged."""

    sample_s: float = tunable(
        3.0,
        low=0.05,
        high=60.0,
        help="Counters of segments are read this often. Shorter: a faster reaction, more work on the loop.",
    )
    slow_s: float = tunable(
        50.0,
        low=0.1,
        high=3600.0,
        help="A segment is hot if its rate over this window is above its target, over half of it above twice "
        "that, over a fifth above 5 times that. Longer: less is split for a load that comes and goes.",
    )
    hot_s: float = tunable(
        15.0,
        low=0.0,
        high=3600.0,
        help="It is split once it was hot for this long, but for short pauses. Longer: fewer splits for a "
        "single burst, and one into the right number of pieces.",
    )
    cold_s: float = tunable(
        600.0,
        low=0.2,
        high=86_400.0,
        help="A segment is cold once its rate was below half its target for this long. Longer: a load that "
        "returns finds its segments, and they stay when it does not. Longer than the pauses of the load.",
    )
    cool_down_s: float = tunable(
        30.0,
        low=0.1,
        high=3600.0,
        help="A new segment is not reported hot for this long, a hot one not again. Longer: fewer steps "
        "that are wrong, more time until a large one is complete.",
    )
    fast_factor: float = internal(5.0, help="Multiple of the target that is hot over the fast window.")
    medium_factor: float = internal(2.0, help="Likewise over the medium window.")
    cold_factor: float = internal(0.5, help="Fraction of the target below which a segment is cold.")
    queue_max: int = internal(1000, help="Reports that wait for the controller.")
    expiry_s: float = internal(600.0, help="A report that could not be sent for this long is dropped.")
    timeout_s: float = internal(30.0, help="How long a controller may take for the reports of one call.")
    retry_s: float = internal(0.5, help="Pause after reports that were not taken.")

    @property
    def fast_s(self) -> float:
        """The window over which a large step is seen soon."""
        return self.slow_s / 5

    @property
    def medium_s(self) -> float:
        """The window between."""
        return self.slow_s / 2

    def check(self) -> None:
        """Raises InvalidArgumentError unless the windows grow, and hold a sample."""
        if not self.sample_s <= self.fast_s or self.slow_s > self.cold_s:
            raise InvalidArgumentError(
                "slow_s is five times sample_s at least, and at most cold_s: they are "
                f"{self.slow_s}, {self.sample_s} and {self.cold_s}"
            )
