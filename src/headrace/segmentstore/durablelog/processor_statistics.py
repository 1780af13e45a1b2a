"""Statistics of the operation processor. Its own module because all its parts count in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.segmentstore.admission.throttle.gate import ThrottleStatistics


@dataclass(slots=True)
class ProcessorStatistics:
    """Counters since the start; current gauges."""

    blocks: int = 0
    runs: int = 0
    """Append batches."""
    operations: int = 0
    bytes_appended: int = 0
    frames: int = 0
    frames_durable: int = 0
    frames_in_flight: int = 0
    requests_queued: int = 0
    """Requests that wait for the log, ``urgent_queued`` of them for frames only."""
    urgent_queued: int = 0
    connections_waiting: int = 0
    capacity_waits: int = 0
    throttle: ThrottleStatistics = field(default_factory=ThrottleStatistics)
