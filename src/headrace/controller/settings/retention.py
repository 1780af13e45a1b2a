"""Settings of retention."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """How often retention policies are enforced."""

    period_s: float = tunable(
        60.0,
        low=0.05,
        high=86_400.0,
        simulate=(0.5, 5.0),
        help="A stream with a policy is looked at this often; what it retains is exact up to this time.",
    )
