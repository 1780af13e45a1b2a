"""Settings of the optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.limits import MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserConfig:
    """When chunks are rewritten in the background. Times in seconds; rates are those of one container."""

    mode: Literal["auto", "on", "off"] = tunable(
        "auto",
        simulate=("on",),
        help="Whether small chunks are merged; auto: if the store cannot append, where each flush makes one.",
    )
    interval_s: float = tunable(
        60.0,
        low=0.1,
        high=86_400.0,
        simulate=(0.05,),
        help="Pause between two rounds over the segments.",
    )
    bytes_per_s: int = tunable(
        16 * MIB, low=64 * 1024, high=1 << 40, help="Bytes read and written to rewrite chunks, per second."
    )
    requests_per_s: int = tunable(
        50, low=1, high=1_000_000, help="Requests to the store to rewrite chunks, per second."
    )
    retry_max_s: float = internal(600.0, simulate=(1.0,))
    """Longest pause after rounds that the store has ended."""

    segments_max: int = internal(10_000, simulate=(2,))
    """Segments of which it is remembered that nothing is left to do."""
