"""What the front door counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IngressStatistics:
    """Counters of all connections since the start."""

    connections_accepted: int = 0
    connections_refused: int = 0
    bytes_received: int = 0
    appends: int = 0
    append_runs: int = 0
    reads: int = 0
    requests: int = 0
    violations: int = 0
    capacity_waits: int = 0
