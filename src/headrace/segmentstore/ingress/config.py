"""Bounds of the front door."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """Values only."""

    connections_max: int = 10_000
    """Further connections are closed at once."""

    write_buffer_bytes_max: int = 1 * MIB
    """A connection whose client takes its replies too slowly is not read from while more than this is unsent.
    """

    requests_max: int = 128
    """Requests of one connection that run at the same time, without appends and reads; further ones wait."""

    request_bytes_max: int = 256 * MIB
    """Bytes of running requests of all connections, without appends and reads. One request always fits."""

    waiting_reads_max: int = 16_384
    """Reads of one connection that wait at the tail; one more closes it."""

    transients_max: int = 1_000
    """Transient segments of one connection; one more is refused."""

    drain_s: float = 5.0
    """How long a connection that is being closed may take to send the replies it owes."""
