"""Settings of the cut series: how often streams are sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.runtime.settings import internal, tunable

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSeriesConfig:
    """How often the controller looks which streams have grown."""

    period_s: float = tunable(
        10.0,
        low=0.05,
        high=60.0,
        simulate=(1.0,),
        help="Pause between two samples of a stream that grows; a minute is a multiple of it. "
        "What a stream was at a time is known to this precision for 360 periods, an hour by default.",
    )
    samples_per_round_max: int = internal(
        2000, simulate=(1, 3), help="Streams sampled in one period; the others wait for the next."
    )
    series_cached_max: int = internal(2000, simulate=(1,), help="Series whose rows are cached.")

    @property
    def period_ms(self) -> int:
        return round(self.period_s * 1000)

    def check(self) -> None:
        """Raises InvalidArgumentError if windows of the period do not make up whole minutes."""
        if _MINUTE_MS % self.period_ms:
            raise InvalidArgumentError(f"period_s = {self.period_s}: a minute is no multiple of it")
