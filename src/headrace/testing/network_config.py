"""What the simulated network is like when nothing is broken."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Delays, sizes and chances of every link."""

    delay_min_s: float = 50e-6
    delay_max_s: float = 500e-6
    second_per_byte: float = 1 / 1e9
    piece_bytes_max: int = 64 * KIB
    cut_chance: float = 0.2
    """Chance that a piece is cut at a random byte."""

    drop_chance: float = 0.0
    """Chance for each piece that the connection drops when it is sent."""

    window_bytes: int = 256 * KIB
    """Bytes in flight and unread in one direction before the sender has to wait."""

    connect_timeout_s: float = 60.0
    stall_timeout_s: float = 30.0
    """After this time without progress the sender gives the connection up."""
