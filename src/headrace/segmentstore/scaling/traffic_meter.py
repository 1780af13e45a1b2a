"""The load of one segment: rates over several windows, and what they mean. Pure.

A rate is an exponentially weighted average. A sample of ``d`` seconds has the weight
``1 - exp(-d / window)``, divided by the weight of all the time observed: so the first sample is the average,
a young segment is judged by all it has seen, and silence decays.

A transaction arrives at once and was written over its lifetime. It is counted as if each part had been
counted when it was written: an average over the past has a closed form for that, so nothing is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.segment_report import Load
from headrace.segmentstore.scaling.config import ScalingConfig

PIECES_MAX: Final = 10_000

_PAUSE: Final = 2.0
"""Slow windows for which a segment may seem not to be hot and still count as hot all the time: between the
commits of transactions the rates decay."""

_SILENCE: Final = 1e-4
"""Fraction of the target below which a rate that decays is 0."""


@dataclass(slots=True)
class Judgement:
    """What is to be reported of a segment. The fields are those of the report."""

    load: Load
    pieces: int
    permille: int
    valid_ms: int


class TrafficMeter:
    """The meter of one segment. Times are seconds of any steady clock; amounts are those of the target."""

    __slots__ = (
        "_cold_muted",
        "_config",
        "_hot_at",
        "_hot_muted",
        "_hot_since",
        "_marked",
        "_peak",
        "_rates",
        "_sampled",
        "_seen",
        "_since",
        "_target",
        "_traffic",
        "_warm",
        "_windows",
    )

    def __init__(
        self, config: ScalingConfig, target: float, now: float, *, may_be_marked: bool = False
    ) -> None:
        """Begin to meter.

        Args:
            config: windows and factors.
            target: the rate that the segment should have at most, per second.
            now: the time.
            may_be_marked: whether a former meter may have reported the segment cold or silent.
        """
        self._config = config
        self._target = target
        self._windows = (config.fast_s, config.medium_s, config.slow_s)
        self._rates = [0.0, 0.0, 0.0]
        self._since = self._sampled = self._traffic = self._warm = now
        self._seen = 0.0
        self._peak = 0.0
        """The highest slow rate since the segment was warm, or reported cold."""
        self._marked: Load | None = Load.COLD if may_be_marked else None
        """COLD or SILENT, if that was reported last."""
        self._hot_since = self._hot_at = -math.inf
        """When it became hot, and was last."""
        self._hot_muted = now + config.cool_down_s
        self._cold_muted = now

    @property
    def rates(self) -> tuple[float, float, float]:
        """The rates over the fast, the medium and the slow window, per second."""
        fast, medium, slow = self._rates
        return fast, medium, slow

    def sample(self, now: float, amount: float, merged: Sequence[tuple[float, float]] = ()) -> None:
        """``amount`` came since the last sample, and by transactions (lifetime in seconds, amount) each."""
        elapsed = now - self._sampled
        if elapsed <= 0.0:
            return
        self._sampled = now
        self._seen = seen = now - self._since
        rates = self._rates
        if not amount and not merged and not rates[2]:
            return  # most segments of a large store, most of the time
        rate = amount / elapsed
        for index, window in enumerate(self._windows):
            whole = 1.0 - math.exp(-seen / window)
            rates[index] += (1.0 - math.exp(-elapsed / window)) / whole * (rate - rates[index])
            for lifetime, part in merged:
                lived = max(lifetime, elapsed)
                rates[index] += (1.0 - math.exp(-min(lived, seen) / window)) / whole * part / lived
        if amount or merged:
            self._traffic = now
        elif rates[2] < _SILENCE * self._target:
            rates[:] = [0.0, 0.0, 0.0]
        if self._is_hot():
            if now - self._hot_at > _PAUSE * self._config.slow_s:
                self._hot_since = now
            self._hot_at = now
        slow = rates[2]
        if slow >= self._config.cold_factor * self._target:
            self._warm = now
            self._peak = 0.0
        elif slow > self._peak:
            self._peak = slow

    def judge(self, now: float, *, only_hot: bool = False) -> Judgement | None:
        """Return what is to be reported after the last sample. It counts as reported from then on."""
        if self._marked is not None and self._warm == self._sampled and not only_hot:
            self._marked = None
            if self._hot_at != self._sampled:
                return Judgement(Load.WARM, 0, self._permille(self._rates[2]), 0)
        if self._hot_at == self._sampled:
            if now < max(self._hot_muted, self._hot_since + self._config.hot_s):
                return None
            self._hot_muted = now + self._config.cool_down_s
            highest = max(self._rates)
            pieces = min(PIECES_MAX, max(2, int(highest / self._target)))
            return Judgement(Load.HOT, pieces, self._permille(highest), 0)
        return None if only_hot else self._judge_cold(now)

    def _is_hot(self) -> bool:
        config, target, seen = self._config, self._target, self._seen
        fast, medium, slow = self._rates
        return (
            (fast > config.fast_factor * target and seen >= config.fast_s)
            or (medium > config.medium_factor * target and seen >= config.medium_s)
            or (slow > target and seen >= config.slow_s)
        )

    def _judge_cold(self, now: float) -> Judgement | None:
        config = self._config
        if now - self._warm < config.cold_s or max(self._rates) >= self._target:
            return None
        load = Load.SILENT if now - self._traffic >= config.cold_s else Load.COLD
        if self._marked is Load.SILENT if load is Load.SILENT else now < self._cold_muted:
            return None
        self._marked = load
        self._cold_muted = now + config.cold_s
        peak, self._peak = self._peak, self._rates[2]
        if load is Load.SILENT:
            return Judgement(load, 0, 0, 0)
        return Judgement(load, 0, self._permille(peak), int(1500 * config.cold_s))

    def _permille(self, rate: float) -> int:
        return min(1 << 31, math.ceil(1000 * rate / self._target))
