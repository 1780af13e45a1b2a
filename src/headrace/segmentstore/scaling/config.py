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
    fast_s: float = tunable(
        10.0,
        low=0.1,
        high=3600.0,
        help="A segment is hot if its rate over this window is above 5 times its target. Shorter: a large "
        "step is answered sooner, and a burst is taken for one.",
    )
    medium_s: float = tunable(
        25.0,
        low=0.1,
        high=3600.0,
        help="Likewise above twice its target.",
    )
    slow_s: float = tunable(
        50.0,
        low=0.1,
        high=3600.0,
        help="Likewise above its target. Longer: less is split for a load that comes and goes.",
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
    fast_factor: float = internal(5.0, help="Multiple of the target that makes a segment hot at once.")
    medium_factor: float = internal(2.0, help="Likewise over the medium window.")
    cold_factor: float = internal(0.5, help="Fraction of the target below which a segment is cold.")
    queue_max: int = internal(1000, help="Reports that wait for the controller.")
    expiry_s: float = internal(600.0, help="A report that could not be sent for this long is dropped.")
    timeout_s: float = internal(30.0, help="How long the controller may take for one report.")
    retry_s: float = internal(0.5, help="Pause after a report that was not taken.")

    def check(self) -> None:
        """Raises InvalidArgumentError unless the windows grow, and hold a sample."""
        windows = [self.sample_s, self.fast_s, self.medium_s, self.slow_s, self.cold_s]
        if windows != sorted(windows):
            raise InvalidArgumentError(
                "sample_s, fast_s, medium_s, slow_s and cold_s must not shrink in this order"
            )
