"""Settings of watermarks."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkConfig:
    """How often watermarks are made of the times that writers note."""

    period_s: float = tunable(
        10.0, low=0.1, high=3600.0, help="Time between two looks at the writers of a stream."
    )
    mark_stream_bytes_max: int = internal(
        256 * MIB, help="Watermarks of one stream that are retained, in bytes."
    )
    streams_at_once: int = internal(10, simulate=(1, 2), help="Streams that are looked at together.")
    trim_period_s: float = internal(600.0, help="Time between two looks for watermarks to drop.")
