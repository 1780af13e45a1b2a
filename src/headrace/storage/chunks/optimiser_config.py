"""Settings of the optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserConfig:
    """When chunks are rewritten in the background. Times in seconds; rates are those of one container."""

    mode: Literal["auto", "on", "off"] = tunable(
        "auto",
        simulate=("on",),
        help="Whether small chunks are merged; auto: if the store cannot append, where each flush makes one.",
    )
    second_bytes_max: int = tunable(
        16 * MIB,
        low=64 * KIB,
        high=1024 * GIB,
        help="Bytes that a container may read and write to merge chunks, per second.",
    )
    requests_per_s: int = internal(50)
    """And requests to the store."""

    interval_s: float = internal(60.0, simulate=(0.05,))
    """Pause between two rounds over the segments."""

    retry_max_s: float = internal(600.0, simulate=(1.0,))
    """Longest pause after rounds that the store has ended."""

    segments_max: int = internal(10_000, simulate=(2,))
    """Segments of which it is remembered that nothing is left to do."""
